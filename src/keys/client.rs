//! The client that an operator names under a policy: by its value, as in `overrides`, or by its id.

use std::collections::BTreeSet;

use super::directive::{DirectiveKind, DirectiveText, PartText, hex, partition_id};
use super::error::KeysError;
use crate::config::display;
use crate::config::value::Chooser;
use crate::limit::PartitionId;
use crate::request::{ClientPrefixes, NamedClient, Part, PartPattern, Pattern, StoredPart};
use crate::snapshot::{Policy, Snapshot};

/// Clients of a policy, as an operator names them.
#[derive(Clone, Debug)]
pub(super) struct NamedClients {
    /// What the parts must be; `None` if only an id was named.
    pattern: Option<Pattern>,
    /// Partition ids, if one client is named. There are several if listeners identify clients by different prefixes of
    /// addresses.
    pub(super) ids: Vec<PartitionId>,
    parts: Vec<(Part, StoredPart)>,
    /// The clients, as shown to people.
    pub(super) shown: String,
    /// How the clients were named, in words: `one address`, `addresses in 10.0.0.0/8`.
    pub(super) form: String,
}

/// The keys of digests: of partition ids, and of what people see.
#[derive(Clone, Copy, Debug)]
pub(super) struct DigestKeys<'k> {
    pub(super) partition: &'k [u8; 32],
    pub(super) shown: &'k [u8; 32],
}

