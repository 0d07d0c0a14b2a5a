//! What operators let single clients of a policy do, for a time.

use std::collections::HashMap;

use super::grant::Grant;
use crate::limit::PartitionId;
use crate::request::{Facts, NamedClient, Partition, Pattern, Patterns};

/// What operators let single clients of one policy do instead of what the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemporaryOverrides {
    /// Blocks, which win over everything, and then the rest.
    pub layers: [TemporaryLayer; 2],
    /// What is granted.
    pub grants: Vec<Grant>,
    /// The key of the digests that the patterns have of values.
    pub partition_key: [u8; 32],
}

/// Clients with what each is granted: an index into [`TemporaryOverrides::grants`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemporaryLayer {
    by_id: HashMap<PartitionId, usize>,
    patterns: Patterns,
    grant_of: Vec<usize>,
}

impl TemporaryLayer {
    /// Collects clients that are named by their partition ids, and those that are named by patterns, in which
    /// values are digests. Of patterns that match the same requests the first counts.
    pub fn new(by_id: HashMap<PartitionId, usize>, named: Vec<(Pattern, usize)>) -> Self {
        let (mut patterns, mut grant_of): (Vec<Pattern>, Vec<usize>) = named.into_iter().unzip();
        loop {
            match Patterns::new(&patterns) {
                Ok(patterns) => {
                    return Self {
                        by_id,
                        patterns,
                        grant_of,
                    };
                }
                Err(equal) => {
                    for pair in equal.iter().rev() {
                        patterns.remove(pair.second);
                        grant_of.remove(pair.second);
                    }
                }
            }
        }
    }
}

impl TemporaryOverrides {
    /// Finds what a client is granted that is named: by its partition ids, and by its values if they are known.
    pub fn find_named(
        &self,
        ids: &[PartitionId],
        client: Option<&NamedClient<'_>>,
    ) -> Option<usize> {
        self.layers.iter().find_map(|layer| {
            let by_id = ids.iter().find_map(|id| layer.by_id.get(id).copied());
            by_id.or_else(|| {
                let pattern = (layer.patterns).find_named_digested(client?, &self.partition_key)?;
                Some(layer.grant_of[pattern])
            })
        })
    }

    /// Finds what the client of a request is granted, whose partition has this id.
    pub fn find(
        &self,
        partition: &Partition,
        facts: &Facts<'_>,
        partition_id: PartitionId,
    ) -> Option<usize> {
        self.layers.iter().find_map(|layer| {
            let by_id = layer.by_id.get(&partition_id).copied();
            by_id.or_else(|| {
                let (patterns, key) = (&layer.patterns, &self.partition_key);
                let pattern = patterns.find_digested(partition, facts, key)?;
                Some(layer.grant_of[pattern])
            })
        })
    }
}
