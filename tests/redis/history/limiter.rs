//! Limiters written to the letter of their definition, correct or broken, and histories of their decisions.

use tollgate::clock::Micros;
use tollgate::limit::{Algorithm, Count, OldestBucket, Quota};

use super::law::{Answer, History, Request};
use crate::support::Draws;

/// Window of all quotas here: a second, in microseconds.
pub const WINDOW: i64 = 1_000_000;
/// Start of histories: a midnight, in microseconds since 1970.
const START: i64 = 1_700_006_400_000_000;

/// The way in which a limiter is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// It checks first and charges later, so others can slip in between.
    ChecksThenCharges,
    /// It forgets all charges now and then.
    Forgets,
    /// Its state lives for half a window.
    ExpiresEarly,
    /// Its state lives for a window and a half.
    ExpiresLate,
    /// It charges some requests twice.
    ChargesTwice,
    /// It charges requests that it refuses.
    ChargesRefused,
    /// It admits while less than the quota is spent, so one unit too many.
    OneTooMany,
    /// It refuses the last unit.
    OneTooFew,
}

/// A limiter that remembers everything it ever charged, and when.
struct Limiter {
    quota: Quota,
    flaw: Flaw,
    charged: Vec<(i64, u64)>,
}

/// The requests that clients send.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of bursts, with up to two windows between them.
    pub bursts: u64,
    /// Number of requests in each burst.
    pub burst: u64,
    /// Longest time over which a burst is spread, in microseconds.
    pub spread: i64,
    /// Longest time that a request, or its answer, is under way, in microseconds.
    pub delay: i64,
    pub max_cost: u64,
}

pub fn quota(algorithm: Algorithm, limit: u64, count: Count) -> Quota {
    Quota {
        count,
        ..Quota::of(algorithm, limit, Micros(WINDOW.unsigned_abs()))
    }
}

/// Returns what clients see of a limiter under the given load.
pub fn history(quota: &Quota, flaw: Flaw, load: &Load, seed: u64) -> History {
    let mut draws = Draws(seed);
    let mut limiter = Limiter {
        quota: *quota,
        flaw,
        charged: Vec::new(),
    };
    let mut decisions = Vec::new();
    let mut burst_begins = START;
    for _ in 0..load.bursts {
        burst_begins += draws.below(2 * WINDOW);
        let spread = 1 + draws.below(load.spread);
        for _ in 0..load.burst {
            let sent = burst_begins + draws.below(spread);
            let decided = sent + draws.below(load.delay);
            let received = decided + draws.below(load.delay);
            let cost = 1 + draws.below(load.max_cost);
            decisions.push((decided, sent, received, cost));
        }
        burst_begins += load.spread;
    }
    decisions.sort_unstable();
    let requests = decisions
        .into_iter()
        .map(|(decided, sent, received, cost)| {
            let answer = limiter.decide(sent, decided, cost, &mut draws);
            // Some answers never come.
            let is_lost = draws.below(50) == 0;
            let answer = if is_lost { Answer::Unknown } else { answer };
            Request {
                key: 0,
                cost,
                sent,
                received,
                answer,
            }
        });
    History {
        requests: requests.collect(),
        ..History::default()
    }
}

impl Limiter {
    fn decide(&mut self, sent: i64, now: i64, cost: u64, draws: &mut Draws) -> Answer {
        if self.flaw == Flaw::Forgets && draws.below(30) == 0 {
            self.charged.clear();
        }
        let looked_at = match self.flaw {
            Flaw::ChecksThenCharges => sent,
            _ => now,
        };
        let seen = self.charged.iter().filter(|(at, _)| *at <= looked_at);
        let seen: Vec<_> = seen.copied().collect();
        let most = match self.flaw {
            Flaw::OneTooMany => self.quota.capacity() + 1,
            Flaw::OneTooFew => self.quota.capacity() - 1,
            _ => self.quota.capacity(),
        };
        let is_admitted = self.fits(&seen, now, cost, most);
        let is_charged =
            is_admitted || self.quota.count == Count::All || self.flaw == Flaw::ChargesRefused;
        if is_charged {
            let twice = self.flaw == Flaw::ChargesTwice && draws.below(4) == 0;
            let charge = if twice { 2 * cost } else { cost };
            self.charged.push((now, charge));
        }
        if is_admitted {
            Answer::Admitted
        } else {
            Answer::Refused
        }
    }

    fn fits(&self, charged: &[(i64, u64)], now: i64, cost: u64, most: u64) -> bool {
        let age_max = match self.flaw {
            Flaw::ExpiresEarly => WINDOW / 2,
            Flaw::ExpiresLate => WINDOW * 3 / 2,
            _ => WINDOW,
        };
        let sum = |counts: &dyn Fn(i64) -> bool| -> u64 {
            let counting = charged.iter().filter(|(at, _)| counts(*at));
            counting.map(|(_, cost)| cost).sum()
        };
        let spent = match self.quota.algorithm {
            Algorithm::Calendar(_)
            | Algorithm::Credits { .. }
            | Algorithm::InFlight
            | Algorithm::Penalty { .. } => {
                unreachable!("no fleet has such quotas")
            }
            Algorithm::FixedWindow => sum(&|at| at.div_euclid(age_max) == now.div_euclid(age_max)),
            Algorithm::SlidingWindow { buckets, oldest } => {
                let (count, bucket) = (i64::from(buckets), age_max / i64::from(buckets));
                let current = now.div_euclid(bucket);
                let whole = sum(&|at| at.div_euclid(bucket) > current - count);
                let parting = sum(&|at| at.div_euclid(bucket) == current - count);
                let inside = (bucket - now.rem_euclid(bucket)).unsigned_abs();
                whole
                    + match oldest {
                        OldestBucket::Weighted => parting * inside / bucket.unsigned_abs(),
                        OldestBucket::Whole => parting,
                        OldestBucket::Dropped => 0,
                    }
            }
            Algorithm::SlidingLog => sum(&|at| now - at < age_max),
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
                return self.is_in_time(charged, now, cost, most);
            }
        };
        spent + cost <= most
    }

    /// Whether the theoretical arrival time, according to the charges so far, lets this request pass.
    fn is_in_time(&self, charged: &[(i64, u64)], now: i64, cost: u64, most: u64) -> bool {
        let interval = i64::try_from(self.quota.interval_us()).expect("small");
        // For this algorithm, an early or late expiry is a clock that runs too fast or too slow.
        let interval = match self.flaw {
            Flaw::ExpiresEarly => interval / 2,
            Flaw::ExpiresLate => interval * 3 / 2,
            _ => interval,
        };
        let span = |units: u64| i64::try_from(units).expect("small") * interval;
        let mut due = i64::MIN;
        for (at, cost) in charged {
            due = due.max(*at) + span(*cost);
        }
        due.max(now) + span(cost) - now <= span(most)
    }
}
