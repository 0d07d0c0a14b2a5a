//! gcra: a token bucket that stores one time, the theoretical arrival time (`tat`).
//!
//! With the interval `T = ceil(window / limit)` and `base = max(tat, t)`, a cost fits iff
//! `base + cost*T - t <= burst*T`, and then moves `tat` to `base + cost*T`. leaky-bucket is the
//! same with `burst = queue + 1`, and holds an admitted request until `base`, so that departures
//! are `T` apart.
//!
//! A charge gives back its cost, less what has leaked out since and would not have without the charge. The bucket leaks
//! for as long as it is not full, so this is known from the debt that the charge found, less what other releases have
//! taken off that debt since. Both belong to one busy period, which begins when units are spent from a full bucket.
//!
//! A clock that steps back needs no special care: `tat` is at most `t + 2*reach` at every read and every
//! write, where `reach` is the largest `burst*T` of any quota that has written to the state.
//!
//! [`CompactGcra`] takes less memory. It is for policies whose charges never come back, and only for the
//! memory of this process, where the clock never steps back.

use serde::{Deserialize, Serialize};

use super::charged::Charged;
use super::quota::{COUNT_MAX, Decision, Quota, Retry};
use super::state::State;
use crate::clock::{Micros, Timestamp};

/// When the bucket is full again, and what a release needs to know of the time until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gcra {
    tat: Timestamp,
    /// When units were last spent while the bucket was full.
    begun: Timestamp,
    /// How far releases have moved `tat` back since then, in µs modulo [`COUNT_MAX`]: only differences
    /// count.
    given_us: u64,
    /// The largest `burst*T` of the quotas that have written to the state, in µs.
    reach_us: u64,
}

/// When the bucket is full again, in one word, so that a table's entry is its key and eight bytes.
///
/// It does not know how long the bucket has been busy. So a release takes all the time since the charge off what comes
/// back, which is too much if the bucket was busy before: it never gives back more than [`Gcra`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactGcra {
    tat: Timestamp,
}

impl Gcra {
    /// Makes a state of its parts: when the bucket is full again, when units were last spent while it was full, how far
    /// releases have moved the former back since then, and the largest `burst*T` of its writers.
    pub fn new(tat: Timestamp, begun: Timestamp, given_us: u64, reach_us: u64) -> Self {
        Self {
            tat,
            begun,
            given_us,
            reach_us,
        }
    }

    /// Widens a compact state. Charges made before `begun` give nothing back.
    pub fn of_compact(compact: CompactGcra, begun: Timestamp) -> Self {
        Self::new(compact.tat, begun, 0, 0)
    }

    /// Describes the charge of `cost` that was the last change of this state.
    pub fn latest_charge(&self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        let taken = Micros(cost.saturating_mul(quota.interval_us()));
        Charged {
            debt: Micros(self.tat.since(at).0.saturating_sub(taken.0)),
            mark: self.given_us,
            ..Charged::plain(at, cost)
        }
    }

    /// Returns how far `tat` may be ahead if this quota reads or writes it.
    fn ahead_max(&self, quota: &Quota) -> Micros {
        Micros(2 * self.reach_us.max(quota.burst_us()))
    }

    /// Notes that this quota writes to the state.
    fn note_writer(&mut self, quota: &Quota) {
        self.reach_us = self.reach_us.max(quota.burst_us());
    }
}

