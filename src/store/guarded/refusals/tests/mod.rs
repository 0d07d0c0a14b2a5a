mod costs;
mod oracle;

use super::given_back::RETURNS;
use super::*;
use crate::limit::fixed_window::FixedWindow;
use crate::limit::plan::PlanPolicy;
use crate::limit::{Algorithm, AnyState, CheckResult, Retry};

const START: Timestamp = Timestamp(1_700_006_400_000_000);
const CAP: Micros = Micros::from_secs(1);
const PARTITION: PartitionId = PartitionId::new(7);

const fn quota(limit: u64, seconds: u64) -> Quota {
    Quota::of(Algorithm::FixedWindow, limit, Micros::from_secs(seconds))
}

const QUOTA: Quota = quota(5, 10);

fn check(quota: &Quota, cost: u64) -> Check<'_> {
    Check {
        cost,
        ..Check::of(quota, SeriesId(0), PARTITION)
    }
}

/// Returns what a check of a used-up window is told.
fn decision(retry: Retry) -> Decision {
    let Retry::After(left) = retry else {
        panic!("the window ends some time");
    };
    Decision {
        admit: retry == Retry::NOW,
        remaining: 0,
        debt: 0,
        next: Some(left),
        reset: left,
        retry,
        wait: Micros(0),
    }
}

/// Makes a refusal that says of each check when its cost fits, or nothing.
fn verdict(retries: &[Option<Retry>]) -> Verdict {
    let answer = |retry: &Option<Retry>| CheckResult {
        decision: retry.map(decision),
        charged: None,
    };
    Verdict {
        admit: false,
        retry: retries.iter().flatten().copied().max().expect("one"),
        wait: Micros(0),
        answers: retries.iter().map(answer).collect(),
    }
}

/// Makes the state of a fixed window that is used up, and ends after this time.
fn used_up(quota: &Quota, left: Micros) -> RefusedState {
    let now = START + quota.window - left;
    RefusedState {
        state: AnyState::FixedWindow(FixedWindow::new(START, quota.limit)),
        now,
        at: now,
    }
}

/// Returns the states of checks that were told these retries.
fn states(plan: &[Check<'_>], retries: &[Retry]) -> Vec<Option<RefusedState>> {
    let state = |(check, retry): (&Check<'_>, &Retry)| match *retry {
        Retry::NOW => None,
        Retry::After(left) => Some(used_up(check.quota, left)),
        Retry::Never => Some(used_up(check.quota, check.quota.window)),
    };
    plan.iter().zip(retries).map(state).collect()
}

/// Remembers what each check of a plan was told.
fn remember(refusals: &Refusals, plan: &[Check<'_>], retries: &[Retry], cap: Micros) {
    refusals.remember(plan, states(plan, retries), AT_ONCE, cap);
}

fn after(us: u64) -> Retry {
    Retry::After(Micros(us))
}

const AT_ONCE: Interval = Interval {
    sent: START,
    received: START,
};

/// Returns what a plan is answered from memory; none if the caller is to ask Redis.
fn find(refusals: &Refusals, plan: &[Check<'_>], after: Micros) -> Option<Verdict> {
    match refusals.recall(plan, true, || START + after) {
        Recalled::Refused(verdict) => Some(verdict),
        Recalled::Due | Recalled::Nothing => None,
    }
}

fn is_due(refusals: &Refusals, plan: &[Check<'_>], after: Micros) -> bool {
    matches!(refusals.recall(plan, true, || START + after), Recalled::Due)
}

const LATER: Retry = Retry::After(Micros(5_000_000));

/// Makes a check of another partition of the same series.
fn of_partition(number: u128) -> Check<'static> {
    Check {
        partition_id: PartitionId::new(number),
        ..check(&QUOTA, 1)
    }
}

/// Makes a check of another series of the same partition.
fn of_series(number: u32) -> Check<'static> {
    Check {
        series_id: SeriesId(number),
        ..check(&QUOTA, 1)
    }
}

#[test]
fn refusal_is_shown_as_it_was_counted_down() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    remember(&refusals, &plan, &[LATER], CAP);
    let expected = Some(verdict(&[Some(after(4_600_000))]));
    assert_eq!(find(&refusals, &plan, Micros(400_000)), expected);
}

#[test]
fn every_plan_that_contains_what_refused_is_refused_and_told_of_nothing_else() {
    let refusals = Refusals::new();
    let (mine, other) = (check(&QUOTA, 1), of_series(1));
    remember(&refusals, &[mine, other], &[LATER, Retry::NOW], CAP);
    assert_eq!(refusals.len(), 1);
    let alone = Some(verdict(&[Some(LATER)]));
    assert_eq!(find(&refusals, &[mine], Micros(0)), alone);
    let beside = Some(verdict(&[None, Some(LATER), None]));
    let plan = [of_partition(8), mine, of_series(2)];
    assert_eq!(find(&refusals, &plan, Micros(0)), beside);
    assert_eq!(find(&refusals, &[other], Micros(0)), None);
    remember(&refusals, &[other], &[after(9_000_000)], CAP);
    let both = find(&refusals, &[mine, other], Micros(0)).expect("it is refused");
    assert_eq!(both, verdict(&[Some(LATER), Some(after(9_000_000))]));
}

#[test]
fn when_the_cap_ends_one_request_asks_and_the_others_stay_refused() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1), of_partition(8)];
    remember(&refusals, &plan, &[LATER, Retry::NOW], CAP);
    assert!(find(&refusals, &plan, Micros(CAP.0 - 1)).is_some());
    assert!(is_due(&refusals, &plan, CAP));
    let varied = [check(&QUOTA, 1), of_partition(9)];
    assert!(find(&refusals, &varied, CAP).is_some(), "somebody asks");
    assert!(find(&refusals, &varied, Micros(2 * CAP.0 - 1)).is_some());
    assert!(
        is_due(&refusals, &varied, Micros(2 * CAP.0)),
        "it never answered"
    );
    let answered = Interval {
        sent: START + Micros(2 * CAP.0),
        received: START + Micros(2 * CAP.0),
    };
    let refused = states(&varied, &[after(3_000_000), Retry::NOW]);
    refusals.remember(&varied, refused, answered, CAP);
    assert!(find(&refusals, &plan, Micros(3 * CAP.0 - 1)).is_some());
    assert!(is_due(&refusals, &plan, Micros(3 * CAP.0)));
    let admitted = Verdict {
        admit: true,
        ..verdict(&[Some(Retry::NOW), Some(Retry::NOW)])
    };
    refusals.forget_admitted(&plan, &admitted);
    assert_eq!(find(&refusals, &plan, Micros(3 * CAP.0)), None);
    assert_eq!(refusals.len(), 0);
}

