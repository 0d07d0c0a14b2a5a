//! What a pattern asks of one part of a request, in the form that leaves this process: values only as digests.

use ipnet::IpNet;

use super::pattern::{BadPattern, PartPattern, PatternKind};
use crate::limit::PartitionId;
use crate::request::ClientPrefixes;
use crate::request::partition::{Part, digest};

/// What a pattern asks of one part. Single values, which may be secret, are digests; patterns that match many values
/// are in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredPart {
    /// The value is one of these, each a digest of the part and its value. An address has several if listeners identify
    /// clients by different prefixes.
    Values(Vec<PartitionId>),
    /// The address is in this network.
    Network(IpNet),
    /// The text matches this glob, which includes its final `*`.
    Glob(String),
}

impl StoredPart {
    /// Converts what `pattern` asks of `part`, with digests under `key`, for listeners with these `prefixes`.
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

    /// Makes the patterns for `part`: one, or one for each value.
    ///
    /// # Errors
    /// If the glob is not a pattern for the part.
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
    /// Makes a pattern from a value of which only the digest is known.
    fn digested(digest: PartitionId) -> Self {
        let bytes = digest.bits().to_be_bytes();
        Self::value_of(&bytes, PatternKind::Text)
    }
}
