use super::*;
use crate::limit::fixed_window::FixedWindow;
use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, AnyState, Consistency, SyncInterval};
use crate::store::redis::wire::SettlementStep;

const START: Timestamp = Timestamp(1_700_000_000_000_000);
const PARTITION: PartitionId = PartitionId::new(7);
const QUOTA: Quota = Quota::of(Algorithm::FixedWindow, 100, Micros::from_secs(1_000));

const INTERVAL: Micros = Micros::from_secs(1);

/// Returns the state that Redis returns `seconds` after the start; its clock and the gateway's agree.
fn seen(used: u64, seconds: u64) -> SeenState {
    let time = START + Micros::from_secs(seconds);
    SeenState {
        state: AnyState::FixedWindow(FixedWindow::new(START, used)),
        time,
        asked: time,
        received: time,
    }
}

fn check() -> Check<'static> {
    Check {
        cost: 30,
        consistency: Consistency::Synced(SyncInterval(1_000)),
        ..Check::of(&QUOTA, SeriesId(0), PARTITION)
    }
}

fn terms(seconds: u64) -> FollowTerms {
    FollowTerms {
        now: START + Micros::from_secs(seconds),
        nodes: 1,
    }
}

#[test]
fn what_was_counted_after_a_reset_stays_when_that_is_heard_of() {
    let check = check();
    let mut quota = FollowedQuota::new(&check, INTERVAL, seen(0, 0));
    for (second, left) in [(1, 70), (3, 40)] {
        let units = quota.decide(&check, INTERVAL, &terms(second), true);
        assert_eq!(units.decision.remaining, left);
        quota.see(PARTITION, seen(0, second));
    }
    quota.reset(PARTITION, START + Micros::from_secs(2), terms(4).now);
    quota.see(PARTITION, seen(0, 4));
    let after = quota.decide(&Check { cost: 0, ..check }, INTERVAL, &terms(4), true);
    assert!(after.decision.remaining <= 70);
}

#[test]
fn what_is_charged_after_a_reset_is_later_than_it_however_long_an_answer_was_under_way() {
    let check = check();
    let late = SeenState {
        received: terms(3).now,
        ..seen(0, 0)
    };
    let mut quota = FollowedQuota::new(&check, INTERVAL, late);
    let reset_at = START + Micros::from_secs(4);
    quota.reset(PARTITION, reset_at, terms(4).now);
    let units = quota.decide(&check, INTERVAL, &terms(5), true);
    assert!(units.charged.expect("it is admitted").at > reset_at);
    // A state from before the reset is ignored after it.
    quota.see(PARTITION, seen(50, 3));
    let after = quota.decide(&Check { cost: 0, ..check }, INTERVAL, &terms(5), true);
    assert_eq!(after.decision.remaining, 70);
}

#[test]
fn what_a_report_says_that_redis_counted_after_a_reset_comes_back() {
    for (counted_at, comes_back) in [(2, None), (4, Some(30))] {
        let check = check();
        let mut quota = FollowedQuota::new(&check, INTERVAL, seen(0, 0));
        let before = quota.decide(&check, INTERVAL, &terms(1), true);
        assert_eq!(before.decision.remaining, 70);
        let key = QuotaKey::of(&check);
        let report = quota.begin_report(key, terms(1).now);
        let reset_at = START + Micros::from_secs(3);
        quota.reset(PARTITION, reset_at, reset_at);
        let used = if comes_back.is_some() { 30 } else { 0 };
        let counted = ReportOutcome::Counted(seen(used, counted_at));
        quota.reported(&report, counted, terms(4).now);
        let after = quota.decide(&Check { cost: 0, ..check }, INTERVAL, &terms(4), true);
        assert_eq!(after.decision.remaining, 100);
        let steps = quota.begin_report(key, terms(5).now).steps;
        let returned = steps.iter().find_map(|step| match step {
            SettlementStep::Release { amount, .. } => Some(*amount),
            _ => None,
        });
        assert_eq!(returned, comes_back);
    }
}

#[test]
fn what_is_being_reported_stays_part_of_what_is_known_until_its_answer_comes() {
    let check = check();
    for (outcome, left) in [
        (ReportOutcome::Counted(seen(30, 3)), 70),
        (ReportOutcome::Uncounted, 70),
        (ReportOutcome::Unknown, 70),
        (ReportOutcome::Counted(seen(50, 3)), 50),
    ] {
        let mut quota = FollowedQuota::new(&check, INTERVAL, seen(0, 0));
        quota.decide(&check, INTERVAL, &terms(1), true);
        let report = quota.begin_report(QuotaKey::of(&check), terms(1).now);
        let nothing = Check { cost: 0, ..check };
        // Another request brings the state from before the report.
        quota.see(PARTITION, seen(0, 2));
        let meanwhile = quota.decide(&nothing, INTERVAL, &terms(2), true);
        assert_eq!(meanwhile.decision.remaining, 70);
        quota.reported(&report, outcome, terms(3).now);
        let after = quota.decide(&nothing, INTERVAL, &terms(3), true);
        assert_eq!(after.decision.remaining, left);
    }
}
