//! Remembered refusals: a client that was refused is refused again without asking Redis, until the answer may be
//! different.
//!
//! A refusal says when each cost would be admitted if there were no other traffic ([`known`]), and other traffic only
//! makes that later. Until then the same quota of the same partition must refuse it, whatever else is in the plan. So
//! each quota that refused is remembered by itself, and a plan that contains one is refused. The answer is what is
//! remembered, with its times counted down.
//!
//! If units come back early (by a reset or a release), clients must notice. So after `cap` one request asks Redis
//! again, while the others are still refused: however many requests there are, Redis gets one call for each refused
//! quota, partition and `cap`.
//!
//! Plans with a quota that counts refused requests are not answered from here, because Redis must count each of them. A
//! quota is not remembered if its policy tries a candidate, which may count what the quota refuses, or if it is of
//! units in flight, which may come back at any time.
//!
//! Refusals are spread over [`SHARDS`] locks. While none is remembered, a look-up is a relaxed load.

mod given_back;
mod interval;
mod known;
mod recollection;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use smallvec::SmallVec;

use self::given_back::GivenBack;
pub(super) use self::interval::Interval;
use self::known::KnownRefusal;
pub(super) use self::recollection::{Recollection, refusal};
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::{CheckMode, SeriesId, spills};
use crate::limit::quota::Count;
use crate::limit::{Check, Decision, PartitionId, Quota, Verdict};
use crate::store::redis::wire::RefusedState;

/// Recent refusals, shared by all workers.
#[derive(Debug)]
pub(super) struct Refusals {
    shards: Box<[CachePadded<Mutex<RefusalShard>>]>,
    /// How many refusals are remembered.
    len: AtomicUsize,
    /// The shard that is swept next.
    next_sweep: AtomicUsize,
    hasher: RandomState,
}

/// What is remembered of a plan.
#[expect(
    clippy::large_enum_variant,
    reason = "it becomes the outcome of the request at once"
)]
#[derive(Debug)]
pub(crate) enum Recalled {
    /// Nothing that refuses the plan.
    Nothing,
    /// The plan must still be refused.
    Refused(Verdict),
    /// The plan must still be refused, as far as this node knows, and the caller is to ask Redis whether that still
    /// holds.
    Due,
}

#[derive(Debug, Default)]
struct RefusalShard {
    entries: HashTable<RememberedRefusal>,
    /// When units came back: a refusal that was asked for before that is not remembered.
    given_back: GivenBack,
}

/// One quota of one partition that refused.
#[derive(Debug)]
struct RememberedRefusal {
    hash: u64,
    series_id: SeriesId,
    partition_id: PartitionId,
    /// The quota as it was then.
    quota: Quota,
    known: KnownRefusal,
    asked: Interval,
    /// How long the refusal is repeated without asking Redis.
    cap: Micros,
    /// Until when it is still repeated after that, because one request asks Redis.
    asked_until: Timestamp,
    /// When every cost that the quota can hold may fit again.
    over: Timestamp,
}

