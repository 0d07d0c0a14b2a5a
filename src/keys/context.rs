//! What commands on single clients need.

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

/// What commands on single clients need.
pub struct Keys<'k> {
    /// The configuration in force.
    pub snapshot: &'k Snapshot,
    /// The key of partition ids.
    pub partition_key: &'k [u8; 32],
    /// The key of digests that people see.
    pub digest_key: &'k [u8; 32],
    /// The session with the store that has the counters.
    pub session: &'k Session,
    /// The clock, which tells the time now.
    pub clock: &'k Clock,
    /// The file and the directives in force.
    pub sources: &'k ActiveSources,
    /// The store of the process.
    pub store: &'k Store,
}

impl Keys<'_> {
    /// Finds a policy, and the clients that `value` names there.
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

    /// Returns the single client that was named, if its values for `partition` are known. If listeners identify clients
    /// by different prefixes of addresses, those of the first listener count.
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

    /// Returns the directives in force now.
    pub(super) fn directives(&self) -> Arc<[Directive]> {
        Arc::clone(&self.sources.parts().directives)
    }

    /// Returns the time in ms since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now().0 / US_PER_MS
    }
}

const US_PER_MS: u64 = 1000;
