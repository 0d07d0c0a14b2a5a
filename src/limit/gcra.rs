//! gcra: a token bucket that stores one time, the theoretical arrival time (`tat`).
//!
//! With the interval `T = ceil(window / limit)` and `base = max(tat, t)`, a cost fits iff
//! `base + cost*T - t <= burst*T`, and then moves `tat` to `base + cost*T`. leaky-bucket is the
//! same with `burst = queue + 1`, and holds an admitted request until `base`, so that departures
//! are `T` apart.
//!
//! A clock that steps back needs no special care: `tat` is at most `t + 2*burst*T` at every read and
//! every write. If quotas of several sizes share the state, that is the largest one's `2*burst*T`.

use super::quota::{Algorithm, Decision, Quota, Retry};
use super::state::{Charged, State};
use crate::clock::{Micros, Timestamp};

/// When the bucket is full again. It is one word, so a table's entry is its key and eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gcra {
    tat: Timestamp,
}

impl Gcra {
    /// Makes the state of a bucket that is full again at `tat`.
    pub fn new(tat: Timestamp) -> Self {
        Self { tat }
    }

    /// Returns when the bucket is full again.
    pub fn tat(self) -> Timestamp {
        self.tat
    }

    /// Returns how far `tat` is ahead of `at`: the time until the bucket is full.
    fn debt_us(self, at: Timestamp) -> u64 {
        self.tat.since(at).0
    }
}

impl State for Gcra {
    fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        self.tat = self.tat.min(now + Micros(quota.reach()));
        now
    }

    fn admits(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        let burst = quota.capacity();
        let interval_us = quota.interval_us();
        // A cost above the burst never fits, and its time may not fit a word.
        cost <= burst && self.debt_us(at) + cost * interval_us <= burst * interval_us
    }

    fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Micros {
        // If a cost of 0 moved an idle `tat` to `at`, it would cost units when the clock steps back.
        if cost == 0 {
            return Micros(0);
        }
        let base = self.tat.max(at);
        let taken = Micros(cost.saturating_mul(quota.interval_us()));
        self.tat = (base + taken).min(at + Micros(quota.reach()));
        match quota.algorithm {
            Algorithm::LeakyBucket { .. } => base.since(at),
            _ => Micros(0),
        }
    }

    fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        let burst = quota.capacity();
        let interval_us = quota.interval_us();
        let burst_us = burst * interval_us;
        let debt_us = self.debt_us(at);
        let next_us = if debt_us > burst_us {
            debt_us - burst_us + interval_us
        } else {
            debt_us - (debt_us.div_ceil(interval_us).saturating_sub(1)) * interval_us
        };
        Decision {
            admit,
            remaining: burst_us.saturating_sub(debt_us) / interval_us,
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

    fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, at: Timestamp) {
        // What has leaked out since the charge is back already.
        let leaked_us = at.since(charged.at).0;
        let back_us = (amount.saturating_mul(quota.interval_us())).saturating_sub(leaked_us);
        if self.tat > at {
            self.tat = (self.tat - Micros(back_us)).max(at);
        }
    }

    fn is_whole(&self, _quota: &Quota, at: Timestamp) -> bool {
        self.tat <= at
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::quota::{Align, COST_MAX, Count};

    const FIVE_A_SECOND: Quota = Quota {
        limit: 5,
        window: Micros(1_000_000),
        algorithm: Algorithm::Gcra { burst: 5 },
        count: Count::Admitted,
        align: Align::Epoch,
        series_reach: 0,
    };

    #[test]
    fn table_entry_is_eight_bytes() {
        assert_eq!(size_of::<Gcra>(), 8);
    }

    #[test]
    fn peek_before_a_clock_step_costs_nothing() {
        let mut gcra = Gcra::default();
        let at = gcra.arrive(&FIVE_A_SECOND, Timestamp(9_000_000));
        gcra.charge(&FIVE_A_SECOND, 0, at);
        gcra.release(&FIVE_A_SECOND, Charged { at, amount: 1 }, 1, at);
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
}