impl State for Gcra {
    fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        let furthest = now + self.ahead_max(quota);
        if self.tat > furthest {
            self.tat = furthest;
            self.note_writer(quota);
        }
        now
    }

    fn admits(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        admits(self.tat, quota, cost, at)
    }

    fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        let debt = self.tat.since(at);
        if cost > 0 {
            self.note_writer(quota);
            if debt == Micros(0) {
                (self.begun, self.given_us) = (at, 0);
            }
            let spent = spend(self.tat, quota, cost, at);
            self.tat = spent.min(at + self.ahead_max(quota));
        }
        Charged {
            debt,
            mark: self.given_us,
            ..Charged::plain(at, cost)
        }
    }

    fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        decision(self.tat, quota, cost, at, admit)
    }

    fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, at: Timestamp) {
        if charged.at < self.begun {
            return;
        }
        let given_since_us = self.given_us.wrapping_sub(charged.mark) % COUNT_MAX;
        // How long after the charge the bucket would have been busy without it.
        let busy_us = charged.debt.0.saturating_sub(given_since_us);
        let served_us = at.since(charged.at).0.saturating_sub(busy_us);
        let tat = release(self.tat, quota, amount, served_us, at);
        if tat < self.tat {
            self.given_us = (self.given_us + self.tat.since(tat).0) % COUNT_MAX;
            self.tat = tat;
            self.note_writer(quota);
        }
    }

    fn newest(&self, quota: &Quota, at: Timestamp) -> Charged {
        Charged {
            mark: self.given_us,
            ..newest(self.tat, quota, at)
        }
    }

    fn is_whole(&self, _quota: &Quota, at: Timestamp) -> bool {
        self.tat <= at
    }
}

impl State for CompactGcra {
    fn arrive(&mut self, _quota: &Quota, now: Timestamp) -> Timestamp {
        now
    }

    fn admits(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        admits(self.tat, quota, cost, at)
    }

    fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        let debt = self.tat.since(at);
        if cost > 0 {
            self.tat = spend(self.tat, quota, cost, at);
        }
        Charged {
            debt,
            ..Charged::plain(at, cost)
        }
    }

    fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        decision(self.tat, quota, cost, at, admit)
    }

    fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, at: Timestamp) {
        self.tat = release(self.tat, quota, amount, at.since(charged.at).0, at);
    }

    fn newest(&self, quota: &Quota, at: Timestamp) -> Charged {
        newest(self.tat, quota, at)
    }

    fn is_whole(&self, _quota: &Quota, at: Timestamp) -> bool {
        self.tat <= at
    }
}

fn admits(tat: Timestamp, quota: &Quota, cost: u64, at: Timestamp) -> bool {
    let burst = quota.capacity();
    // A cost above the burst never fits, and its time may overflow 64 bits.
    cost <= burst && tat.since(at).0 + cost * quota.interval_us() <= quota.burst_us()
}

/// Returns when the bucket is full again once `cost` is spent. A cost of 0 must not come here: if it moved
/// an idle `tat` to `at`, it would cost units when the clock steps back.
fn spend(tat: Timestamp, quota: &Quota, cost: u64, at: Timestamp) -> Timestamp {
    tat.max(at) + Micros(cost.saturating_mul(quota.interval_us()))
}

/// Returns when the bucket is full again once `amount` has come back, less the `served_us` that have leaked out and
/// would not have without the charge.
fn release(tat: Timestamp, quota: &Quota, amount: u64, served_us: u64, at: Timestamp) -> Timestamp {
    if tat <= at {
        return tat;
    }
    let back_us = amount.saturating_mul(quota.interval_us());
    (tat - Micros(back_us.saturating_sub(served_us))).max(at)
}

/// Describes all that a bucket lacks at `at` as one charge of that moment, of which nothing has leaked out.
fn newest(tat: Timestamp, quota: &Quota, at: Timestamp) -> Charged {
    Charged::plain(at, tat.since(at).0.div_ceil(quota.interval_us()))
}

