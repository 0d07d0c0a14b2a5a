//! sliding-log: every spent cost with its time; exactly `limit` units in any stretch of `window`.
//!
//! An entry counts while `t - entry < window`. Admit iff `sum + cost <= limit`. With
//! `count = "all"` refused costs are logged too, and the log keeps only the shortest run of its
//! newest whole entries whose sum is above `limit` (the largest that has written to the log, if quotas of
//! several sizes share it): while those count, no older one matters.
//!
//! The first entry lives in place, so the state of a client that asked once has no heap. If there is no
//! memory for another entry, neighbours become one, with the later one's time.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::charged::Charged;
use super::quota::{COUNT_MAX, Count, Decision, Quota, Retry};
use super::state::State;
use crate::clock::{Micros, Timestamp};

/// Largest limit of a quota whose costs are logged: with this many entries no call takes Redis much over half a
/// millisecond (`cargo bench --bench redis -- log`).
pub const LOG_LIMIT_MAX: u64 = 1_000_000;

/// The costs of the last window, each with its time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlidingLog {
    /// Units of all live entries.
    sum: u64,
    /// The largest limit of the quotas that have written to the log since it was empty.
    limit_max: u64,
    /// Entries at the front that no longer count. They are removed in bulk, so that ageing is cheap.
    dead: usize,
    /// Spent costs, oldest first; two costs in one microsecond are two entries.
    entries: SmallVec<[LogEntry; 1]>,
}

/// One spent cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LogEntry {
    at: Timestamp,
    units: u64,
}

impl SlidingLog {
    /// Makes the state of entries, oldest first: the time and the units of each.
    pub fn new(entries: impl IntoIterator<Item = (Timestamp, u64)>) -> Self {
        let entry = |(at, units)| LogEntry { at, units };
        let entries: SmallVec<[LogEntry; 1]> = entries.into_iter().map(entry).collect();
        Self {
            sum: entries.iter().map(|entry| entry.units).sum(),
            limit_max: 0,
            dead: 0,
            entries,
        }
    }

    fn live(&self) -> &[LogEntry] {
        &self.entries[self.dead..]
    }

    /// Appends a cost, shortened if the sum would pass [`COUNT_MAX`].
    fn append(&mut self, quota: &Quota, units: u64, at: Timestamp) {
        let units = units.min(COUNT_MAX - self.sum);
        if units == 0 {
            return;
        }
        if self.sum == 0 {
            self.limit_max = 0;
        }
        self.sum += units;
        self.limit_max = self.limit_max.max(quota.limit);
        self.entries.push(LogEntry { at, units });
        if quota.count == Count::All {
            let limit_max = self.limit_max;
            self.forget_while(|oldest, sum| sum - oldest.units > limit_max);
        }
    }

    /// Counts everything that is ahead of `now` as one cost spent now.
    fn gather_ahead(&mut self, now: Timestamp) {
        let behind = self.live().partition_point(|entry| entry.at <= now);
        let units = self.live()[behind..].iter().map(|entry| entry.units).sum();
        self.entries.truncate(self.dead + behind);
        self.entries.push(LogEntry { at: now, units });
    }

    /// Forgets the oldest entry for as long as `is_spent` returns true for it and the sum.
    fn forget_while(&mut self, is_spent: impl Fn(&LogEntry, u64) -> bool) {
        while let Some(oldest) = self.entries.get(self.dead)
            && is_spent(oldest, self.sum)
        {
            self.sum -= oldest.units;
            self.dead += 1;
        }
        if 2 * self.dead >= self.entries.len() {
            self.entries.drain(..self.dead);
            self.dead = 0;
            if self.entries.capacity() > 4 * self.entries.len().max(1) {
                self.entries.shrink_to_fit();
            }
        }
    }

