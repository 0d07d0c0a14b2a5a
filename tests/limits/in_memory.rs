//! A gateway's memory store under a clock that tests move, and ways to send requests to it.

#![allow(dead_code, reason = "each test file uses its share")]

use std::ops::Range;
use std::sync::Arc;

use futures_util::FutureExt;
use smallvec::SmallVec;
use tollgate::clock::{Clock, Micros, Timestamp};
use tollgate::limit::partition_id::PartitionHasher;
use tollgate::limit::plan::{PlanPolicy, SeriesId};
use tollgate::limit::{
    Adjustment, Algorithm, Check, Decision, OldestBucket, PartitionId, Quota, Verdict,
};
use tollgate::metrics::Usage;
use tollgate::store::{Charge, MemoryStore, Series, SeriesRole, Session, Store, StoreVerdict};

/// A bound that no test reaches.
pub const ROOMY: u64 = 1 << 30;
/// The window of every quota that [`quota_of`] makes.
pub const WINDOW: Micros = Micros::from_secs(60);
/// How many calls of `sweep` pass over the whole store.
const WHOLE_SWEEP: usize = 33;

pub struct Gateway {
    pub store: Store,
    pub clock: Clock,
}

impl Gateway {
    pub fn new(bytes_max: u64) -> Self {
        // A window's start, so that nothing ages unless a test says so.
        let clock = Clock::manual(Timestamp(1_700_000_040 * 1_000_000));
        let store = Store::Memory(Arc::new(MemoryStore::new(clock.clone(), bytes_max)));
        Self { store, clock }
    }

    /// Opens a session for the calling thread.
    fn session(&self) -> Session {
        self.store.session()
    }

    pub fn memory(&self) -> &MemoryStore {
        let Store::Memory(memory) = &self.store else {
            unreachable!("it was made so");
        };
        memory
    }

    pub fn usage(&self) -> Usage {
        self.memory().usage()
    }

    pub fn sweep(&self) {
        for _ in 0..WHOLE_SWEEP {
            self.memory().sweep();
        }
    }

    pub fn series_id(&self, policy: &str, quota: &Quota) -> SeriesId {
        self.store
            .series_id(&Series::of(policy, SeriesRole::Real, quota))
    }

    pub fn decide(&self, plan: &[Check<'_>]) -> (Verdict, Charge) {
        match self.outcome(plan) {
            StoreVerdict::Decided {
                verdict, charge, ..
            } => (verdict, charge),
            StoreVerdict::Unavailable { .. } => panic!("the store did not decide"),
        }
    }

    pub fn outcome(&self, plan: &[Check<'_>]) -> StoreVerdict {
        let outcome = self.session().decide(plan).now_or_never();
        outcome.expect("memory never waits")
    }

    pub fn admits(&self, check: Check<'_>) -> bool {
        self.decide(&[check]).0.admit
    }

    pub fn peek(&self, plan: &[Check<'_>]) -> SmallVec<[Decision; 4]> {
        let peeks = self.session().peek(plan).now_or_never();
        peeks.expect("memory never waits")
    }

    pub fn remaining(&self, check: Check<'_>) -> u64 {
        self.peek(&[Check { cost: 0, ..check }])[0].remaining
    }

    pub fn release(&self, charge: &mut Charge, amount: u64) {
        self.settle(charge, |_| Adjustment::GiveBack(amount));
    }

    pub fn spend(&self, charge: &mut Charge, amount: u64) {
        self.settle(charge, |_| Adjustment::Spend(amount));
    }

    pub fn settle(&self, charge: &mut Charge, adjustment: impl Fn(PlanPolicy) -> Adjustment) {
        self.session().settle_later(charge, adjustment);
    }

    pub fn reset(&self, check: Check<'_>) {
        let reset = self
            .session()
            .reset(&[check.series_id], check.partition_id)
            .now_or_never();
        let reset = reset.expect("memory never waits");
        reset.expect("memory is always there");
    }

    /// Sends one request for each client of `keys`; returns how many were admitted.
    pub fn flood(&self, check: Check<'_>, keys: Range<u64>) -> u64 {
        let admitted = keys.filter(|key| {
            self.admits(Check {
                partition_id: partition_id(*key),
                ..check
            })
        });
        admitted.count() as u64
    }
}

/// Makes a quota of `limit` units a minute, all of which may be spent at once.
pub fn quota_of(algorithm: Algorithm, limit: u64) -> Quota {
    let algorithm = match algorithm {
        Algorithm::Gcra { .. } => Algorithm::Gcra { burst: limit },
        Algorithm::LeakyBucket { .. } => Algorithm::LeakyBucket { queue: limit - 1 },
        other => other,
    };
    Quota::of(algorithm, limit, WINDOW)
}

pub fn algorithms() -> [Algorithm; 5] {
    [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow {
            buckets: 10,
            oldest: OldestBucket::Weighted,
        },
        Algorithm::SlidingLog,
        Algorithm::Gcra { burst: 1 },
        Algorithm::LeakyBucket { queue: 0 },
    ]
}

pub fn check(quota: &Quota, series_id: SeriesId, key: u64) -> Check<'_> {
    Check::of(quota, series_id, partition_id(key))
}

pub fn partition_id(key: u64) -> PartitionId {
    let mut tagger = PartitionHasher::new(&[7; 32]);
    tagger.part("key", &key.to_le_bytes());
    tagger.finish()
}
