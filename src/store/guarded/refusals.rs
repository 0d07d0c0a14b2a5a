//! Remembered refusals: a client that was refused is refused again without asking Redis, until the
//! answer may be another.
//!
//! A refusal says when the same cost would be admitted with no other traffic, and other traffic
//! only makes it later: until then the same plan, at that cost or a higher one, must be refused.
//! A refusal is remembered because of one quota, the one that refuses longest. The rest of the answer
//! is repeated as it was, with its times counted down. If units come back early (by a reset or a
//! release), clients notice when the refusal is forgotten, so it is remembered no longer than the
//! configuration says.
//!
//! Plans with a quota that counts refused requests are not remembered: Redis must count each request.
//!
//! Refusals are spread over [`SHARDS`] locks. While none is remembered, a look-up is a relaxed load.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::clock::{Micros, Timestamp};
use crate::limit::plan::{Mode, SeriesId};
use crate::limit::quota::Count;
use crate::limit::{Answer, Check, Decision, PartitionId, Quota, Retry, Verdict};

/// The refusals of the last moment, shared by all workers.
#[derive(Debug)]
pub(super) struct Refusals {
    shards: Box<[CachePadded<Mutex<RefusalShard>>]>,
    /// Checks of all remembered plans, which are bounded.
    checks: AtomicUsize,
    /// The shard that is swept next.
    next_sweep: AtomicUsize,
    hasher: RandomState,
}

/// When a plan was sent and when its answer arrived: it was decided in between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) sent: Timestamp,
    pub(super) received: Timestamp,
}

#[derive(Debug, Default)]
struct RefusalShard {
    entries: HashTable<RememberedRefusal>,
}

#[derive(Debug)]
struct RememberedRefusal {
    hash: u64,
    /// One per check of the plan, in order.
    checks: Box<[RememberedCheck]>,
    /// Which check refuses longest, and its quota and cost as they were.
    binding: usize,
    quota: Quota,
    cost: u64,
    retry: Retry,
    /// When the answer arrived; its times count from then.
    received: Timestamp,
    /// When it is forgotten.
    until: Timestamp,
}

#[derive(Debug)]
struct RememberedCheck {
    series_id: SeriesId,
    partition_id: PartitionId,
    decision: Option<Decision>,
}

