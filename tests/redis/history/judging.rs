//! The judge itself: it never accuses a correct limiter, and it finds the broken ones.

use proptest::prelude::*;
use tollgate::limit::{Algorithm, Count, OldestBucket, Quota};

use super::law::{Answer, History, Loss, Outage, Request, Violation, violations};
use super::limiter::{Flaw, Load, WINDOW, history, quota};
use crate::support::fleet::algorithms;

/// How many histories a broken limiter gets until one of them must show that it is broken.
const HISTORIES: u64 = 20;

/// Whether some history shows that the limiter is broken.
fn is_found_out(quota: &Quota, flaw: Flaw) -> bool {
    let mut seeds = 0..HISTORIES;
    seeds.any(|seed| {
        let load = Load {
            bursts: 8,
            burst: quota.limit * 2,
            spread: WINDOW * 3 / 2,
            delay: 10_000,
            // The refusal of a larger cost proves nothing about a smaller one.
            max_cost: 1 + seed % 2,
        };
        !violations(&history(quota, flaw, &load, seed), quota).is_empty()
    })
}

/// Returns a request of one unit that was admitted.
fn admitted(sent: i64) -> Request {
    Request {
        key: 0,
        cost: 1,
        sent,
        received: sent + 10,
        answer: Answer::Admitted,
    }
}

fn counts(algorithm: Algorithm) -> Vec<Count> {
    match algorithm {
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => vec![Count::Admitted],
        _ => vec![Count::Admitted, Count::All],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A correct limiter is never accused, however long its answers are under way.
    #[test]
    fn correct_limiter_is_never_accused(
        seed: u64,
        limit in 1_u64..30,
        burst in 1_u64..80,
        spread in 1_i64..2 * WINDOW,
        delay in 1_i64..WINDOW * 2 / 3,
        max_cost in 1_u64..4,
    ) {
        let load = Load { bursts: 6, burst, spread, delay, max_cost };
        for algorithm in algorithms(limit) {
            for count in counts(algorithm) {
                let quota = quota(algorithm, limit, count);
                let history = history(&quota, Flaw::None, &load, seed);
                prop_assert_eq!(violations(&history, &quota), vec![], "{:?}", quota);
            }
        }
    }

    /// The same for a limiter whose clock differs from the clients' by what the history tolerates.
    #[test]
    fn correct_limiter_with_another_clock_is_never_accused(
        seed: u64,
        limit in 1_u64..30,
        offset in -5_000_i64..=5_000,
    ) {
        let load = Load {
            bursts: 6,
            burst: 2 * limit,
            spread: WINDOW,
            delay: 2_000,
            max_cost: 1,
        };
        for algorithm in algorithms(limit) {
            let quota = quota(algorithm, limit, Count::Admitted);
            let mut history = history(&quota, Flaw::None, &load, seed);
            for request in &mut history.requests {
                request.sent += offset;
                request.received += offset;
            }
            history.tolerance = offset.abs();
            prop_assert_eq!(violations(&history, &quota), vec![], "{:?}", quota);
        }
    }
}

#[test]
fn broken_limiters_are_found_out() {
    let flaws = [
        Flaw::ChecksThenCharges,
        Flaw::Forgets,
        Flaw::ExpiresEarly,
        Flaw::ExpiresLate,
        Flaw::ChargesTwice,
        Flaw::ChargesRefused,
        Flaw::OneTooMany,
        Flaw::OneTooFew,
    ];
    let limit = 20;
    let mut unseen = Vec::new();
    for algorithm in algorithms(limit) {
        for flaw in flaws {
            if !is_found_out(&quota(algorithm, limit, Count::Admitted), flaw) {
                unseen.push((algorithm, flaw));
            }
        }
    }
    assert_eq!(unseen, []);
}

#[test]
fn one_request_too_many_is_shown_with_its_stretch() {
    let quota = quota(Algorithm::SlidingLog, 2, Count::Admitted);
    let request = |sent| Request {
        key: 7,
        ..admitted(sent)
    };
    let mut history = History {
        requests: vec![request(0), request(100), request(WINDOW - 11)],
        ..History::default()
    };
    let excess = Violation::Excess {
        key: 7,
        since: 0,
        until: WINDOW - 1,
        admitted: 3,
        allowed: 2,
    };
    assert_eq!(violations(&history, &quota), [excess]);

    history.requests[2] = request(WINDOW - 10);
    assert_eq!(violations(&history, &quota), [], "the first may have aged");
}

#[test]
fn what_was_lost_excuses_as_much_and_only_around_its_time() {
    let quota = quota(Algorithm::SlidingLog, 2, Count::Admitted);
    let judged = |times: &[i64], units| {
        let history = History {
            requests: times.iter().map(|time| admitted(*time)).collect(),
            losses: vec![Loss {
                since: 1_000,
                until: 2_000,
                units,
            }],
            ..History::default()
        };
        violations(&history, &quota).len()
    };
    assert_eq!(judged(&[0, 100, 3_000], 1), 0);
    assert_eq!(judged(&[0, 100, 3_000, 3_100], 1), 1);
    let later = 10 * WINDOW;
    assert_eq!(judged(&[later, later + 100, later + 200], 1), 1);
}

/// Because both servers decide while one takes over from the other.
#[test]
fn each_of_two_servers_rounds_down_its_part_of_a_leaving_bucket() {
    let weighted = Algorithm::SlidingWindow {
        buckets: 1,
        oldest: OldestBucket::Weighted,
    };
    let quota = quota(weighted, 6, Count::Admitted);
    let judged = |later: i64| {
        let first = (0..12).map(|n| admitted(n * 100));
        // 93 % of 6 is 5 (rounded down), and of 12 it is 11.
        let then = (0..later).map(|n| admitted(WINDOW * 107 / 100 + n * 100));
        let history = History {
            requests: first.chain(then).collect(),
            losses: vec![Loss {
                since: 0,
                until: 2 * WINDOW,
                units: 6,
            }],
            ..History::default()
        };
        violations(&history, &quota).len()
    };
    assert_eq!(judged(2), 0);
    assert_eq!(judged(3), 1);
}

#[test]
fn outages_excuse_as_much_again_within_them_however_many_there_are() {
    let quota = quota(Algorithm::SlidingLog, 2, Count::Admitted);
    let judged = |count: i64, sent: i64| {
        let requests = (0..count).map(|n| Request {
            received: sent + n * 10 + 5,
            ..admitted(sent + n * 10)
        });
        let outage = |since| Outage {
            since,
            until: since + 10,
        };
        let history = History {
            requests: requests.collect(),
            outages: [0, 20, 40].map(outage).into(),
            ..History::default()
        };
        violations(&history, &quota).len()
    };
    assert_eq!(judged(4, 0), 0);
    assert_eq!(judged(5, 0), 1);
    let later = 10 * WINDOW;
    assert_eq!(judged(2, later), 0);
    assert_eq!(judged(3, later), 1);
}
