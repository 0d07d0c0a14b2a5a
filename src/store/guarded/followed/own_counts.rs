//! What this gateway counted of a quota, window by window, or bucket by bucket.

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::limit::{Algorithm, AnyState, Charged, Quota};
use crate::store::redis::wire::SettlementStep;

/// What this gateway counted, the oldest first; at most [`parts_max`] windows or buckets.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnCounts(SmallVec<[CountedPart; 2]>);

/// What was counted in one window or bucket.
#[derive(Clone, Copy, Debug)]
struct CountedPart {
    /// The latest charge in the window or bucket, which tells which one it is.
    then: Charged,
    /// Units counted less units given back; below 0 if more of them came back than were counted since the last report.
    units: i64,
}

impl OwnCounts {
    /// Counts units in the window or bucket of the charge `then`; negative units are given back there.
    pub(super) fn add(&mut self, quota: &Quota, then: Charged, units: i64) {
        let number = window_number(quota, &then);
        let parts = &mut self.0;
        let earlier = |part: &&CountedPart| window_number(quota, &part.then) < number;
        let place = parts.iter().take_while(earlier).count();
        match parts.get_mut(place) {
            Some(part) if window_number(quota, &part.then) == number => {
                part.units = part.units.saturating_add(units);
                part.then.at = part.then.at.max(then.at);
            }
            _ => parts.insert(place, CountedPart { then, units }),
        }
        // By the time there are this many, the oldest has long aged out.
        if parts.len() > parts_max(quota) {
            parts.remove(0);
        }
    }

    /// Adds all counts of `others`.
    pub(super) fn add_all(&mut self, quota: &Quota, others: &Self) {
        for part in &others.0 {
            self.add(quota, part.then, part.units);
        }
    }

    /// Drops the windows and buckets in which nothing was charged after `at`.
    pub(super) fn forget(&mut self, at: Timestamp) {
        self.0.retain(|part| part.then.at > at);
    }

    /// Returns the counts that undo these.
    pub(super) fn reversed(mut self) -> Self {
        self.0.iter_mut().for_each(|part| part.units = -part.units);
        self
    }

    /// Drops the windows and buckets from which units are to be given back.
    pub(super) fn without_returns(mut self) -> Self {
        self.0.retain(|part| part.units > 0);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|part| part.units == 0)
    }

    /// Applies these counts to a state, which was brought to `at`.
    pub(super) fn apply(&self, quota: &Quota, state: &mut AnyState, at: Timestamp) {
        for part in &self.0 {
            let amount = part.units.unsigned_abs();
            if part.units > 0 {
                state.spend_then(quota, amount, part.then, at);
            } else {
                state.release(quota, part.then, amount, at);
            }
        }
    }

    /// Returns the steps that report these counts; at least one, because Redis answers the last one with the state.
    pub(super) fn steps(&self) -> SmallVec<[SettlementStep; 2]> {
        let counted = self.0.iter().filter(|part| part.units != 0);
        let mut steps: SmallVec<[SettlementStep; 2]> = counted
            .map(|part| {
                let (then, amount) = (part.then, part.units.unsigned_abs());
                let charged = Charged { amount, ..then };
                if part.units > 0 {
                    SettlementStep::SpendThen { then, amount }
                } else {
                    SettlementStep::Release { charged, amount }
                }
            })
            .collect();
        if steps.is_empty() {
            steps.push(SettlementStep::Spend(0));
        }
        steps
    }
}

/// Returns the number of the window or bucket in which a charge counts.
fn window_number(quota: &Quota, then: &Charged) -> u64 {
    match quota.algorithm {
        Algorithm::Calendar(_) => then.mark,
        Algorithm::SlidingWindow { buckets, .. } => {
            then.at.0 / (quota.window.0 / u64::from(buckets))
        }
        _ => then.at.0 / quota.window.0,
    }
}

/// Returns for how many windows or buckets counts are kept at most: all buckets of a sliding window, plus one that is
/// leaving and one that has begun meanwhile.
fn parts_max(quota: &Quota) -> usize {
    match quota.algorithm {
        Algorithm::SlidingWindow { buckets, .. } => buckets as usize + 2,
        _ => 2,
    }
}
