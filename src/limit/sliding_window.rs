//! sliding-window: the window in `n` equal buckets, the oldest of which is leaving.
//!
//! With `b = window / n`, `i = floor(t / b)` and `e = t - i*b`, usage is the sum of buckets `i-n+1 … i` and of what
//! [`OldestBucket`] lets count of bucket `i-n`. Admit iff `usage + cost <= limit`.
//!
//! Only buckets that hold units are kept, in one word each and the first two in place, so the state of a client that
//! asks now and then is 32 bytes without a heap. If there is no memory for another bucket, neighbours become one.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::cmp::Ordering;

use super::charged::Charged;
use super::quota::{Algorithm, COUNT_MAX, Decision, OldestBucket, Quota, Retry};
use super::state::State;
use crate::clock::{Micros, Timestamp};

/// Units used in each bucket of the last window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlidingWindow {
    /// Index of the newest bucket that holds units; meaningless if none does.
    newest: u64,
    /// The buckets that hold units, oldest first.
    buckets: SmallVec<[Bucket; 2]>,
}

/// A bucket: its units in the lower bits, and above them the low bits of its index.
///
/// The low bits are enough, because live buckets are at most [`BUCKETS_MAX`] apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Bucket(u64);

/// How a quota divides time into buckets.
struct Grid {
    /// Buckets per window (`n`).
    buckets: u64,
    /// Length of a bucket (`b`).
    width_us: u64,
    oldest: OldestBucket,
}

impl SlidingWindow {
    /// Makes the state of buckets, oldest first: the index and the units of each.
    pub fn new(buckets: &[(u64, u64)]) -> Self {
        let bucket = |&(index, units): &(u64, u64)| Bucket::new(index, units);
        Self {
            newest: buckets.last().map_or(0, |newest| newest.0),
            buckets: buckets.iter().map(bucket).collect(),
        }
    }

    /// Returns how many buckets hold units.
    pub fn buckets_in_use(&self) -> usize {
        self.buckets.len()
    }

    /// Iterates over index and units of the buckets, oldest first.
    fn buckets(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        (self.buckets.iter()).map(|bucket| (bucket.index(self.newest), bucket.units()))
    }

    fn usage(&self, grid: &Grid, at: Timestamp) -> u64 {
        (self.buckets())
            .map(|(index, units)| grid.counted(index, units, at))
            .sum()
    }

    /// Adds units to the bucket of `at`; no bucket may be later.
    fn add(&mut self, grid: &Grid, units: u64, at: Timestamp) {
        if units == 0 {
            return;
        }
        let index = grid.index(at);
        match self.buckets.last_mut() {
            Some(last) if self.newest == index => *last = Bucket::new(index, last.units() + units),
            _ => self.buckets.push(Bucket::new(index, units)),
        }
        self.newest = index;
    }

    /// Counts everything as spent in the bucket of `now`.
    fn gather(&mut self, grid: &Grid, now: Timestamp) {
        let units = self.buckets().map(|(_, units)| units).sum();
        self.buckets.clear();
        self.add(grid, units, now);
    }

    /// Drops the buckets that no longer count at `at`, and most of the memory they took.
    fn forget_aged(&mut self, grid: &Grid, at: Timestamp) {
        let aged = (self.buckets())
            .take_while(|&(index, _)| grid.is_gone(index, at))
            .count();
        if aged > 0 {
            self.buckets.drain(..aged);
            if self.buckets.capacity() > 4 * self.buckets.len().max(1) {
                self.buckets.shrink_to_fit();
            }
        }
    }

    /// Merges neighbouring buckets, so that at most one more than half of the capacity is used.
    ///
    /// The groups that become one bucket, with the latest one's index, are fixed in time. So merged buckets are not
    /// merged again with later ones, and age out however often this is done. A window without a heap has room for only
    /// two buckets, too few for groups: everything becomes one bucket.
    fn coarsen(&mut self, grid: &Grid) {
        let newest = self.newest;
        let group = match self.buckets.capacity() as u64 / 2 {
            0 | 1 => u64::MAX,
            groups => grid.buckets.div_ceil(groups),
        };
        self.buckets.dedup_by(|later, earlier| {
            let index = later.index(newest);
            let is_one = index / group == earlier.index(newest) / group;
            if is_one {
                *earlier = Bucket::new(index, earlier.units() + later.units());
            }
            is_one
        });
    }