impl Refusals {
    /// Makes an empty set of refusals.
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            len: AtomicUsize::new(0),
            next_sweep: AtomicUsize::new(0),
            hasher: RandomState::new(),
        }
    }

    /// Says whether a plan must still be refused. If no request has asked Redis for `cap`, the caller is to ask,
    /// provided that it can.
    pub(super) fn recall(
        &self,
        plan: &[Check<'_>],
        can_ask: bool,
        now: impl FnOnce() -> Timestamp,
    ) -> Recalled {
        if self.len.load(Relaxed) == 0 || plan.iter().any(counts_refused) {
            return Recalled::Nothing;
        }
        let now = now();
        let (mut refused, mut due) = (Recollection::new(), Recollection::new());
        let checks = plan.iter().enumerate();
        for (place, check) in checks.filter(|(_, check)| !tries_candidate(plan, check)) {
            // What another quota may take is refused only if that quota must refuse it, too.
            if check.mode != CheckMode::Enforce || self.may_spill(plan, place, now) {
                continue;
            }
            self.with(check, now, |entry| {
                let is_repeated = entry.is_repeated(now);
                let found = if is_repeated { &mut refused } else { &mut due };
                let refusal = (entry.known).refusal(&entry.quota, check.cost, entry.asked, now);
                found.push((place, refusal));
            });
        }
        match (refused.is_empty(), due.is_empty()) {
            (true, is_none) if is_none || !can_ask => return Recalled::Nothing,
            (true, false) if self.claim(plan, &due, now) => return Recalled::Due,
            _ => {}
        }
        refused.extend(due);
        Recalled::Refused(refusal(plan, &refused))
    }

    /// Returns the remembered refusal of a check, and when it was asked for; none if the check may be admitted, or if
    /// Redis is to be asked again.
    pub(super) fn known(&self, check: &Check<'_>, now: Timestamp) -> Option<(Decision, Interval)> {
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        let mut known = None;
        self.with(check, now, |entry| {
            if entry.is_repeated(now) {
                let refusal = (entry.known).refusal(&entry.quota, check.cost, entry.asked, now);
                known = Some((refusal, entry.asked));
            }
        });
        known
    }

    /// Remembers the quotas of a plan that refused it, each for at most `cap` without asking Redis.
    pub(super) fn remember(
        &self,
        plan: &[Check<'_>],
        refused: impl IntoIterator<Item = Option<RefusedState>>,
        asked: Interval,
        cap: Micros,
    ) {
        if cap == Micros(0) || plan.iter().any(counts_refused) {
            return;
        }
        let refused: SmallVec<[_; 4]> = refused.into_iter().collect();
        let fits: SmallVec<[bool; 4]> = refused.iter().map(Option::is_none).collect();
        for ((index, check), refused) in plan.iter().enumerate().zip(refused) {
            let is_kept = match check.mode {
                CheckMode::Enforce => !spills(plan, index, |index| fits[index]),
                CheckMode::Spill => !fits[index - 1],
                CheckMode::Shadow | CheckMode::Candidate => false,
            };
            if let Some(refused) = refused
                && is_kept
                && !tries_candidate(plan, check)
                && !check.quota.is_in_flight()
            {
                self.insert(check, refused, asked, cap);
            }
        }
    }

    /// Forgets the refusals of quotas that now admit.
    pub(super) fn forget_admitted(&self, plan: &[Check<'_>], verdict: &Verdict) {
        for (check, answer) in plan.iter().zip(&verdict.answers) {
            if answer.decision.is_some_and(|decision| decision.admit) {
                drop(self.forget(check.series_id, check.partition_id));
            }
        }
    }

    /// Forgets the refusals of one partition's quota, to which units came back by `now`, and does not remember those
    /// that are still on their way.
    pub(super) fn given_back(
        &self,
        series_id: SeriesId,
        partition_id: PartitionId,
        now: Timestamp,
    ) {
        let mut shard = self.forget(series_id, partition_id);
        (shard.given_back).note(self.hash(series_id, partition_id), now);
    }

    /// Forgets the refusals of one partition's quotas of a series; returns the shard, which stays locked.
    fn forget(
        &self,
        series_id: SeriesId,
        partition_id: PartitionId,
    ) -> MutexGuard<'_, RefusalShard> {
        let hash = self.hash(series_id, partition_id);
        let mut shard = self.lock(hash);
        let is_it = |entry: &RememberedRefusal| entry.is_of(series_id, partition_id);
        while let Ok(found) = shard.entries.find_entry(hash, is_it) {
            found.remove();
            self.len.fetch_sub(1, Relaxed);
        }
        shard
    }

    /// Forgets the refusals of series that are not among `live`.
    pub(super) fn retain(&self, live: &[SeriesId]) {
        let mut live = live.to_vec();
        live.sort_unstable();
        for index in 0..SHARDS {
            self.retain_in(index, |entry| live.binary_search(&entry.series_id).is_ok());
        }
    }

    /// Forgets refusals that are over, a few shards at a time. To be called several times a second.
    pub(super) fn sweep(&self, now: Timestamp) {
        if self.len.load(Relaxed) == 0 {
            return;
        }
        let first = self.next_sweep.fetch_add(SHARDS_PER_SWEEP, Relaxed);
        for index in first..first + SHARDS_PER_SWEEP {
            // A refusal that no request has asked about for another `cap` is of little use.
            self.retain_in(index % SHARDS, |entry| {
                let last = entry.fresh_until().max(entry.asked_until);
                now < entry.over && now < last + entry.cap
            });
        }
    }

    /// Counts the refusals.
    pub(super) fn len(&self) -> u64 {
        self.len.load(Relaxed) as u64
    }

    /// Lets the caller ask about refusals that are due, unless another request already does; says whether it may.
    fn claim(&self, plan: &[Check<'_>], due: &Recollection, now: Timestamp) -> bool {
        let mut is_first = true;
        for &(place, _) in due {
            self.with(&plan[place], now, |entry| {
                is_first &= !entry.is_repeated(now);
                entry.asked_until = now + entry.cap;
            });
        }
        is_first
    }

    /// Says whether the next quota may take what the check at `place` refuses, as far as this node knows.
    fn may_spill(&self, plan: &[Check<'_>], place: usize, now: Timestamp) -> bool {
        let spill = plan.get(place + 1);
        let Some(spill) = spill.filter(|spill| spill.mode == CheckMode::Spill) else {
            return false;
        };
        let mut is_refused = false;
        self.with(spill, now, |_| is_refused = true);
        !is_refused
    }

    /// Calls `act` with what is remembered of a check, if it refuses it at `now`.
    fn with(&self, check: &Check<'_>, now: Timestamp, act: impl FnOnce(&mut RememberedRefusal)) {
        let hash = self.hash(check.series_id, check.partition_id);
        let mut shard = self.lock(hash);
        let is_it = |entry: &RememberedRefusal| entry.is_of_quota(check);
        if let Some(entry) = shard.entries.find_mut(hash, is_it)
            && entry.refuses(check, now)
        {
            act(entry);
        }
    }

    fn insert(&self, check: &Check<'_>, refused: RefusedState, asked: Interval, cap: Micros) {
        let known = KnownRefusal::of(check, refused, asked);
        // A cost above the capacity is refused even by a quota that is whole.
        let over = if check.cost > check.quota.capacity() {
            Timestamp(u64::MAX)
        } else {
            known.over(check.quota, asked)
        };
        let hash = self.hash(check.series_id, check.partition_id);
        let mut entry = RememberedRefusal {
            hash,
            series_id: check.series_id,
            partition_id: check.partition_id,
            quota: *check.quota,
            known,
            asked,
            cap,
            asked_until: Timestamp(0),
            over,
        };
        if entry.fresh_until().min(over) <= asked.received {
            return;
        }
        let mut shard = self.lock(hash);
        if shard.given_back.is_after(hash, asked.sent) {
            return;
        }
        let is_it = |known: &RememberedRefusal| known.is_of_quota(check);
        if let Some(known) = shard.entries.find_mut(hash, is_it) {
            entry.known.inherit(&known.known);
            *known = entry;
        } else if self.len.fetch_add(1, Relaxed) < ENTRIES_MAX {
            shard.entries.insert_unique(hash, entry, |entry| entry.hash);
        } else {
            self.len.fetch_sub(1, Relaxed);
        }
    }

    fn retain_in(&self, index: usize, stays: impl Fn(&RememberedRefusal) -> bool) {
        let mut shard = lock(&self.shards[index]);
        let before = shard.entries.len();
        shard.entries.retain(|entry| stays(entry));
        let dropped = before - shard.entries.len();
        if shard.entries.len() < shard.entries.capacity() / 4 {
            shard.entries.shrink_to_fit(|entry| entry.hash);
        }
        self.len.fetch_sub(dropped, Relaxed);
    }

    /// Nobody outside knows the key of the hash, so nobody can choose partitions whose hashes collide.
    fn hash(&self, series_id: SeriesId, partition_id: PartitionId) -> u64 {
        self.hasher.hash_one((series_id, partition_id))
    }

    fn lock(&self, hash: u64) -> MutexGuard<'_, RefusalShard> {
        // Hash tables use the lowest and the highest bits, so a shard is chosen by others.
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

impl RememberedRefusal {
    fn is_of(&self, series_id: SeriesId, partition_id: PartitionId) -> bool {
        (self.series_id, self.partition_id) == (series_id, partition_id)
    }

    /// Says whether the refusal is of a check's partition and quota; tiers of one series differ in their quota.
    fn is_of_quota(&self, check: &Check<'_>) -> bool {
        self.is_of(check.series_id, check.partition_id) && self.quota == *check.quota
    }

    /// Says whether a check of the same partition and quota must be refused too.
    fn refuses(&self, check: &Check<'_>, now: Timestamp) -> bool {
        matches!(check.mode, CheckMode::Enforce | CheckMode::Spill)
            && self.known.refuses(&self.quota, check.cost, self.asked, now)
    }

    fn fresh_until(&self) -> Timestamp {
        self.asked.sent + self.cap
    }

    /// Says whether the refusal is repeated without asking Redis.
    fn is_repeated(&self, now: Timestamp) -> bool {
        now < self.fresh_until().max(self.asked_until)
    }
}

pub(super) fn counts_refused(check: &Check<'_>) -> bool {
    check.quota.count == Count::All
}

/// Says whether the check's policy tries a candidate in this plan.
fn tries_candidate(plan: &[Check<'_>], check: &Check<'_>) -> bool {
    (plan.iter()).any(|other| other.mode == CheckMode::Candidate && other.policy == check.policy)
}

fn lock(shard: &Mutex<RefusalShard>) -> MutexGuard<'_, RefusalShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of shards, each with a lock of its own.
const SHARDS: usize = 64;
/// Shards that one sweep passes over; all are swept within 0.8 s.
const SHARDS_PER_SWEEP: usize = 8;
/// Most refusals that are remembered; further ones are not. They take 32 MB with their tables, and 32 MB more if all of
/// them are of sliding windows with many buckets in use.
const ENTRIES_MAX: usize = 1 << 16;
#[cfg(test)]
mod tests;
