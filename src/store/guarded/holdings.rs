//! Units in flight that this gateway's requests hold, as Redis is told: of each client one number.
//!
//! A request asks Redis for its units as a step of its plan; from then on they are in the number, so that what is
//! announced meanwhile has them. Whatever else changes the number is announced: the number as it is, never what changed.
//! Both carry a sequence number, which is taken together with the number, so that Redis can tell which of two is the
//! newer one, whatever order they arrive in.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use super::turn::Turn;
use crate::clock::{Micros, Timestamp};
use crate::limit::PartitionId;
use crate::limit::plan::SeriesId;
use crate::store::holder::GatewayId;

/// What this gateway holds, shared by its workers.
#[derive(Debug)]
pub(super) struct Holdings {
    gateway: GatewayId,
    shards: Box<[CachePadded<Mutex<HoldingShard>>]>,
    hasher: RandomState,
    /// The last sequence number, of whatever client and worker.
    sequence: AtomicU64,
    /// Announcing all of it again.
    pub(super) renewal: Turn,
}

type HoldingShard = HashMap<HoldingKey, Holding>;

/// Whose units, and of which policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HoldingKey {
    pub(super) series_id: SeriesId,
    pub(super) partition_id: PartitionId,
}

/// What a client's requests hold; at least one unit.
#[derive(Debug, Default)]
struct Holding {
    /// Units that are held, and those that are asked for.
    units: u64,
    /// The sequence number of the last announcement.
    announced: u64,
}

impl Holdings {
    /// Makes those of a gateway.
    pub(super) fn new(gateway: GatewayId) -> Self {
        Self {
            gateway,
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            hasher: RandomState::new(),
            sequence: AtomicU64::new(0),
            renewal: Turn::default(),
        }
    }

    /// Returns who holds them.
    pub(super) fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// Adds units that a request asks for; returns the sequence number that it asks with.
    pub(super) fn ask(&self, key: HoldingKey, units: u64) -> u64 {
        let mut shard = self.shard(key);
        if units > 0 {
            let holding = shard.entry(key).or_default();
            holding.units = holding.units.saturating_add(units);
        }
        self.next()
    }

    /// Takes units out that are not held any more, or never were; returns the sequence number of the last
    /// announcement that may have had them in it.
    pub(super) fn end(&self, key: HoldingKey, units: u64) -> u64 {
        let mut shard = self.shard(key);
        let Entry::Occupied(mut entry) = shard.entry(key) else {
            return 0;
        };
        let holding = entry.get_mut();
        let announced = holding.announced;
        holding.units = holding.units.saturating_sub(units);
        if holding.units == 0 {
            entry.remove();
        }
        announced
    }

    /// Returns what is to be announced of a client: how many units its requests hold, and the sequence number.
    pub(super) fn announce(&self, key: HoldingKey) -> (u64, u64) {
        let mut shard = self.shard(key);
        let sequence = self.next();
        let Some(holding) = shard.get_mut(&key) else {
            return (0, sequence);
        };
        holding.announced = sequence;
        (holding.units, sequence)
    }

    /// Returns whose units are held.
    pub(super) fn keys(&self) -> Vec<HoldingKey> {
        let mut keys = Vec::new();
        for shard in &self.shards {
            keys.extend(lock(shard).keys());
        }
        keys
    }

    /// Says whether the caller should announce all of it again. No other caller is told so for [`RENEWED_EVERY`].
    pub(super) fn take_turn(&self, now: Timestamp) -> bool {
        self.renewal.take(now, RENEWED_EVERY)
    }

    /// Draws a sequence number; whoever does has the client's shard locked.
    fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Relaxed) + 1
    }

    fn shard(&self, key: HoldingKey) -> MutexGuard<'_, HoldingShard> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

fn lock(shard: &Mutex<HoldingShard>) -> MutexGuard<'_, HoldingShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of shards, each with a lock of its own.
const SHARDS: usize = 64;
/// How often all of it is announced again. In Redis it counts for three times as long (`lua/in_flight/peek.lua`), so
/// two in a row may be lost.
const RENEWED_EVERY: Micros = Micros::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_announced_has_what_is_asked_for_in_it_and_nothing_is_kept_of_what_has_ended() {
        let holdings = Holdings::new(GatewayId::new(7));
        let key = |bits| HoldingKey {
            series_id: SeriesId(0),
            partition_id: PartitionId::new(bits),
        };
        let first = holdings.ask(key(1), 2);
        let other = holdings.ask(key(2), 5);
        assert!(other > first, "one counter for all clients");
        let (units, announced) = holdings.announce(key(1));
        assert_eq!(units, 2);
        assert!(announced > other);
        assert!(holdings.ask(key(1), 0) > announced);
        assert_eq!(holdings.end(key(1), 1), announced);
        assert_eq!(holdings.announce(key(1)).0, 1);
        assert_eq!(holdings.keys().len(), 2);
        holdings.end(key(1), 1);
        assert_eq!(holdings.end(key(2), 5), 0, "nothing was announced of it");
        assert!(holdings.keys().is_empty());
        assert_eq!(holdings.announce(key(1)).0, 0);
    }
}