    /// Merges neighbouring entries, so that at most one more than half of the capacity is used.
    ///
    /// The cells whose entries become one are fixed in time. So merged entries are not merged again with
    /// later ones, and age out however often this is done. A capacity below four is too small for cells:
    /// everything becomes one entry.
    fn coarsen(&mut self, quota: &Quota) {
        self.entries.drain(..self.dead);
        self.dead = 0;
        let cell_us = match self.entries.capacity() as u64 / 2 {
            0 | 1 => u64::MAX,
            cells => quota.window.0.div_ceil(cells),
        };
        self.entries.dedup_by(|later, earlier| {
            let is_one = later.at.0 / cell_us == earlier.at.0 / cell_us;
            if is_one {
                earlier.at = later.at;
                earlier.units += later.units;
            }
            is_one
        });
    }

    /// Returns how long after `at` the sum is first at most `target`, which it exceeds.
    fn until_at_most(&self, quota: &Quota, target: u64, at: Timestamp) -> Micros {
        let mut sum = self.sum;
        for entry in self.live() {
            sum -= entry.units;
            if sum <= target {
                return (entry.at + quota.window).since(at);
            }
        }
        Micros(0)
    }
}

impl State for SlidingLog {
    fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        let Some(newest) = self.live().last() else {
            return now;
        };
        let at = if newest.at.since(now) <= quota.window {
            newest.at.max(now)
        } else {
            self.gather_ahead(now);
            now
        };
        self.forget_while(|oldest, _| at.since(oldest.at) >= quota.window);
        at
    }

    fn admits(&self, quota: &Quota, cost: u64, _at: Timestamp) -> bool {
        self.sum.saturating_add(cost) <= quota.limit
    }

    fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        self.append(quota, cost, at);
        Charged::plain(at, cost)
    }

    fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        let newest = self.live().last();
        Decision {
            admit,
            remaining: quota.limit.saturating_sub(self.sum),
            debt: 0,
            next: newest.map(|_| self.until_at_most(quota, self.sum.min(quota.limit) - 1, at)),
            reset: newest.map_or(Micros(0), |newest| (newest.at + quota.window).since(at)),
            retry: match admit {
                true => Retry::NOW,
                false if cost > quota.limit => Retry::Never,
                false => Retry::After(self.until_at_most(quota, quota.limit - cost, at)),
            },
            wait: Micros(0),
        }
    }

    fn release(&mut self, _quota: &Quota, charged: Charged, amount: u64, _at: Timestamp) {
        // Entries of one time age together, so units may come off any of them.
        let mut left = amount.min(charged.amount);
        while left > 0
            && let Some(live_index) = self.live().iter().rposition(|entry| entry.at == charged.at)
        {
            let index = self.dead + live_index;
            let entry = &mut self.entries[index];
            let back = left.min(entry.units);
            entry.units -= back;
            self.sum -= back;
            left -= back;
            if entry.units == 0 {
                self.entries.remove(index);
            }
        }
    }

    fn newest(&self, _quota: &Quota, at: Timestamp) -> Charged {
        let last = self.live().last();
        last.map_or_else(
            || Charged::plain(at, 0),
            |last| Charged::plain(last.at, last.units),
        )
    }

    fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool {
        (self.live().last()).is_none_or(|newest| newest.at + quota.window <= at)
    }

    fn heap_bytes(&self) -> usize {
        if self.entries.spilled() {
            self.entries.capacity() * size_of::<LogEntry>()
        } else {
            0
        }
    }

    fn growth_bytes(&self, _quota: &Quota, _at: Timestamp) -> usize {
        let capacity = self.entries.capacity();
        if self.entries.len() < capacity {
            return 0;
        }
        // As `SmallVec` grows.
        (capacity + 1).next_power_of_two() * size_of::<LogEntry>()
    }

    fn charge_in_place(&mut self, quota: &Quota, amount: u64, at: Timestamp) -> Charged {
        if self.growth_bytes(quota, at) > 0 {
            self.coarsen(quota);
        }
        let mut units = amount;
        if self.growth_bytes(quota, at) > 0
            && let Some(only) = self.entries.pop()
        {
            self.sum -= only.units;
            units = units.saturating_add(only.units);
        }
        self.append(quota, units, at);
        Charged::plain(at, amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Algorithm;

    const TEN_A_SECOND: Quota = Quota::of(Algorithm::SlidingLog, 10, Micros(1_000_000));

    /// Returns a log in which each cost is charged at its time.
    fn log_of(quota: &Quota, costs: &[(u64, u64)]) -> SlidingLog {
        let mut log = SlidingLog::default();
        for &(at_us, cost) in costs {
            let at = log.arrive(quota, Timestamp(at_us));
            log.charge(quota, cost, at);
        }
        log
    }

    fn entries(log: &SlidingLog) -> Vec<(u64, u64)> {
        (log.live().iter())
            .map(|entry| (entry.at.0, entry.units))
            .collect()
    }

    #[test]
    fn single_request_holds_no_heap() {
        let log = log_of(&TEN_A_SECOND, &[(5, 1)]);
        assert_eq!((log.heap_bytes(), size_of::<SlidingLog>()), (0, 48));
    }

    #[test]
    fn memory_of_a_burst_returns_when_it_has_aged() {
        let mut log = log_of(&TEN_A_SECOND, &[(0, 1); 10]);
        assert!(log.heap_bytes() > 0);
        log.arrive(&TEN_A_SECOND, Timestamp(1_000_000));
        assert_eq!((entries(&log), log.heap_bytes()), (vec![], 0));
    }

    #[test]
    fn counting_refused_costs_keeps_the_shortest_sufficient_run() {
        let quota = Quota {
            count: Count::All,
            ..TEN_A_SECOND
        };
        let log = log_of(&quota, &[(0, 9), (1, 1), (2, 4), (3, 6), (4, 0)]);
        assert_eq!(entries(&log), [(1, 1), (2, 4), (3, 6)]);
        let log = log_of(&quota, &[(0, 9), (1, 1), (2, 11)]);
        assert_eq!(entries(&log), [(2, 11)]);
    }

    #[test]
    fn sum_saturates_and_heals() {
        let mut log = log_of(&TEN_A_SECOND, &[(0, u64::MAX), (1, u64::MAX)]);
        assert_eq!(log.sum, COUNT_MAX);
        log.arrive(&TEN_A_SECOND, Timestamp(1_000_000));
        assert_eq!(log.sum, 0);
    }

    /// Units bought ahead come back in parts, and a part may be larger than any entry of its time.
    #[test]
    fn release_takes_what_it_needs_of_the_entries_of_its_time() {
        let mut log = log_of(&TEN_A_SECOND, &[(6, 9), (7, 12), (7, 19), (8, 1)]);
        let release = |log: &mut SlidingLog, amount| {
            log.release(
                &TEN_A_SECOND,
                Charged::plain(Timestamp(7), amount),
                amount,
                Timestamp(8),
            );
        };
        for (amount, left) in [
            (11, vec![(6, 9), (7, 12), (7, 8), (8, 1)]),
            (19, vec![(6, 9), (7, 1), (8, 1)]),
            (2, vec![(6, 9), (8, 1)]),
            (2, vec![(6, 9), (8, 1)]),
        ] {
            release(&mut log, amount);
            assert_eq!(
                (entries(&log), log.sum),
                (left.clone(), left.iter().map(|entry| entry.1).sum())
            );
        }
    }

    #[test]
    fn log_from_far_ahead_is_rewritten_and_not_given_back() {
        let mut log = log_of(&TEN_A_SECOND, &[(9_000_000, 2), (9_100_000, 3)]);
        let at = log.arrive(&TEN_A_SECOND, Timestamp(5));
        let charged = Charged::plain(Timestamp(9_100_000), 3);
        log.release(&TEN_A_SECOND, charged, 3, at);
        assert_eq!((at, entries(&log)), (Timestamp(5), vec![(5, 5)]));
    }
}
