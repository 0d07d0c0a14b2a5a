//! Values for quotas of clients, which workers share: spread over shards, each with a lock of its own.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use super::quota_key::QuotaKey;

/// Values for quotas of clients.
#[derive(Debug)]
pub(super) struct QuotaShards<V> {
    shards: Box<[CachePadded<Mutex<QuotaShard<V>>>]>,
    hasher: RandomState,
}

pub(super) type QuotaShard<V> = HashMap<QuotaKey, V>;

impl<V> QuotaShards<V> {
    pub(super) fn new() -> Self {
        let empty = |_| CachePadded::new(Mutex::new(HashMap::new()));
        Self {
            shards: (0..SHARDS).map(empty).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Locks the shard of a quota.
    pub(super) fn of(&self, key: QuotaKey) -> MutexGuard<'_, QuotaShard<V>> {
        let shard = self.hasher.hash_one(key) % SHARDS as u64;
        self.nth(usize::try_from(shard).expect("there are few"))
    }

    /// Locks a shard by its number; numbers after the last shard's begin again with the first.
    pub(super) fn nth(&self, number: usize) -> MutexGuard<'_, QuotaShard<V>> {
        let shard = &self.shards[number % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks one shard after the other.
    pub(super) fn all(&self) -> impl Iterator<Item = MutexGuard<'_, QuotaShard<V>>> {
        (0..SHARDS).map(|number| self.nth(number))
    }
}

/// Gives memory back that a shard does not need any more.
pub(super) fn shrink<V>(shard: &mut QuotaShard<V>) {
    if shard.len() < shard.capacity() / 4 {
        shard.shrink_to_fit();
    }
}

/// Number of shards.
pub(super) const SHARDS: usize = 64;
/// Most quotas in a shard that are leased or followed; Redis decides the others. Units in flight are held for more than
/// these, too.
pub(super) const SHARD_MAX: usize = 1_024;
