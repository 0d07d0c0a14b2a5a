//! Directives, and how a store keeps them.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::config::display;
use crate::config::value::{BLOCKED, network, part_choice};
use crate::limit::PartitionId;
use crate::request::{Part, StoredPart};
use crate::store::directives::StoredDirective;

/// What an operator ordered for a client, until some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Identifies the directive; one with the same policy, client and kind replaces it.
    pub id: String,
    /// When the directive ends.
    pub until: Timestamp,
    /// What the directive says.
    pub text: DirectiveText,
}

/// What a directive says, as stores keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveText {
    /// Name of the policy; `None` means every policy that knows the client's parts.
    pub policy: Option<String>,
    /// Partition ids of the client, in hex; empty if the directive is for several clients or for every policy.
    #[serde(default)]
    pub ids: Vec<String>,
    /// What the parts of a partition must be; empty if only an id was named.
    #[serde(default)]
    pub parts: Vec<PartText>,
    /// The client, as shown to people.
    pub shown: String,
    /// When it was ordered, in ms since 1970.
    pub since_ms: u64,
    /// What is ordered for the client.
    pub kind: DirectiveKind,
}

/// What is ordered for a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectiveKind {
    /// The client gets these quotas, `unlimited` or `blocked`, written as in overrides.
    Grant(Vec<String>),
    /// All windows began afresh at this time, in µs since 1970 by the clock that dates charges; `None` if they are
    /// about to.
    Reset(Option<u64>),
}

/// What a part of a partition must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartText {
    /// The part, as written in `partition`.
    pub part: String,
    /// What the value of the part must be.
    pub is: PartIs,
}

/// What the value of a part must be: one of several values, an address in a network, or a text that matches a glob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartIs {
    /// One of these values, as digests in hex.
    Values(Vec<String>),
    /// An address in this network.
    Network(String),
    /// A text that begins like this glob, which ends with `*`.
    Glob(String),
}

impl Directive {
    /// Makes a directive, which ends at `until`, rounded up to a millisecond.
    pub fn new(text: DirectiveText, until: Timestamp) -> Self {
        let until = Timestamp(until.0.div_ceil(US_PER_MS) * US_PER_MS);
        // A block has an id of its own, so it neither replaces another grant nor ends with it.
        let kind = match &text.kind {
            DirectiveKind::Grant(grant) if *grant == [BLOCKED] => "block",
            DirectiveKind::Grant(_) => "grant",
            DirectiveKind::Reset(_) => "reset",
        };
        let named = serde_json::json!([kind, text.policy, text.ids, text.parts]);
        let digest = blake3::hash(named.to_string().as_bytes());
        let id = digest.to_hex()[..ID_DIGITS].to_owned();
        Self { id, until, text }
    }

    /// Whether the directive blocks its client.
    pub fn blocks(&self) -> bool {
        matches!(&self.text.kind, DirectiveKind::Grant(grant) if *grant == [BLOCKED])
    }

    /// Returns the directive in the form that stores keep.
    pub fn stored(&self) -> StoredDirective {
        StoredDirective {
            id: self.id.clone(),
            until: self.until,
            text: serde_json::to_string(&self.text).expect("texts and numbers are JSON"),
        }
    }

    /// Reads a directive that a store kept; `None` if this version of the gateway cannot read it.
    pub fn read(stored: StoredDirective) -> Option<Self> {
        Some(Self {
            text: serde_json::from_str(&stored.text).ok()?,
            id: stored.id,
            until: stored.until,
        })
    }

    /// Yields the partition ids of the client, if the directive is for a single one.
    pub fn partition_ids(&self) -> impl Iterator<Item = PartitionId> {
        self.text.ids.iter().filter_map(|hex| partition_id(hex))
    }

    /// Returns what parts must be; `None` if this version cannot read it.
    pub fn parts(&self) -> Option<Vec<(Part, StoredPart)>> {
        self.text.parts.iter().map(PartText::read).collect()
    }
}

impl PartText {
    /// Writes what a part must be.
    pub fn of(part: &Part, is: &StoredPart) -> Self {
        Self {
            part: display::part(part),
            is: match is {
                StoredPart::Values(digests) => {
                    PartIs::Values(digests.iter().copied().map(hex).collect())
                }
                StoredPart::Network(network) => PartIs::Network(network.to_string()),
                StoredPart::Glob(glob) => PartIs::Glob(glob.clone()),
            },
        }
    }

    fn read(&self) -> Option<(Part, StoredPart)> {
        let part = part_choice(&self.part).ok()?.0.pop()?;
        let is = match &self.is {
            PartIs::Values(digests) => {
                let digests = digests.iter().map(|digest| partition_id(digest));
                StoredPart::Values(digests.collect::<Option<_>>()?)
            }
            PartIs::Network(text) => StoredPart::Network(network(text).ok()?),
            PartIs::Glob(glob) => StoredPart::Glob(glob.clone()),
        };
        Some((part, is))
    }
}

/// Writes a partition id, or the digest of a value, in 32 hex digits.
pub fn hex(id: PartitionId) -> String {
    format!("{:032x}", id.bits())
}

/// Reads a partition id of 32 hex digits.
pub fn partition_id(hex: &str) -> Option<PartitionId> {
    let is_hex = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = is_hex.then(|| u128::from_str_radix(hex, 16).ok())?;
    bits.map(PartitionId::new)
}

/// Stores keep the ends of directives in ms.
const US_PER_MS: u64 = 1000;
/// Hex digits of a directive's id.
const ID_DIGITS: usize = 32;