impl NamedClients {
    /// Reads `value`, which names clients of `policy`.
    ///
    /// # Errors
    /// What is wrong with `value`, and what was expected.
    pub(super) fn read(
        value: &str,
        policy: &Policy,
        snapshot: &Snapshot,
        keys: DigestKeys<'_>,
    ) -> Result<Self, String> {
        if let Some(digits) = value.strip_prefix("id:") {
            let id = partition_id(digits)
                .ok_or("the id has 32 hex digits, as `tollgate keys list` prints them")?;
            return Ok(Self {
                pattern: None,
                ids: vec![id],
                parts: Vec::new(),
                shown: format!("id:{}", hex(id)),
                form: "one client, by its id".to_owned(),
            });
        }
        let partition = &policy.partition;
        let chooser = Chooser {
            by: partition,
            are_tiers: false,
        };
        let pattern = match &*partition.0 {
            [] if matches!(value, "" | "*") => Vec::new(),
            [] => {
                return Err(format!(
                    "`{}` has one quota for all clients: write `*`",
                    policy.name
                ));
            }
            _ => (chooser.pattern(value))
                .map_err(|error| format!("the value {}", error.in_a_line()))?,
        };
        let prefixes = || snapshot.listeners.iter().map(|one| one.identity.prefixes);
        let said = partition.0.iter().zip(&pattern);
        let parts = said.filter_map(|(choice, said)| {
            let said = said.as_ref()?;
            let part = &choice.0[said.alternative()];
            let is = StoredPart::of(said, part, keys.partition, prefixes());
            Some((part.clone(), is))
        });
        let parts: Vec<(Part, StoredPart)> = parts.collect();
        let (mut ids, mut shown) = (Vec::new(), None);
        for prefixes in prefixes() {
            let Some(client) = NamedClient::of(partition, &pattern, prefixes) else {
                ids.clear();
                break;
            };
            let names = snapshot.log.clients;
            shown.get_or_insert_with(|| client.redacted(keys.shown, names).to_string());
            let id = client.partition_id(keys.partition);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let form = form(&pattern, &parts, snapshot);
        Ok(Self {
            pattern: Some(pattern),
            shown: shown
                .filter(|_| !ids.is_empty())
                .unwrap_or_else(|| spelled(&parts)),
            ids,
            parts,
            form,
        })
    }

    /// Returns a directive for these clients, under one policy or, without one, under each that knows their parts.
    pub(super) fn directive(
        &self,
        policy: Option<&str>,
        kind: DirectiveKind,
        since_ms: u64,
    ) -> DirectiveText {
        let is_named = policy.is_some();
        DirectiveText {
            policy: policy.map(str::to_owned),
            ids: if is_named {
                self.ids.iter().copied().map(hex).collect()
            } else {
                Vec::new()
            },
            parts: (self.parts.iter())
                .map(|(part, is)| PartText::of(part, is))
                .collect(),
            shown: self.shown.clone(),
            since_ms,
            kind,
        }
    }

    /// Checks that a single client is named.
    ///
    /// # Errors
    /// If several clients are named.
    pub(super) fn expect_one(&self) -> Result<(), KeysError> {
        if self.ids.is_empty() {
            return Err(KeysError::Wrong(format!(
                "`{}` names several clients, expected one: all parts of its policy's partition",
                self.shown
            )));
        }
        Ok(())
    }

    /// Whether a part of the partition is named, so that other policies may know it, too.
    pub(super) fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Whether a directive is about these clients and no others.
    pub(super) fn are_those_of(&self, text: &DirectiveText) -> bool {
        let own = self.directive(text.policy.as_deref(), text.kind.clone(), 0);
        let has_id = |id: &String| text.ids.contains(id);
        if own.ids.is_empty() {
            own.parts == text.parts && !own.parts.is_empty()
        } else {
            own.ids.iter().any(has_id)
        }
    }

    /// Returns what the parts must be, unless only an id is known.
    pub(super) fn pattern(&self) -> Option<&Pattern> {
        self.pattern.as_ref()
    }
}

/// Spells what parts that match several clients must be. Values are shown as digests.
fn spelled(parts: &[(Part, StoredPart)]) -> String {
    let one = |(part, is): &(Part, StoredPart)| {
        let said = match is {
            StoredPart::Network(network) => network.to_string(),
            StoredPart::Glob(glob) => printable(glob),
            StoredPart::Values(digests) => match digests.first() {
                Some(digest) => format!("~{}", &hex(*digest)[..SHOWN_DIGITS]),
                None => String::new(),
            },
        };
        match parts {
            [_] => said,
            _ => format!("{}={said}", display::part(part)),
        }
    };
    let spelled: Vec<String> = parts.iter().map(one).collect();
    match &*spelled {
        [] => "*".to_owned(),
        spelled => spelled.join(", "),
    }
}

/// Describes in words how clients were named: by an address, a network, a glob or a value.
fn form(pattern: &Pattern, parts: &[(Part, StoredPart)], snapshot: &Snapshot) -> String {
    let one = |(said, (part, is)): (&PartPattern, &(Part, StoredPart))| match (part, is) {
        (_, StoredPart::Network(network)) => format!("addresses in {network}"),
        (_, StoredPart::Glob(glob)) => {
            format!(
                "each {} that begins with {}",
                display::part(part),
                printable(glob)
            )
        }
        (Part::Ip, StoredPart::Values(_)) => {
            let is_ipv4 = said.is_ipv4() == Some(true);
            let (all_bits, used_bits): (u8, fn(ClientPrefixes) -> u8) = if is_ipv4 {
                (32, |prefixes| prefixes.ipv4)
            } else {
                (128, |prefixes| prefixes.ipv6)
            };
            let prefixes = snapshot.listeners.iter().map(|one| one.identity.prefixes);
            let bits: BTreeSet<u8> = prefixes.map(used_bits).collect();
            let networks = bits.iter().filter(|bits| **bits < all_bits);
            let networks: Vec<String> = networks.map(|bits| format!("its /{bits}")).collect();
            if networks.is_empty() {
                "one address".to_owned()
            } else {
                format!("one address ({})", networks.join(", "))
            }
        }
        (_, StoredPart::Values(_)) => format!("one {}", display::part(part)),
    };
    if parts.is_empty() {
        return "all clients".to_owned();
    }
    let said: Vec<String> = pattern.iter().flatten().zip(parts).map(one).collect();
    let rest = pattern.len() - parts.len();
    let rest = if rest > 0 {
        ", with any other parts"
    } else {
        ""
    };
    said.join(" and ") + rest
}

fn printable(text: &str) -> String {
    text.escape_default().to_string()
}

/// Hex digits that are shown of a value's digest.
const SHOWN_DIGITS: usize = 8;
