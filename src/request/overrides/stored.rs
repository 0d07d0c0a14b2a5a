//! What a pattern says of one part of a request, as it leaves this process: a value only as a digest.

use ipnet::IpNet;

use super::pattern::{BadPattern, PartPattern, PatternKind};
use crate::limit::PartitionId;
use crate::request::ClientPrefixes;
use crate::request::partition::{Part, digest};

/// What a pattern says of one part. Values that may be secret are digests; what matches many is in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredPart {
    /// One of these values, as digests of the part with its value: an address makes several where listeners
    /// differ in what of an address is one client.
    Values(Vec<PartitionId>),
    /// An address in this network.
    Network(IpNet),
    /// A text that begins so, with the `*` at its end.
    Glob(String),
}

impl StoredPart {
    /// Stores what `pattern` says of `part`, with digests under `key`.
    pub fn of(
        pattern: &PartPattern,
        part: &Part,
        key: &[u8; 32],
        prefixes: impl Iterator<Item = ClientPrefixes>,
    ) -> Self {
        let mut digests: Vec<PartitionId> = Vec::new();
        for prefixes in prefixes {
            let Some(value) = pattern.value(prefixes) else {
                return match pattern.as_network() {
                    Some(network) => Self::Network(network),
                    None => Self::Glob(pattern.glob()),
                };
            };
            let digest = digest(key, part, &value);
            if !digests.contains(&digest) {
                digests.push(digest);
            }
        }
        Self::Values(digests)
    }

    /// Makes the patterns that match what it says of `part`: one, or one for each value.
    ///
    /// # Errors
    /// If its glob is no pattern of the part.
    pub fn patterns(
        &self,
        part: &Part,
        alternative: usize,
    ) -> Result<Vec<PartPattern>, BadPattern> {
        let patterns = match self {
            Self::Values(digests) => digests
                .iter()
                .map(|of| PartPattern::digested(*of))
                .collect(),
            Self::Network(network) => vec![PartPattern::network(*network)],
            Self::Glob(glob) => vec![PartPattern::text(part, glob)?],
        };
        let of_alternative = |pattern: PartPattern| pattern.of_alternative(alternative);
        Ok(patterns.into_iter().map(of_alternative).collect())
    }
}

impl PartPattern {
    /// Makes a pattern of a value that is only known by its digest.
    fn digested(digest: PartitionId) -> Self {
        let bytes = digest.bits().to_be_bytes();
        Self::value_of(&bytes, PatternKind::Text)
    }
}