#[test]
fn nobody_asks_while_another_quota_of_the_plan_refuses() {
    let refusals = Refusals::new();
    let (old, young) = (check(&QUOTA, 1), of_series(1));
    remember(&refusals, &[old], &[LATER], Micros(CAP.0 / 2));
    remember(&refusals, &[young], &[LATER], CAP);
    let plan = [old, young];
    assert!(find(&refusals, &plan, Micros(CAP.0 - 1)).is_some());
    assert!(is_due(&refusals, &plan, CAP), "asking was not put off");
}

#[test]
fn refusal_ends_before_its_retry() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    remember(&refusals, &plan, &[after(500_000)], CAP);
    assert!(find(&refusals, &plan, Micros(496_000)).is_some());
    assert!(matches!(
        refusals.recall(&plan, true, || START + Micros(500_000)),
        Recalled::Nothing
    ));
}

#[test]
fn retry_counts_from_when_the_plan_was_sent() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    let asked = Interval {
        sent: START,
        received: START + Micros(40_000),
    };
    refusals.remember(&plan, states(&plan, &[after(50_000)]), asked, CAP);
    assert!(find(&refusals, &plan, Micros(45_000)).is_some());
    assert!(find(&refusals, &plan, Micros(50_000)).is_none());
}

#[test]
fn another_partition_series_quota_or_mode_is_asked_for() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    remember(&refusals, &plan, &[LATER], CAP);
    let changed = quota(6, 10);
    let others = [
        of_partition(8),
        of_series(1),
        Check {
            quota: &changed,
            ..plan[0]
        },
        Check {
            mode: CheckMode::Shadow,
            ..plan[0]
        },
    ];
    for other in others {
        assert_eq!(find(&refusals, &[other], Micros(0)), None, "{other:?}");
    }
}

#[test]
fn tiers_of_one_partition_are_remembered_beside_each_other_and_forgotten_together() {
    let refusals = Refusals::new();
    let large = quota(6, 10);
    let tiers = [check(&QUOTA, 1), check(&large, 1)];
    for tier in tiers {
        remember(&refusals, &[tier], &[LATER], CAP);
    }
    for tier in tiers.iter().chain(&tiers) {
        let found = find(&refusals, &[*tier], Micros(0));
        assert_eq!(found, Some(verdict(&[Some(LATER)])), "{:?}", tier.quota);
    }
    assert_eq!(refusals.len(), 2);
    refusals.given_back(SeriesId(0), PARTITION, START);
    assert_eq!(refusals.len(), 0);
}

#[test]
fn quota_that_counts_refused_requests_is_asked_every_time() {
    let refusals = Refusals::new();
    let all = Quota {
        count: Count::All,
        ..QUOTA
    };
    let counting = Check {
        quota: &all,
        ..of_series(1)
    };
    let plan = [check(&QUOTA, 1), counting];
    remember(&refusals, &plan, &[LATER, Retry::NOW], CAP);
    assert_eq!(refusals.len(), 0);
    // Nor is it answered from memory if the other quota refused in another plan.
    remember(&refusals, &plan[..1], &[LATER], CAP);
    assert_eq!(find(&refusals, &plan, Micros(0)), None);
}

