//! Overrides that operators give single clients of a policy for a time.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::grant::Grant;
use crate::limit::PartitionId;
use crate::request::{NamedClient, Pattern, Patterns};

/// What operators let single clients of one policy do instead of what the file grants. Its patterns know values only as
/// digests.
#[derive(Clone, Debug, PartialEq)]
pub struct TemporaryOverrides {
    /// Clients that are blocked in every policy that can recognise them; shared by policies with the same partition.
    pub everywhere: Arc<Patterns>,
    /// Clients that are blocked in this policy.
    pub blocked: TemporaryClients,
    /// Clients that are granted something else, unless they are blocked.
    pub granted: TemporaryClients,
    /// The grants. The first is [`Grant::Blocked`], for clients that are blocked.
    pub grants: Vec<Grant>,
    /// The key under which values are digested.
    pub partition_key: [u8; 32],
}

/// Clients with what each is granted: an index into [`TemporaryOverrides::grants`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemporaryClients {
    by_id: HashMap<PartitionId, usize>,
    patterns: Patterns,
    grant_of: Vec<usize>,
}

impl TemporaryClients {
    /// Collects clients that are named by their partition ids, and those that are named by patterns. If several
    /// patterns match the same requests, the first counts.
    pub fn new(by_id: HashMap<PartitionId, usize>, named: Vec<(Pattern, usize)>) -> Self {
        let (patterns, grant_of): (Vec<Pattern>, Vec<usize>) = named.into_iter().unzip();
        let (patterns, kept) = Patterns::first_of_equal(patterns);
        Self {
            by_id,
            patterns,
            grant_of: kept.into_iter().map(|index| grant_of[index]).collect(),
        }
    }

    fn find(
        &self,
        ids: &[PartitionId],
        pattern: impl FnOnce(&Patterns) -> Option<usize>,
    ) -> Option<usize> {
        let by_id = ids.iter().find_map(|id| self.by_id.get(id).copied());
        by_id.or_else(|| Some(self.grant_of[pattern(&self.patterns)?]))
    }

    fn is_empty(&self) -> bool {
        self.by_id.is_empty() && self.patterns.is_empty()
    }
}

impl TemporaryOverrides {
    /// Begins with only the clients that are blocked everywhere; values are digested under `partition_key`.
    pub fn new(everywhere: Arc<Patterns>, partition_key: &[u8; 32]) -> Self {
        Self {
            everywhere,
            blocked: TemporaryClients::default(),
            granted: TemporaryClients::default(),
            grants: vec![Grant::Blocked],
            partition_key: *partition_key,
        }
    }

    /// Whether no client has a temporary override.
    pub fn is_empty(&self) -> bool {
        self.everywhere.is_empty() && self.blocked.is_empty() && self.granted.is_empty()
    }

    /// Finds the index of a client's grant by its partition ids, and by its values if they are known.
    pub fn find<'p>(
        &self,
        ids: &[PartitionId],
        client: impl FnOnce() -> Option<NamedClient<'p>>,
    ) -> Option<usize> {
        let client = LazyCell::new(client);
        let pattern = |patterns: &Patterns| {
            let patterns = Some(patterns).filter(|patterns| !patterns.is_empty())?;
            patterns.find_digested(client.as_ref()?, &self.partition_key)
        };
        let is_blocked = self.blocked.find(ids, pattern).is_some();
        if is_blocked || pattern(&self.everywhere).is_some() {
            return Some(BLOCKED);
        }
        self.granted.find(ids, pattern)
    }
}

/// The index of the grant of blocked clients in [`TemporaryOverrides::grants`].
pub const BLOCKED: usize = 0;