    /// Returns how long after `at` usage is first at most `target`, which it exceeds.
    fn until_at_most(&self, grid: &Grid, target: u64, at: Timestamp) -> Micros {
        let mut sum: u64 = self.buckets().map(|(_, units)| units).sum();
        for (index, units) in self.buckets() {
            sum -= units;
            if sum <= target {
                return grid.leaves_down_to(index, units, target - sum).since(at);
            }
        }
        Micros(0)
    }
}

impl State for SlidingWindow {
    fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        if self.buckets.is_empty() {
            return now;
        }
        let grid = Grid::of(quota);
        let newest = grid.start(self.newest);
        let at = if newest.since(now) <= quota.window {
            newest.max(now)
        } else {
            self.gather(&grid, now);
            now
        };
        self.forget_aged(&grid, at);
        at
    }

    fn admits(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        self.usage(&Grid::of(quota), at).saturating_add(cost) <= quota.limit
    }

    fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        self.add(&Grid::of(quota), cost.min(COUNT_MAX), at);
        Charged::plain(at, cost)
    }

    fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        let grid = Grid::of(quota);
        let usage = self.usage(&grid, at);
        let until_at_most = |target| self.until_at_most(&grid, target, at);
        Decision {
            admit,
            remaining: quota.limit.saturating_sub(usage),
            debt: 0,
            next: (usage > 0).then(|| until_at_most(usage.min(quota.limit) - 1)),
            reset: match usage {
                0 => Micros(0),
                _ => until_at_most(0),
            },
            retry: match admit {
                true => Retry::NOW,
                false if cost > quota.limit => Retry::Never,
                false => Retry::After(until_at_most(quota.limit - cost)),
            },
            wait: Micros(0),
        }
    }

    fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, _at: Timestamp) {
        let charged_index = Grid::of(quota).index(charged.at);
        let Some(position) = self.buckets().position(|(index, _)| index == charged_index) else {
            return;
        };
        let left = self.buckets[position].units().saturating_sub(amount);
        if left > 0 {
            self.buckets[position] = Bucket::new(charged_index, left);
        } else {
            // If the newest bucket goes, its neighbour becomes the newest.
            let newest = (self.buckets().rev()).find(|&(index, _)| index != charged_index);
            self.buckets.remove(position);
            self.newest = newest.map_or(0, |(index, _)| index);
        }
    }

    fn spend_then(&mut self, quota: &Quota, amount: u64, then: Charged, at: Timestamp) {
        let grid = Grid::of(quota);
        let (now, amount) = (grid.index(at), amount.min(COUNT_MAX));
        let index = grid.index(then.at).min(now);
        // A bucket that no longer counts under `OldestBucket::Dropped` is dropped at the next arrival.
        if amount == 0 || index + grid.buckets < now {
            return;
        }
        let earlier = self.buckets().take_while(|&(other, _)| other < index);
        let place = earlier.count();
        let found = self.buckets().nth(place);
        match found {
            Some((other, units)) if other == index => {
                self.buckets[place] = Bucket::new(index, units + amount);
            }
            _ => self.buckets.insert(place, Bucket::new(index, amount)),
        }
        if place + 1 == self.buckets.len() {
            self.newest = index;
        }
    }

    fn newest(&self, quota: &Quota, _at: Timestamp) -> Charged {
        let units = self.buckets.last().map_or(0, |last| last.units());
        Charged::plain(Grid::of(quota).start(self.newest), units)
    }

    fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool {
        let grid = Grid::of(quota);
        // The newest bucket ages out last, so the others need not be checked.
        (self.buckets.last()).is_none_or(|last| grid.counted(self.newest, last.units(), at) == 0)
    }

    fn heap_bytes(&self) -> usize {
        if self.buckets.spilled() {
            self.buckets.capacity() * size_of::<Bucket>()
        } else {
            0
        }
    }

    fn growth_bytes(&self, quota: &Quota, at: Timestamp) -> usize {
        let capacity = self.buckets.capacity();
        if self.buckets.len() < capacity || self.newest == Grid::of(quota).index(at) {
            return 0;
        }
        // As `SmallVec` grows.
        (capacity + 1).next_power_of_two() * size_of::<Bucket>()
    }

    fn charge_in_place(&mut self, quota: &Quota, amount: u64, at: Timestamp) -> Charged {
        if self.growth_bytes(quota, at) > 0 {
            self.coarsen(&Grid::of(quota));
        }
        self.charge(quota, amount, at)
    }
}

