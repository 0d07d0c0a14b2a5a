//! Growth of counters in each of the last steps, by name; both steps and names are bounded.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Growth of `N` related counters in one step.
pub(in crate::admin) type StepCounts<const N: usize> = [u64; N];

/// Counters of many names, and their growth in the last steps.
#[derive(Debug)]
pub(in crate::admin) struct CountersByName<Name, const N: usize> {
    names: HashMap<Name, StepCounters<N>>,
    /// Whether there was a step: before the first one, all counters were 0.
    has_begun: bool,
}

/// `N` related counters, and their growth in the last steps.
#[derive(Debug)]
pub(in crate::admin) struct StepCounters<const N: usize> {
    /// Values of the counters at the last step.
    counters: [u64; N],
    steps: RecentSteps<N>,
    /// Weighted sum of recent growth, by which names are ordered; growth [`STEPS_MAX`] steps ago hardly counts.
    weight: u64,
}

/// Growth of `N` related counters in the last steps.
#[derive(Debug)]
pub(in crate::admin) struct RecentSteps<const N: usize> {
    latest: StepCounts<N>,
    /// Growth in each of the last steps, the oldest first; empty if nothing is kept.
    recent: VecDeque<StepCounts<N>>,
    /// How many steps ago any of the counters last grew.
    quiet: usize,
}

impl<const N: usize> StepCounters<N> {
    /// Begins with the values of the counters before the first step.
    fn new(counters: [u64; N]) -> Self {
        Self {
            counters,
            steps: RecentSteps::default(),
            weight: 0,
        }
    }

    pub(super) fn step(&mut self, counters: [u64; N], weighed: usize) {
        // A counter that is lower than before has restarted at 0.
        let counts = std::array::from_fn(|place| {
            let (now, before) = (counters[place], self.counters[place]);
            now.checked_sub(before).unwrap_or(now)
        });
        self.counters = counters;
        self.steps.add(counts);
        let counted = counts[weighed].saturating_mul(WEIGHT);
        let others: u64 = counts.iter().sum();
        self.weight = (self.weight - self.weight / FORGETTING)
            .saturating_add(counted)
            .saturating_add(others);
    }

    pub(in crate::admin) fn latest(&self) -> &StepCounts<N> {
        &self.steps.latest
    }
}

impl<const N: usize> Default for StepCounters<N> {
    fn default() -> Self {
        Self::new([0; N])
    }
}

impl<const N: usize> RecentSteps<N> {
    /// Adds a step.
    pub(super) fn add(&mut self, counts: StepCounts<N>) {
        self.latest = counts;
        let grew = counts != [0; N];
        self.quiet = if grew { 0 } else { self.quiet + 1 };
        if grew || !self.recent.is_empty() {
            self.recent.push_back(counts);
        }
        if self.recent.len() > STEPS_MAX {
            self.recent.pop_front();
        }
        if self.quiet >= STEPS_MAX {
            self.recent = VecDeque::new();
        }
    }

    pub(in crate::admin) fn latest(&self) -> &StepCounts<N> {
        &self.latest
    }

    /// Returns by how much a counter grew in each of the last `steps` steps, the oldest first.
    pub(super) fn growth(&self, counter: usize, steps: usize) -> Vec<u64> {
        let missing = steps.saturating_sub(self.recent.len());
        let recent = self.recent.iter().map(|growth| growth[counter]);
        std::iter::repeat_n(0, missing).chain(recent).collect()
    }
}

impl<Name: Clone + Eq + Hash + Ord, const N: usize> CountersByName<Name, N> {
    /// Takes a step of all counters that there are, and forgets all other names. Steps are kept only of the busiest
    /// names, where growth of the counter `weighed` counts most. Returns the growth of all names together.
    pub(super) fn step(
        &mut self,
        counters: impl Iterator<Item = (Name, [u64; N])>,
        weighed: usize,
    ) -> StepCounts<N> {
        let mut before = std::mem::take(&mut self.names);
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        let mut total = [0_u64; N];
        for (name, now) in counters {
            let known = before.remove(&name);
            let mut one =
                known.unwrap_or_else(|| StepCounters::new(if has_begun { now } else { [0; N] }));
            one.step(now, weighed);
            for (total, count) in total.iter_mut().zip(one.steps.latest) {
                *total += count;
            }
            self.names.insert(name, one);
        }
        self.bound();
        total
    }

    /// Returns the names whose steps are kept, the busiest first.
    pub(super) fn kept(&self) -> Vec<(&Name, &RecentSteps<N>)> {
        let all = self.names.iter();
        let mut kept: Vec<_> = all
            .filter(|(_, one)| !one.steps.recent.is_empty())
            .collect();
        kept.sort_unstable_by_key(|(name, one)| (Reverse(one.weight), *name));
        kept.into_iter()
            .map(|(name, one)| (name, &one.steps))
            .collect()
    }

