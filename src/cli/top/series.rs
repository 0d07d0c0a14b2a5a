//! Counts of each of the last steps, by name; both steps and names are bounded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::text::SafeText;
use super::wire::NAMES_MAX;

/// Counts of `N` counters in the last steps, the oldest first; at most [`POINTS_MAX`] steps.
#[derive(Debug, Default)]
pub(super) struct Points<const N: usize>(VecDeque<[u64; N]>);

impl<const N: usize> Points<N> {
    /// Takes the lists of the first few counters; the others were 0.
    pub(super) fn of(lists: &[&[u64]]) -> Self {
        let count = lists.iter().map(|list| list.len()).max().unwrap_or(0);
        let first = count.saturating_sub(POINTS_MAX);
        let point = |step: usize| {
            let counted = |list: &&[u64]| list.get(step).copied().unwrap_or(0);
            std::array::from_fn(|counter| lists.get(counter).map_or(0, counted))
        };
        Self((first..count).map(point).collect())
    }

    pub(super) fn push(&mut self, point: [u64; N]) {
        if self.0.len() == POINTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(point);
    }

    pub(super) fn forget_last(&mut self) {
        self.0.pop_back();
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a counter's count in each step.
    pub(super) fn values(&self, counter: usize) -> Vec<u64> {
        self.0.iter().map(|point| point[counter]).collect()
    }

    /// Returns a counter's sum over the last `steps` steps.
    pub(super) fn lately(&self, counter: usize, steps: usize) -> u64 {
        let latest = self.0.iter().rev().take(steps);
        latest.fold(0, |sum, point| sum.saturating_add(point[counter]))
    }
}

/// Points by name, the highest sums of the counter `rank` first; at most [`NAMES_MAX`] names, and none without counts.
#[derive(Debug)]
pub(super) struct NamedPoints<const N: usize> {
    named: Vec<(SafeText, Points<N>)>,
    /// Index of the counter by which names are ordered first.
    rank: usize,
}

impl<const N: usize> NamedPoints<N> {
    pub(super) fn of(rank: usize, named: impl Iterator<Item = (SafeText, Points<N>)>) -> Self {
        let named = named.take(NAMES_MAX).collect();
        let mut all = Self { named, rank };
        all.settle();
        all
    }

    /// Takes the counts of a step; names that are not in it have counted nothing.
    pub(super) fn step(&mut self, counts: impl Iterator<Item = (SafeText, [u64; N])>) {
        let mut counts: BTreeMap<_, _> = counts.collect();
        for (name, points) in &mut self.named {
            points.push(counts.remove(name).unwrap_or([0; N]));
        }
        for (name, point) in counts {
            self.named.push((name, Points(VecDeque::from([point]))));
        }
        self.settle();
    }

    pub(super) fn forget_last(&mut self) {
        for (_, points) in &mut self.named {
            points.forget_last();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&SafeText, &Points<N>)> {
        self.named.iter().map(|(name, points)| (name, points))
    }

    fn settle(&mut self) {
        let sum = |points: &Points<N>| {
            let sums = (0..N).map(|counter| points.lately(counter, POINTS_MAX));
            sums.fold(0, u64::saturating_add)
        };
        self.named.retain(|(_, points)| sum(points) > 0);
        let rank = self.rank;
        self.named.sort_by_cached_key(|(name, points)| {
            let ranked = points.lately(rank, POINTS_MAX);
            (Reverse((ranked, sum(points))), name.clone())
        });
        self.named.truncate(NAMES_MAX);
    }
}

/// How many steps are kept: ten minutes.
pub(super) const POINTS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> SafeText {
        SafeText::of(&format!("n{number:03}"))
    }

    #[test]
    fn no_more_is_kept_than_the_bounds_say_and_that_of_whom_most_is_counted() {
        let mut all = NamedPoints::<2>::of(1, std::iter::empty());
        for _ in 0..2 * POINTS_MAX {
            all.step((1..=3 * NAMES_MAX).map(|number| (name(number), [1, number as u64])));
        }
        let kept: Vec<_> = all.iter().map(|(name, _)| name.clone()).collect();
        let expected: Vec<_> = (2 * NAMES_MAX + 1..=3 * NAMES_MAX)
            .rev()
            .map(name)
            .collect();
        assert_eq!(kept, expected);
        assert!(all.iter().all(|(_, points)| points.count() == POINTS_MAX));
        let long = Points::<2>::of(&[&vec![1; 1000], &vec![2; 1000]]);
        assert_eq!((long.count(), long.lately(1, 1000)), (POINTS_MAX, 600));
    }

    #[test]
    fn who_counts_nothing_for_ten_minutes_is_forgotten() {
        let mut all = NamedPoints::<2>::of(1, std::iter::empty());
        all.step([(name(1), [1, 0]), (name(2), [0, 0])].into_iter());
        for _ in 1..POINTS_MAX {
            all.step(std::iter::empty());
        }
        assert_eq!(all.iter().count(), 1);
        all.step(std::iter::empty());
        assert_eq!(all.iter().count(), 0);
    }
}
