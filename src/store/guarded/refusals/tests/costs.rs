//! What one refusal says of other costs.

use super::*;
use crate::limit::gcra::Gcra;
use crate::limit::sliding_log::SlidingLog;
use crate::limit::sliding_window::SlidingWindow;
use crate::limit::{AnyState, OldestBucket, Retry};

const TEN: Quota = quota(10, 10);
const fn of(algorithm: Algorithm) -> Quota {
    Quota { algorithm, ..TEN }
}
const SLIDING: Quota = of(Algorithm::SlidingWindow {
    buckets: 10,
    oldest: OldestBucket::Dropped,
});
const GCRA: Quota = of(Algorithm::Gcra { burst: 10 });
const LOG: Quota = of(Algorithm::SlidingLog);

fn seconds(seconds: u64) -> Retry {
    Retry::After(Micros::from_secs(seconds))
}

fn state(state: AnyState, now: Timestamp) -> RefusedState {
    RefusedState {
        state,
        now,
        at: now,
    }
}

/// Returns the retries that costs are told after this time; none for those for which Redis is to be asked.
fn retries(
    refusals: &Refusals,
    quota: &Quota,
    costs: impl Iterator<Item = u64>,
    after: Micros,
) -> Vec<Option<Retry>> {
    let retry = |cost| find(refusals, &[check(quota, cost)], after).map(|found| found.retry);
    costs.map(retry).collect()
}

#[test]
fn every_cost_has_its_own_wait_where_the_state_is_known() {
    let second = |seconds: u64| START.0 / 1_000_000 + seconds;
    let cases = [
        (
            &TEN,
            AnyState::FixedWindow(FixedWindow::new(START, 7)),
            [None, Some(seconds(4)), Some(seconds(4)), Some(Retry::Never)],
        ),
        (
            &SLIDING,
            AnyState::SlidingWindow(SlidingWindow::new(&[(second(1), 4), (second(3), 3)])),
            [None, Some(seconds(5)), Some(seconds(7)), Some(Retry::Never)],
        ),
        (
            &GCRA,
            AnyState::Gcra(Gcra::new(
                START + Micros::from_secs(13),
                START,
                0,
                GCRA.burst_us(),
            )),
            [None, Some(seconds(1)), Some(seconds(7)), Some(Retry::Never)],
        ),
    ];
    for (quota, known, expected) in cases {
        let refusals = Refusals::new();
        let now = START + Micros::from_secs(6);
        refusals.remember(&[check(quota, 9)], [Some(state(known, now))], AT_ONCE, CAP);
        let costs = [3, 4, 10, 11].into_iter();
        let found = retries(&refusals, quota, costs, Micros(0));
        assert_eq!(found, expected, "{:?}", quota.algorithm);
    }
}

#[test]
fn a_log_tells_of_what_is_left_and_of_costs_that_were_asked() {
    let refusals = Refusals::new();
    // One unit was spent each second, and leaves 10 s later.
    let log = |from: u64, to: u64| {
        let entry = |second| (START + Micros::from_secs(second), 1);
        AnyState::SlidingLog(SlidingLog::new((from..to).map(entry)))
    };
    let ask = |cost, (from, to), second| {
        let now = START + Micros::from_secs(second);
        let asked = Interval {
            sent: now,
            received: now,
        };
        let refused = state(log(from, to), now);
        refusals.remember(
            &[check(&LOG, cost)],
            [Some(refused)],
            asked,
            Micros::from_secs(60),
        );
    };
    let at = |second| Micros::from_secs(second);
    ask(8, (0, 8), 8);
    // Two units are left. A third is free when the next one leaves, and an eighth when the sixth leaves.
    let (next, asked) = (Some(seconds(2)), Some(seconds(7)));
    assert_eq!(
        retries(&refusals, &LOG, [2, 3, 7, 8, 10, 11].into_iter(), at(8)),
        [None, next, next, asked, asked, Some(Retry::Never)]
    );
    // Three seconds later a cost in between has to be asked about, and the larger one is still known.
    assert_eq!(
        retries(&refusals, &LOG, [7, 8].into_iter(), at(11)),
        [None, Some(seconds(4))]
    );
    ask(5, (2, 8), 11);
    // Four units are left, and what was known of larger costs stays.
    assert_eq!(
        retries(&refusals, &LOG, [4, 5, 7, 8].into_iter(), at(11)),
        [None, Some(seconds(1)), Some(seconds(1)), Some(seconds(4))]
    );
}

#[test]
fn never_is_asked_again_after_each_cap() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 9)];
    remember(&refusals, &plan, &[Retry::Never], CAP);
    let found = find(&refusals, &plan, Micros(CAP.0 - 1)).expect("it is remembered");
    assert_eq!(found.retry, Retry::Never);
    assert!(is_due(&refusals, &plan, CAP));
}
