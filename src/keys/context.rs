//! What is needed to act on single clients.

use std::sync::Arc;

use super::active_sources::ActiveSources;
use super::client::{DigestKeys, NamedClients};
use super::directive::Directive;
use super::error::KeysError;
use crate::clock::Clock;
use crate::config::value::did_you_mean;
use crate::index::PolicyIndex;
use crate::request::{NamedClient, Partition};
use crate::snapshot::{Policy, Snapshot};
use crate::store::{Session, Store};

/// What is needed to act on single clients.
pub struct Keys<'k> {
    /// The configuration in force.
    pub snapshot: &'k Snapshot,
    /// The key of partition ids.
    pub partition_key: &'k [u8; 32],
    /// The key of the digests that people see.
    pub digest_key: &'k [u8; 32],
    /// The way to the counters.
    pub session: &'k Session,
    /// The time.
    pub clock: &'k Clock,
    /// The file, and what is in force for a time.
    pub sources: &'k ActiveSources,
    /// The store of the process.
    pub store: &'k Store,
}

impl Keys<'_> {
    /// Finds a policy, and the clients that a value names there.
    pub(super) fn clients(
        &self,
        policy: &str,
        value: &str,
    ) -> Result<(PolicyIndex, NamedClients), KeysError> {
        let mut policies = self.snapshot.policies.iter_enumerated();
        let Some((index, found)) = policies.find(|(_, one)| *one.name == *policy) else {
            let known = self.snapshot.policies.iter().map(|one| &*one.name);
            let hint = did_you_mean(policy, known).map(|hint| format!("; {hint}"));
            let hint = hint.unwrap_or_default();
            return Err(KeysError::Unknown(format!(
                "there is no policy `{policy}`{hint}"
            )));
        };
        let keys = DigestKeys {
            partition: self.partition_key,
            shown: self.digest_key,
        };
        let clients = NamedClients::read(value, found, self.snapshot, keys);
        Ok((index, clients.map_err(KeysError::Wrong)?))
    }

    /// Returns the client, if its values are known for this partition and it is one; where listeners differ in what of
    /// an address is one client, as the first one has it.
    pub(super) fn named<'c>(
        &'c self,
        policy: &'c Policy,
        partition: &'c Partition,
        clients: &'c NamedClients,
    ) -> Option<NamedClient<'c>> {
        let is_its_own = std::ptr::eq(partition, &raw const policy.partition);
        let pattern = clients.pattern().filter(|_| is_its_own)?;
        let prefixes = self.snapshot.listeners.first()?.identity.prefixes;
        NamedClient::of(partition, pattern, prefixes)
    }

    /// Returns what is in force for a time now.
    pub(super) fn directives(&self) -> Arc<[Directive]> {
        Arc::clone(&self.sources.parts().directives)
    }

    /// Returns the time in ms since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now().0 / US_PER_MS
    }
}

const US_PER_MS: u64 = 1000;