#[test]
fn only_quotas_that_enforce_and_refuse_are_remembered() {
    let refusals = Refusals::new();
    let shadow = Check {
        mode: CheckMode::Shadow,
        ..check(&QUOTA, 1)
    };
    remember(
        &refusals,
        &[shadow, of_series(1)],
        &[LATER, Retry::NOW],
        CAP,
    );
    remember(&refusals, &[check(&QUOTA, 1)], &[LATER], Micros(0));
    assert_eq!(refusals.len(), 0);
}

#[test]
fn quota_whose_policy_tries_a_candidate_is_not_remembered_and_others_are() {
    let refusals = Refusals::new();
    let candidate = Check {
        mode: CheckMode::Candidate,
        ..of_series(1)
    };
    let other = Check {
        policy: PlanPolicy(1),
        ..of_series(2)
    };
    let plan = [check(&QUOTA, 1), candidate, other];
    remember(&refusals, &plan, &[LATER, LATER, LATER], CAP);
    assert_eq!(refusals.len(), 1);
    let beside = Some(verdict(&[None, None, Some(LATER)]));
    assert_eq!(find(&refusals, &plan, Micros(0)), beside);
    // A refusal from another plan does not keep the candidate from counting.
    remember(&refusals, &plan[..1], &[LATER], CAP);
    assert!(find(&refusals, &plan[..1], Micros(0)).is_some());
    assert_eq!(find(&refusals, &plan[..2], Micros(0)), None);
}

#[test]
fn what_came_back_is_forgotten_and_nothing_else() {
    let refusals = Refusals::new();
    for plan in [[check(&QUOTA, 1)], [of_partition(8)], [of_series(1)]] {
        remember(&refusals, &plan, &[LATER], CAP);
    }
    refusals.given_back(SeriesId(0), PARTITION, START + Micros(1));
    remember(&refusals, &[check(&QUOTA, 1)], &[LATER], CAP);
    assert_eq!(find(&refusals, &[check(&QUOTA, 1)], Micros(0)), None);
    assert!(find(&refusals, &[of_partition(8)], Micros(0)).is_some());
    refusals.retain(&[SeriesId(0)]);
    assert!(find(&refusals, &[of_partition(8)], Micros(0)).is_some());
    assert_eq!(find(&refusals, &[of_series(1)], Micros(0)), None);
    assert_eq!(refusals.len(), 1);
}

/// A policy whose every success gives units back must not keep others' refusals from being remembered.
#[test]
fn what_came_back_to_others_keeps_no_refusal_from_being_remembered() {
    let refusals = Refusals::new();
    // Enough for some in every shard.
    for other in 0..2 * SHARDS as u128 {
        refusals.given_back(SeriesId(1), PartitionId::new(other), START + Micros(1));
    }
    let clients: Vec<_> = (0..100).map(of_partition).collect();
    for client in &clients {
        remember(&refusals, &[*client], &[LATER], CAP);
    }
    assert_eq!(refusals.len(), 100);
}

/// Holds however many units came back to others in between.
#[test]
fn refusal_that_was_asked_for_before_units_came_back_is_never_remembered() {
    let refusals = Refusals::new();
    refusals.given_back(SeriesId(0), PARTITION, START + Micros(1));
    let others = u128::try_from(10 * SHARDS * RETURNS).expect("a few");
    for other in 0..others {
        refusals.given_back(SeriesId(1), PartitionId::new(other), START + Micros(2));
        remember(&refusals, &[check(&QUOTA, 1)], &[LATER], CAP);
        assert_eq!(refusals.len(), 0, "after {other} others");
    }
}

#[test]
fn flood_of_refused_clients_is_remembered_within_the_bound() {
    let refusals = Refusals::new();
    for client in 0..u128::try_from(ENTRIES_MAX + 1_000).expect("a few") {
        remember(&refusals, &[of_partition(client)], &[LATER], CAP);
    }
    assert_eq!(refusals.len(), ENTRIES_MAX as u64);
    let sweep = |after: Micros| {
        (0..SHARDS / SHARDS_PER_SWEEP).for_each(|_| refusals.sweep(START + after));
    };
    sweep(Micros(2 * CAP.0 - 1));
    assert_eq!(refusals.len(), ENTRIES_MAX as u64);
    sweep(Micros(2 * CAP.0));
    assert_eq!(refusals.len(), 0);
}

#[test]
fn whoever_cannot_ask_leaves_that_to_the_next() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    remember(&refusals, &plan, &[LATER], CAP);
    let unable = |after| refusals.recall(&plan, false, || START + after);
    assert!(matches!(unable(Micros(0)), Recalled::Refused(_)));
    assert!(matches!(unable(CAP), Recalled::Nothing));
    assert!(is_due(&refusals, &plan, CAP));
}
