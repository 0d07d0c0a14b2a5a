//! Bounds an upstream's retries to a share of its requests, so that retries cannot multiply the load of
//! an upstream that fails.

use std::array;

use crate::clock::{Micros, Timestamp};

/// Counters of requests and retries in each of the latest seconds.
#[derive(Debug)]
pub(super) struct RetryBudget([Second; SECONDS]);

/// What happened within one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    /// The second, counted from 1970.
    at: u64,
    requests: u64,
    retries: u64,
}

/// How many seconds count towards the budget.
const SECONDS: usize = 10;

/// Retries a second that are always allowed.
const RETRIES_MIN: u64 = 3;

impl Default for RetryBudget {
    fn default() -> Self {
        Self(array::from_fn(|_| Second::default()))
    }
}

impl RetryBudget {
    /// Counts requests that have begun.
    pub(super) fn add_requests(&mut self, requests: u64, now: Timestamp) {
        self.second(now).requests += requests;
    }

    /// Takes a retry, if there were fewer than `share` of the requests, or fewer than [`RETRIES_MIN`] a second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(super) fn take(&mut self, share: f64, now: Timestamp) -> bool {
        let current = self.second(now).at;
        let recent = || (self.0.iter()).filter(|iter| iter.at + SECONDS as u64 > current);
        let requests: u64 = recent().map(|second| second.requests).sum();
        let retries: u64 = recent().map(|second| second.retries).sum();
        let is_allowed =
            retries < RETRIES_MIN * SECONDS as u64 || (retries as f64) < requests as f64 * share;
        self.second(now).retries += u64::from(is_allowed);
        is_allowed
    }

    fn second(&mut self, now: Timestamp) -> &mut Second {
        let at = now.0 / Micros::from_secs(1).0;
        let index = usize::try_from(at % SECONDS as u64).expect("there are ten");
        let second = &mut self.0[index];
        if second.at != at {
            *second = Second {
                at,
                ..Second::default()
            };
        }
        second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_share_of_the_requests_of_ten_seconds() {
        let at = |secs| Timestamp(0) + Micros::from_secs(secs);
        let mut budget = RetryBudget::default();
        let taken = |budget: &mut RetryBudget, secs| {
            (0..1_000).filter(|_| budget.take(0.2, at(secs))).count()
        };
        assert_eq!(taken(&mut budget, 100), 30, "three a second, at least");
        budget.add_requests(500, at(101));
        assert_eq!(taken(&mut budget, 101), 70);
        budget.add_requests(500, at(105));
        assert_eq!(taken(&mut budget, 109), 100);
        // The 30 retries of second 100 are forgotten; it had no requests.
        assert_eq!(taken(&mut budget, 110), 30);
        // Second 101 is forgotten too, with 500 requests and 70 retries.
        assert_eq!(taken(&mut budget, 111), 0);
        assert_eq!(taken(&mut budget, 200), 30);
    }
}
