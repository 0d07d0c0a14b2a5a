//! Directives, and how a store keeps them.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::config::display;
use crate::config::value::{BLOCKED, network, part_choice};
use crate::limit::PartitionId;
use crate::request::{Part, StoredPart};
use crate::store::directives::StoredDirective;

/// What an operator ordered for a client, until a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Names it: another one of the same policy, client and kind takes its place.
    pub id: String,
    /// When it ends.
    pub until: Timestamp,
    /// What it says.
    pub text: DirectiveText,
}

/// What a directive says, as stores keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveText {
    /// The policy by its name; none: every policy that knows the client's parts.
    pub policy: Option<String>,
    /// The partition ids of the one client that it is about, in hex; none if it is about several.
    #[serde(default)]
    pub ids: Vec<String>,
    /// What it says of the parts of a partition; nothing if only the id was named.
    #[serde(default)]
    pub parts: Vec<PartText>,
    /// How the client is shown.
    pub shown: String,
    /// When it was ordered, in ms since 1970.
    pub since_ms: u64,
    /// What is ordered.
    pub kind: DirectiveKind,
}

/// What is ordered for a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectiveKind {
    /// These quotas, `unlimited` or `blocked`, as overrides have them.
    Grant(Vec<String>),
    /// All windows began afresh at this time, in µs since 1970 by the clock that dates charges; none: they are
    /// about to.
    Reset(Option<u64>),
}

/// What is said of a part of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartText {
    /// The part, as `partition` has it.
    pub part: String,
    /// What is said of it.
    pub is: PartIs,
}

/// What is said of a part: one of these values, as digests in hex; in this network; or it begins so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartIs {
    /// One of these values, as digests.
    Values(Vec<String>),
    /// An address in this network.
    Network(String),
    /// A text that begins so, with a `*` at its end.
    Glob(String),
}

impl Directive {
    /// Makes a directive, which ends with the millisecond of `until`.
    pub fn new(text: DirectiveText, until: Timestamp) -> Self {
        let until = Timestamp(until.0.div_ceil(US_PER_MS) * US_PER_MS);
        // A block stands beside what was set, and ends by itself.
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

    /// Whether it blocks its client.
    pub fn blocks(&self) -> bool {
        matches!(&self.text.kind, DirectiveKind::Grant(grant) if *grant == [BLOCKED])
    }

    /// Returns it as a store keeps it.
    pub fn stored(&self) -> StoredDirective {
        StoredDirective {
            id: self.id.clone(),
            until: self.until,
            text: serde_json::to_string(&self.text).expect("texts and numbers are JSON"),
        }
    }

    /// Reads one that a store kept; none if another version of the gateway wrote what this one cannot read.
    pub fn read(stored: StoredDirective) -> Option<Self> {
        Some(Self {
            text: serde_json::from_str(&stored.text).ok()?,
            id: stored.id,
            until: stored.until,
        })
    }

    /// Returns the partition ids of the one client that it is about.
    pub fn partition_ids(&self) -> impl Iterator<Item = PartitionId> {
        self.text.ids.iter().filter_map(|hex| partition_id(hex))
    }

    /// Returns what it says of parts; none if this version cannot read it.
    pub fn parts(&self) -> Option<Vec<(Part, StoredPart)>> {
        self.text.parts.iter().map(PartText::read).collect()
    }
}

impl PartText {
    /// Writes what is said of a part.
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

/// Stores keep ends in ms.
const US_PER_MS: u64 = 1000;
/// Hex digits of a directive's id.
const ID_DIGITS: usize = 32;