/// Describes a bucket that is full again at `tat`.
pub(super) fn decision(
    tat: Timestamp,
    quota: &Quota,
    cost: u64,
    at: Timestamp,
    admit: bool,
) -> Decision {
    let (burst, interval_us, burst_us) = (quota.capacity(), quota.interval_us(), quota.burst_us());
    let debt_us = tat.since(at).0;
    // The interval divides `burst_us`, so a unit that is partly missing counts as missing.
    let missing = debt_us.div_ceil(interval_us);
    let next_us = if missing > burst {
        debt_us - burst_us + interval_us
    } else {
        debt_us - missing.saturating_sub(1) * interval_us
    };
    Decision {
        admit,
        remaining: burst.saturating_sub(missing),
        debt: 0,
        next: (debt_us > 0).then_some(Micros(next_us)),
        reset: Micros(debt_us),
        retry: match admit {
            true => Retry::NOW,
            false if cost > burst => Retry::Never,
            false => Retry::After(Micros(
                (debt_us + cost * interval_us).saturating_sub(burst_us),
            )),
        },
        wait: Micros(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limit::quota::{Algorithm, COST_MAX};

    const FIVE_A_SECOND: Quota = Quota::of(Algorithm::Gcra { burst: 5 }, 5, Micros(1_000_000));

    #[test]
    fn table_entry_is_eight_bytes() {
        assert_eq!(size_of::<CompactGcra>(), 8);
    }

    #[test]
    fn peek_before_a_clock_step_costs_nothing() {
        let mut gcra = Gcra::default();
        let at = gcra.arrive(&FIVE_A_SECOND, Timestamp(9_000_000));
        gcra.charge(&FIVE_A_SECOND, 0, at);
        gcra.release(&FIVE_A_SECOND, Charged::plain(at, 1), 1, at);
        let at = gcra.arrive(&FIVE_A_SECOND, Timestamp(5_000_000));
        assert!(gcra.is_whole(&FIVE_A_SECOND, at));
    }

    const FIVE_DAILY: Quota = Quota {
        limit: 1,
        window: Micros::from_secs(86_400),
        ..FIVE_A_SECOND
    };

    #[test]
    fn cost_whose_time_overflows_is_refused_for_good() {
        let gcra = Gcra::default();
        assert!(!gcra.admits(&FIVE_DAILY, COST_MAX, Timestamp(0)));
        let decision = gcra.decision(&FIVE_DAILY, COST_MAX, Timestamp(0), false);
        assert_eq!(decision.retry, Retry::Never);
    }

    #[test]
    fn spend_beyond_the_cap_is_forgotten() {
        let mut gcra = Gcra::default();
        let at = gcra.arrive(&FIVE_DAILY, Timestamp(0));
        gcra.spend(&FIVE_DAILY, COST_MAX, at);
        let reset = gcra.decision(&FIVE_DAILY, 0, at, false).reset;
        assert_eq!(reset, Micros::from_secs(2 * 5 * 86_400));
    }

    #[test]
    fn units_taken_of_a_charge_are_what_charges_of_their_own_would_have_been() {
        let quota = Quota {
            limit: 100,
            algorithm: Algorithm::Gcra { burst: 100 },
            ..FIVE_A_SECOND
        };
        for spent_before in [0, 40] {
            let (mut at_once, now) = (Gcra::default(), Timestamp(1_700_000_000_000_000));
            at_once.charge(&quota, spent_before, now);
            let mut one_by_one = at_once;
            let mut charged = at_once.charge(&quota, 10, now);
            for amount in [1, 0, 7, 2] {
                let own = one_by_one.charge(&quota, amount, now);
                assert_eq!(
                    quota.take(&mut charged, amount),
                    own,
                    "{spent_before} {amount}"
                );
            }
            assert_eq!((charged.amount, at_once), (0, one_by_one));
        }
    }

    proptest! {
        /// The compact state decides the same as the whole one as long as time moves on, and gives back no more.
        #[test]
        fn compact_state_decides_alike_and_gives_back_no_more(
            steps in prop::collection::vec((0_u64..2_000_000, 0_u64..4, any::<bool>()), 1..40),
        ) {
            let (mut whole, mut compact) = (Gcra::default(), CompactGcra::default());
            let (quota, mut now) = (FIVE_A_SECOND, Timestamp(1_700_000_000_000_000));
            for (wait_us, cost, comes_back) in steps {
                now = now + Micros(wait_us);
                let admit = whole.admits(&quota, cost, now);
                let expected = whole.decision(&quota, cost, now, admit);
                prop_assert_eq!(compact.decision(&quota, cost, now, admit), expected);
                if !admit {
                    continue;
                }
                let charged = whole.charge(&quota, cost, now);
                prop_assert_eq!(compact.charge(&quota, cost, now).debt, charged.debt);
                if comes_back {
                    let later = now + Micros(wait_us / 2);
                    let (mut released, mut no_more) = (whole, compact);
                    released.release(&quota, charged, cost, later);
                    no_more.release(&quota, charged, cost, later);
                    prop_assert!(no_more.tat >= released.tat);
                }
            }
        }
    }
}
