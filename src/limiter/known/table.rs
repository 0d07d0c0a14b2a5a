//! The clients that are remembered, and their values.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limit::PartitionId;
use crate::request::ClientValues;

/// The clients that this gateway has seen lately: at least the [`CLIENTS_MAX`]` / 2` that were noted last, and at
/// most [`CLIENTS_MAX`].
#[derive(Debug, Default)]
pub struct KnownClients(Mutex<Generations>);

/// A client of a policy.
#[derive(Debug)]
pub(super) struct KnownClient {
    /// The policy's name.
    pub(super) policy: Arc<str>,
    /// The client's partition id when it was noted.
    pub(super) partition_id: PartitionId,
    /// The client's values for the policy's partition.
    pub(super) values: ClientValues,
    /// The client's values for `overrides_by`, if the policy has that and the request had them.
    pub(super) by: Option<ClientValues>,
}

/// When `young` is full, it becomes `old`, and what was old is forgotten.
#[derive(Debug, Default)]
struct Generations {
    young: Generation,
    old: Generation,
}

type Generation = HashMap<(Arc<str>, PartitionId), Arc<KnownClient>>;

impl KnownClients {
    pub(super) fn insert(&self, client: KnownClient) {
        let key = (Arc::clone(&client.policy), client.partition_id);
        let mut generations = self.lock();
        generations.old.remove(&key);
        generations.young.insert(key, Arc::new(client));
        if generations.young.len() >= CLIENTS_MAX / 2 {
            let full = mem::take(&mut generations.young);
            let forgotten = mem::replace(&mut generations.old, full);
            // Unlocked first, so that others need not wait until the memory is freed.
            drop(generations);
            drop(forgotten);
        }
    }

    /// Returns all clients that are remembered.
    pub(super) fn all(&self) -> Vec<Arc<KnownClient>> {
        let generations = self.lock();
        let all = generations.young.values().chain(generations.old.values());
        all.cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most clients that are remembered.
const CLIENTS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_noted_last_are_known_and_never_more_than_the_bound() {
        let known = KnownClients::default();
        let policy: Arc<str> = Arc::from("p");
        let note = |id: u128| {
            known.insert(KnownClient {
                policy: Arc::clone(&policy),
                partition_id: PartitionId::new(id),
                values: ClientValues::default(),
                by: None,
            });
        };
        for id in 0..3 * CLIENTS_MAX as u128 {
            note(id);
            if id % 1_000 == 0 {
                note(0);
                assert!(known.all().len() <= CLIENTS_MAX);
            }
        }
        let mut ids: Vec<u128> = (known.all().iter())
            .map(|client| client.partition_id.bits())
            .collect();
        ids.sort_unstable();
        let latest = 3 * CLIENTS_MAX as u128 - CLIENTS_MAX as u128 / 4;
        assert_eq!(ids[0], 0);
        assert!((latest..3 * CLIENTS_MAX as u128).all(|id| ids.binary_search(&id).is_ok()));
    }
}
