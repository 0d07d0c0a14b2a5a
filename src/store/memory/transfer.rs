//! Counters as one process passes them to the next one on the same machine.
//!
//! The states are passed as they are, so both processes must have the same [`VERSION`].

use serde::{Deserialize, Serialize};

use super::MemoryStore;
use super::partitions::Partitions;
use super::placement::shard_of;
use super::table::SeriesTable;
use crate::limit::calendar_window::CalendarWindow;
use crate::limit::credits::Credits;
use crate::limit::fixed_window::FixedWindow;
use crate::limit::gcra::{CompactGcra, Gcra};
use crate::limit::penalty::Penalty;
use crate::limit::plan::SeriesId;
use crate::limit::sliding_log::SlidingLog;
use crate::limit::sliding_window::SlidingWindow;
use crate::limit::{PartitionId, Quota, State};
use crate::store::directives::DirectiveSet;
use crate::store::series::Series;

/// States of some partitions of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesStates {
    /// The series.
    pub series: Series,
    states: States,
}

/// States of the series' algorithm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum States {
    FixedWindow(Vec<(PartitionId, FixedWindow)>),
    SlidingWindow(Vec<(PartitionId, SlidingWindow)>),
    SlidingLog(Vec<(PartitionId, SlidingLog)>),
    Gcra(Vec<(PartitionId, Gcra)>),
    CompactGcra(Vec<(PartitionId, CompactGcra)>),
    CalendarWindow(Vec<(PartitionId, CalendarWindow)>),
    Credits(Vec<(PartitionId, Credits)>),
    Penalty(Vec<(PartitionId, Penalty)>),
}

impl MemoryStore {
    /// Returns the number of parts in which [`part`](Self::part) passes the counters.
    pub fn parts(&self) -> usize {
        self.shards.len()
    }

    /// Returns the counters of one part, grouped by series.
    pub fn part(&self, index: usize) -> Vec<SeriesStates> {
        let shard = self.shards.lock(index);
        let tables = shard.tables();
        let copied = tables.filter_map(|(series_id, table)| Some((series_id, States::of(table)?)));
        let copied: Vec<_> = copied.collect();
        drop(shard);
        // Read after the tables, because a reload may have added series.
        let series = self.series();
        let with_series = copied.into_iter().map(|(series_id, states)| SeriesStates {
            series: series[series_id.0 as usize].clone(),
            states,
        });
        with_series.collect()
    }

    /// Takes over counters of a series that is counted by `quota`; returns the number of partitions.
    ///
    /// It takes all of them, regardless of the bound: the old process held them within its own. What exceeds a smaller
    /// bound stays until it is idle, as after a reload.
    pub fn adopt(&self, series_id: SeriesId, quota: &Quota, passed: SeriesStates) -> usize {
        match passed.states {
            States::FixedWindow(states) => self.adopt_all(series_id, quota, states),
            States::CalendarWindow(states) => self.adopt_all(series_id, quota, states),
            States::SlidingWindow(states) => self.adopt_all(series_id, quota, states),
            States::SlidingLog(states) => self.adopt_all(series_id, quota, states),
            States::Gcra(states) => {
                let can_come_back = true;
                let quota = Quota {
                    can_come_back,
                    ..*quota
                };
                self.adopt_all(series_id, &quota, states)
            }
            States::CompactGcra(states) if quota.can_come_back => {
                let now = self.shards.clock.now();
                let wide = |(partition_id, state)| (partition_id, Gcra::of_compact(state, now));
                let states = states.into_iter().map(wide).collect();
                self.adopt_all(series_id, quota, states)
            }
            States::CompactGcra(states) => self.adopt_all(series_id, quota, states),
            States::Credits(states) => self.adopt_all(series_id, quota, states),
            States::Penalty(states) => self.adopt_all(series_id, quota, states),
        }
    }

    /// Returns the operators' directives that are kept in this process.
    pub fn directives(&self) -> DirectiveSet {
        let newest = self.directives.changed_since(u64::MAX);
        newest.unwrap_or_default()
    }

    /// Takes over the directives that operators gave the old process.
    pub fn adopt_directives(&self, set: DirectiveSet) {
        self.directives.adopt(set);
    }

    fn adopt_all<S: Adoptable>(
        &self,
        series_id: SeriesId,
        quota: &Quota,
        states: Vec<(PartitionId, S)>,
    ) -> usize {
        let count = states.len();
        for (partition_id, state) in states {
            let mut shard = self.shards.lock(shard_of(partition_id));
            let table = shard.table_for(series_id, quota);
            if let Some(partitions) = S::partitions(table) {
                partitions.adopt(partition_id, state, &self.shards.budget);
            }
        }
        count
    }
}

impl States {
    /// Copies a table; returns none for units in flight, which come back to the process that answers the requests.
    fn of(table: &SeriesTable) -> Option<Self> {
        Some(match table {
            SeriesTable::FixedWindow(partitions) => Self::FixedWindow(partitions.copied()),
            SeriesTable::CalendarWindow(partitions) => Self::CalendarWindow(partitions.copied()),
            SeriesTable::SlidingWindow(partitions) => Self::SlidingWindow(partitions.copied()),
            SeriesTable::SlidingLog(partitions) => Self::SlidingLog(partitions.copied()),
            SeriesTable::Gcra(partitions) => Self::Gcra(partitions.copied()),
            SeriesTable::CompactGcra(partitions) => Self::CompactGcra(partitions.copied()),
            SeriesTable::Credits(partitions) => Self::Credits(partitions.copied()),
            SeriesTable::Penalty(partitions) => Self::Penalty(partitions.copied()),
            SeriesTable::InFlight(_) => return None,
        })
    }
}