impl Refusals {
    /// Makes an empty memory.
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            checks: AtomicUsize::new(0),
            next_sweep: AtomicUsize::new(0),
            hasher: RandomState::new(),
        }
    }

    /// Returns the answer of a plan if it must still be refused.
    pub(super) fn find(
        &self,
        plan: &[Check<'_>],
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Verdict> {
        if self.checks.load(Relaxed) == 0 || plan.iter().any(counts_refused) {
            return None;
        }
        let hash = self.hash(plan);
        let shard = self.lock(hash);
        let entry = (shard.entries).find(hash, |entry| entry.is_of(hash, plan))?;
        let check = &plan[entry.binding];
        let is_binding =
            check.mode == Mode::Enforce && *check.quota == entry.quota && check.cost >= entry.cost;
        let now = is_binding.then(now)?;
        (now < entry.until).then(|| entry.verdict(plan, now))
    }

    /// Remembers that Redis refused a plan, for at most `cap`.
    pub(super) fn remember(
        &self,
        plan: &[Check<'_>],
        verdict: &Verdict,
        asked: Interval,
        cap: Micros,
    ) {
        if cap == Micros(0) || verdict.admit || plan.iter().any(counts_refused) {
            return;
        }
        let Some((binding, decision)) = binding(plan, verdict) else {
            return;
        };
        let lifetime = match decision.retry {
            // The server's clock may be a little faster than this node's.
            Retry::After(retry) => Micros(retry.0 - retry.0 / DRIFT_SHARE).min(cap),
            Retry::Never => cap,
        };
        let until = asked.sent + lifetime;
        if until <= asked.received {
            return;
        }
        let hash = self.hash(plan);
        let check = &plan[binding];
        let entry = RememberedRefusal {
            hash,
            checks: (plan.iter().zip(&verdict.answers))
                .map(|(check, answer)| RememberedCheck {
                    series_id: check.series_id,
                    partition_id: check.partition_id,
                    decision: answer.decision,
                })
                .collect(),
            binding,
            quota: *check.quota,
            cost: check.cost,
            retry: decision.retry,
            received: asked.received,
            until,
        };
        self.insert(entry, plan);
    }

    /// Forgets the refusals of plans that contain one partition's quota.
    pub(super) fn forget(&self, series_id: SeriesId, partition_id: PartitionId) {
        let is_of = |asked: &RememberedCheck| {
            (asked.series_id, asked.partition_id) == (series_id, partition_id)
        };
        self.retain(|entry| !entry.checks.iter().any(is_of));
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.retain(|_| false);
    }

    /// Forgets what is over, a few shards at a time. To be called several times a second.
    pub(super) fn sweep(&self, now: Timestamp) {
        if self.checks.load(Relaxed) == 0 {
            return;
        }
        let first = self.next_sweep.fetch_add(SHARDS_PER_SWEEP, Relaxed);
        for index in first..first + SHARDS_PER_SWEEP {
            self.retain_in(index % SHARDS, |entry| now < entry.until);
        }
    }

    /// Counts the refusals.
    pub(super) fn len(&self) -> u64 {
        let len = |shard: &CachePadded<Mutex<RefusalShard>>| lock(shard).entries.len() as u64;
        self.shards.iter().map(len).sum()
    }

    fn insert(&self, entry: RememberedRefusal, plan: &[Check<'_>]) {
        let hash = entry.hash;
        let mut shard = self.lock(hash);
        let known = (shard.entries).find_mut(hash, |other| other.is_of(hash, plan));
        if let Some(known) = known {
            // The refusal of the lowest cost answers for higher costs too.
            let is_better = entry.until > known.until || entry.cost < known.cost;
            if is_better || known.quota != entry.quota {
                *known = entry;
            }
            return;
        }
        let checks = entry.checks.len();
        if self.checks.fetch_add(checks, Relaxed) + checks > CHECKS_MAX {
            self.checks.fetch_sub(checks, Relaxed);
            return;
        }
        (shard.entries).insert_unique(hash, entry, |entry| entry.hash);
    }

    fn retain(&self, stays: impl Fn(&RememberedRefusal) -> bool) {
        for index in 0..SHARDS {
            self.retain_in(index, &stays);
        }
    }

    fn retain_in(&self, index: usize, stays: impl Fn(&RememberedRefusal) -> bool) {
        let mut shard = lock(&self.shards[index]);
        let mut dropped = 0;
        shard.entries.retain(|entry| {
            let is_kept = stays(entry);
            if !is_kept {
                dropped += entry.checks.len();
            }
            is_kept
        });
        if shard.entries.len() < shard.entries.capacity() / 4 {
            shard.entries.shrink_to_fit(|entry| entry.hash);
        }
        self.checks.fetch_sub(dropped, Relaxed);
    }

    /// Hashes what a plan asks for. Nobody outside knows the key of the hash, so nobody can choose
    /// partitions whose hashes collide.
    fn hash(&self, plan: &[Check<'_>]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for check in plan {
            (check.series_id, check.partition_id).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn lock(&self, hash: u64) -> MutexGuard<'_, RefusalShard> {
        // Hash tables use the lowest and the highest bits, so a shard is chosen by others.
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

impl RememberedRefusal {
    fn is_of(&self, hash: u64, plan: &[Check<'_>]) -> bool {
        self.hash == hash
            && self.checks.len() == plan.len()
            && (self.checks.iter().zip(plan)).all(|(asked, check)| {
                (asked.series_id, asked.partition_id) == (check.series_id, check.partition_id)
            })
    }

    /// Returns the answer as of `now`: its times are counted down.
    fn verdict(&self, plan: &[Check<'_>], now: Timestamp) -> Verdict {
        let elapsed = now.since(self.received);
        let is_beyond = plan[self.binding].cost > self.quota.capacity();
        let mut answers: SmallVec<[Answer; 4]> = (self.checks.iter())
            .map(|asked| Answer {
                decision: asked.decision.map(|decision| aged(decision, elapsed)),
                charged: None,
            })
            .collect();
        let mut retry = aged_retry(self.retry, elapsed);
        if is_beyond {
            retry = Retry::Never;
            if let Some(decision) = &mut answers[self.binding].decision {
                decision.retry = retry;
            }
        }
        Verdict {
            admit: false,
            retry,
            wait: Micros(0),
            answers,
        }
    }
}

/// Returns the check whose enforced quota refuses longest, if any does.
fn binding(plan: &[Check<'_>], verdict: &Verdict) -> Option<(usize, Decision)> {
    (plan.iter().zip(&verdict.answers).enumerate())
        .filter(|(_, (check, _))| check.mode == Mode::Enforce)
        .filter_map(|(index, (_, answer))| Some((index, answer.decision?)))
        .filter(|(_, decision)| !decision.admit)
        .max_by_key(|(_, decision)| decision.retry)
}

fn counts_refused(check: &Check<'_>) -> bool {
    check.quota.count == Count::All
}

fn aged(decision: Decision, elapsed: Micros) -> Decision {
    Decision {
        next: decision.next.map(|next| counted_down(next, elapsed)),
        reset: counted_down(decision.reset, elapsed),
        retry: if decision.admit {
            decision.retry
        } else {
            aged_retry(decision.retry, elapsed)
        },
        ..decision
    }
}

fn aged_retry(retry: Retry, elapsed: Micros) -> Retry {
    match retry {
        Retry::After(retry) => Retry::After(counted_down(retry, elapsed)),
        Retry::Never => Retry::Never,
    }
}

/// Counts a span down, though not to 0: only Redis says when it is over.
fn counted_down(span: Micros, elapsed: Micros) -> Micros {
    Micros(span.0.saturating_sub(elapsed.0).max(span.0.min(1)))
}

fn lock(shard: &Mutex<RefusalShard>) -> MutexGuard<'_, RefusalShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of shards, each with a lock of its own.
const SHARDS: usize = 64;
/// Shards that one sweep passes over; all are swept within 0.8 s.
const SHARDS_PER_SWEEP: usize = 8;
/// Most checks of all remembered plans; with the tables they take 24 MB at most. A refusal that does
/// not fit is not remembered.
const CHECKS_MAX: usize = 1 << 16;
/// A refusal is remembered for this part (0.8 %) less than it says, in case the server's clock runs
/// faster than this node's, which is corrected by at most 0.5 %.
const DRIFT_SHARE: u64 = 128;

#[cfg(test)]
mod tests;