    /// Forgets the steps of all but the [`SERIES_MAX`] busiest names.
    fn bound(&mut self) {
        let kept = self.kept();
        if kept.len() <= SERIES_MAX {
            return;
        }
        let others = kept.into_iter().skip(SERIES_MAX);
        let forgotten: Vec<Name> = others.map(|(name, _)| name.clone()).collect();
        for name in forgotten {
            if let Some(one) = self.names.get_mut(&name) {
                one.steps.recent = VecDeque::new();
            }
        }
    }

    /// Returns the names that grew in the last step, in descending order of `counter`'s growth; at most [`SERIES_MAX`].
    pub(in crate::admin) fn latest(&self, counter: usize) -> Vec<(&Name, &StepCounts<N>)> {
        let all = self
            .names
            .iter()
            .map(|(name, one)| (name, &one.steps.latest));
        let mut grew: Vec<_> = all.filter(|(_, latest)| **latest != [0; N]).collect();
        grew.sort_unstable_by_key(|(name, latest)| {
            (
                Reverse((latest[counter], latest.iter().sum::<u64>())),
                *name,
            )
        });
        grew.truncate(SERIES_MAX);
        grew
    }
}

impl<Name, const N: usize> Default for CountersByName<Name, N> {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
            has_begun: false,
        }
    }
}

impl<const N: usize> Default for RecentSteps<N> {
    fn default() -> Self {
        Self {
            latest: [0; N],
            recent: VecDeque::new(),
            quiet: 0,
        }
    }
}

/// Most steps that are kept.
pub(super) const STEPS_MAX: usize = 300;
/// Most names whose steps are kept and shown.
pub(super) const SERIES_MAX: usize = 100;

/// Extra weight of the counter by which names are ordered.
const WEIGHT: u64 = 16;
/// In each step, a weight loses one part in this many.
const FORGETTING: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    type Counters = CountersByName<usize, 2>;

    fn step(counters: &mut Counters, now: &[(usize, [u64; 2])]) -> StepCounts<2> {
        counters.step(now.iter().copied(), 1)
    }

    #[test]
    fn what_a_name_has_counted_before_it_came_is_no_step_and_neither_is_that_one_goes() {
        let mut counters = Counters::default();
        assert_eq!(step(&mut counters, &[(0, [50, 5]), (1, [9, 9])]), [59, 14]);
        assert_eq!(step(&mut counters, &[(0, [53, 5]), (1, [9, 10])]), [3, 1]);
        // One name goes, another one comes with counts of its own, and one restarts at 0.
        assert_eq!(step(&mut counters, &[(0, [4, 0]), (2, [70, 7])]), [4, 0]);
        assert_eq!(step(&mut counters, &[(0, [4, 0]), (2, [71, 7])]), [1, 0]);
        let kept = counters.kept();
        let of_first = kept.iter().find(|(name, _)| **name == 0).expect("it grew");
        assert_eq!(of_first.1.growth(0, 5), [0, 50, 3, 4, 0]);
    }

    #[test]
    fn no_more_is_kept_than_the_bounds_say_and_that_of_the_busiest() {
        let mut counters = Counters::default();
        let count = 3 * SERIES_MAX;
        let all = |from: usize, step: u64| {
            (from..count).map(move |name| (name, [step, step * name as u64]))
        };
        for number in 0..STEPS_MAX as u64 + 10 {
            counters.step(all(1, number), 1);
        }
        let names: Vec<usize> = counters.kept().iter().map(|(name, _)| **name).collect();
        let busiest: Vec<usize> = (count - SERIES_MAX..count).rev().collect();
        assert_eq!(names, busiest);
        assert!(
            counters
                .kept()
                .iter()
                .all(|(_, one)| one.recent.len() <= STEPS_MAX)
        );
        // A name that becomes the busiest is kept.
        for number in 0..3 {
            let newcomer = [(0, [0, number * 100_000])];
            counters.step(
                newcomer
                    .into_iter()
                    .chain(all(1, STEPS_MAX as u64 + 10 + number)),
                1,
            );
        }
        assert_eq!(*counters.kept()[0].0, 0);
        // The steps of quiet names are forgotten, and so are names that are gone.
        for _ in 0..=STEPS_MAX {
            step(&mut counters, &[(0, [0, 200_000])]);
        }
        assert_eq!((counters.kept().len(), counters.names.len()), (0, 1));
    }
}