impl Bucket {
    fn new(index: u64, units: u64) -> Self {
        Self(index << UNITS_BITS | units.min(COUNT_MAX))
    }

    fn units(self) -> u64 {
        self.0 & (u64::MAX >> (u64::BITS - UNITS_BITS))
    }

    /// Returns the bucket's index, given the newest bucket's.
    fn index(self, newest: u64) -> u64 {
        let age = (newest << UNITS_BITS).wrapping_sub(self.0 - self.units()) >> UNITS_BITS;
        newest - age
    }
}

impl Grid {
    fn of(quota: &Quota) -> Self {
        let Algorithm::SlidingWindow { buckets, oldest } = quota.algorithm else {
            unreachable!("a sliding window is asked only about sliding-window quotas");
        };
        let buckets = u64::from(buckets);
        Self {
            buckets,
            width_us: quota.window.0 / buckets,
            oldest,
        }
    }

    fn index(&self, at: Timestamp) -> u64 {
        at.0 / self.width_us
    }

    fn start(&self, index: u64) -> Timestamp {
        Timestamp(index * self.width_us)
    }

    /// Says whether a bucket has left the window for good.
    fn is_gone(&self, index: u64, at: Timestamp) -> bool {
        match (index + self.buckets).cmp(&self.index(at)) {
            Ordering::Less => true,
            Ordering::Equal => self.oldest == OldestBucket::Dropped,
            Ordering::Greater => false,
        }
    }

    /// Returns how many of a bucket's units count at `at`.
    fn counted(&self, index: u64, units: u64, at: Timestamp) -> u64 {
        let leaves = self.start(index + self.buckets);
        let inside_us = (leaves + Micros(self.width_us)).since(at).0;
        match self.oldest {
            _ if at < leaves => units,
            OldestBucket::Weighted => part(units, inside_us, self.width_us),
            OldestBucket::Whole if inside_us > 0 => units,
            OldestBucket::Whole | OldestBucket::Dropped => 0,
        }
    }

    /// Returns when at most `rest` of a bucket's units still count.
    fn leaves_down_to(&self, index: u64, units: u64, rest: u64) -> Timestamp {
        let leaves = self.start(index + self.buckets);
        match self.oldest {
            _ if units <= rest => leaves,
            // floor(units * (b - e) / b) <= rest, solved for the smallest e.
            OldestBucket::Weighted => {
                let inside_us =
                    (u128::from(rest + 1) * u128::from(self.width_us)).div_ceil(u128::from(units));
                leaves + Micros(self.width_us + 1 - narrowed(inside_us))
            }
            OldestBucket::Whole => leaves + Micros(self.width_us),
            OldestBucket::Dropped => leaves,
        }
    }
}

/// Returns `floor(units * inside / width)`; the product of a count and microseconds may exceed 64 bits.
fn part(units: u64, inside_us: u64, width_us: u64) -> u64 {
    narrowed(u128::from(units) * u128::from(inside_us) / u128::from(width_us))
}

fn narrowed(quotient: u128) -> u64 {
    u64::try_from(quotient).expect("a part is at most the whole")
}

/// Bits of a [`Bucket`] that hold its units, which saturate at 2^52.
const UNITS_BITS: u32 = 53;
/// Most buckets per window; one more may be leaving.
pub const BUCKETS_MAX: u32 = 360;
const _: () = assert!(BUCKETS_MAX < 1 << (u64::BITS - UNITS_BITS));

#[cfg(test)]
mod tests;