/// A state whose partitions can be found in a table.
trait Adoptable: State + Clone {
    /// Returns the partitions of a table; none if it is of another algorithm.
    fn partitions(table: &mut SeriesTable) -> Option<&mut Partitions<Self>>;
}

macro_rules! adoptable {
    ($($state:ident),*) => {$(
        impl Adoptable for $state {
            fn partitions(table: &mut SeriesTable) -> Option<&mut Partitions<Self>> {
                match table {
                    SeriesTable::$state(partitions) => Some(partitions),
                    _ => None,
                }
            }
        }
    )*};
}
adoptable!(
    FixedWindow,
    CalendarWindow,
    SlidingWindow,
    SlidingLog,
    Gcra,
    CompactGcra,
    Credits,
    Penalty
);

/// Version of the states' layout: two processes with different ones pass each other nothing.
pub const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Micros, Timestamp};
    use crate::limit::{Algorithm, Align, Calendar, Check, OldestBucket};
    use crate::store::series::SeriesRole;

    const START: Timestamp = Timestamp(1_800_000_000_000_000);

    fn quota(algorithm: Algorithm, can_come_back: bool) -> Quota {
        Quota {
            can_come_back,
            ..Quota::of(algorithm, 10, Micros::from_secs(60))
        }
    }

    fn quotas() -> [Quota; 6] {
        let sliding = Algorithm::SlidingWindow {
            buckets: 6,
            oldest: OldestBucket::Weighted,
        };
        [
            quota(Algorithm::FixedWindow, false),
            quota(sliding, false),
            quota(Algorithm::SlidingLog, false),
            quota(Algorithm::Gcra { burst: 10 }, false),
            quota(Algorithm::Gcra { burst: 10 }, true),
            quota(Algorithm::LeakyBucket { queue: 10 }, false),
        ]
    }

    fn series(quota: &Quota) -> Series {
        Series::of("p", SeriesRole::Real, quota)
    }

    #[test]
    fn all_that_a_full_store_holds_is_taken_over_and_fits() {
        const MEMORY: u64 = 32 << 20;
        let quota = quota(Algorithm::SlidingLog, false);
        let clock = Clock::manual(START);
        let [old, new] = [(); 2].map(|()| MemoryStore::new(clock.clone(), MEMORY));
        let series_id = old.series_id(&series(&quota));
        let spend = |client: u32| {
            let digest = blake3::hash(&client.to_le_bytes());
            let (id, _) = digest.as_bytes().split_at(16);
            let id = id.try_into().expect("16 bytes");
            let check = Check::of(&quota, series_id, PartitionId::new(u128::from_le_bytes(id)));
            old.decide(&[check]);
        };
        // Many more than fit; then known clients use the last eighth.
        (0..450_000).for_each(spend);
        for _ in 0..2 {
            clock.advance(Micros(1));
            (0..100_000).for_each(spend);
        }
        let held = old.usage();
        assert!(held.bytes > MEMORY / 16 * 15, "{held:?}");
        let taken = new.series_id(&series(&quota));
        for states in (0..old.parts()).flat_map(|part| old.part(part)) {
            new.adopt(taken, &quota, states);
        }
        let usage = new.usage();
        assert_eq!(usage.partitions, held.partitions);
        assert!(usage.bytes <= MEMORY, "{usage:?} instead of {held:?}");
    }

    /// Units in flight come back to the process that answers the requests, and would stay held in another one for good.
    #[test]
    fn units_in_flight_are_not_passed_on() {
        let quota = quota(Algorithm::InFlight, true);
        let store = MemoryStore::new(Clock::manual(START), 1 << 20);
        let check = Check {
            cost: 3,
            ..Check::of(
                &quota,
                store.series_id(&series(&quota)),
                PartitionId::new(1),
            )
        };
        store.decide(&[check]);
        let look = Check { cost: 0, ..check };
        assert_eq!(store.peek(&[look])[0].remaining, 7);
        let mut parts = (0..store.parts()).flat_map(|part| store.part(part));
        assert_eq!(parts.next(), None);
    }

    /// These bytes are passed between versions of the gateway: whoever changes them must change [`VERSION`]. Algorithms
    /// and options that no earlier version has may be added at the ends.
    #[test]
    fn each_version_has_its_own_layout() {
        let layout = |quotas: &[Quota]| {
            let store = MemoryStore::new(Clock::manual(START), 1 << 20);
            for (index, quota) in (0..).zip(quotas) {
                let series = Series {
                    window: Micros(quota.window.0 + index),
                    ..Series::of("p", SeriesRole::Candidate, quota)
                };
                let check = Check {
                    cost: 3,
                    ..Check::of(
                        quota,
                        store.series_id(&series),
                        PartitionId::new(u128::MAX / 3),
                    )
                };
                store.decide(&[check]);
            }
            let parts = (0..store.parts()).flat_map(|part| store.part(part));
            let bytes = parts.flat_map(|states| postcard::to_stdvec(&states).expect("plain data"));
            blake3::hash(&bytes.collect::<Vec<_>>()).to_hex()[..16].to_owned()
        };
        assert_eq!((VERSION, &*layout(&quotas())), (1, "1c3e90a3b0bb58f9"));
        let since_0_2 = [
            quota(Algorithm::Calendar(Calendar::of_days()), false),
            Quota {
                align: Align::First,
                ..quota(Algorithm::FixedWindow, false)
            },
            quota(Algorithm::Credits { initial: 5 }, false),
            Quota::penalty(Micros::from_secs(60), 2),
        ];
        assert_eq!(layout(&since_0_2), "18ea64a4c532780c");
    }
}
