//! `[policies.NAME]`.

use super::table::{Table, plain};
use crate::config::file::{AlgorithmName, At, Mode, Policy};
use crate::config::value::{part_choice, quota};
use crate::limit::plan::OnStoreFailure;
use crate::limit::quota::{COST_MAX, COUNT_MAX};
use crate::limit::{Count, LeavingBucket};
use crate::request::{Missing, Partition};

pub(super) fn policy(table: &mut Table<'_, '_>) -> Policy {
    let algorithms = [
        ("sliding-window", AlgorithmName::SlidingWindow),
        ("fixed-window", AlgorithmName::FixedWindow),
        ("sliding-log", AlgorithmName::SlidingLog),
        ("gcra", AlgorithmName::Gcra),
        ("leaky-bucket", AlgorithmName::LeakyBucket),
    ];
    let leaving = [
        ("weighted", LeavingBucket::Weighted),
        ("whole", LeavingBucket::Whole),
        ("dropped", LeavingBucket::Dropped),
    ];
    let missing = [
        ("share", Missing::Share),
        ("skip", Missing::Skip),
        ("refuse", Missing::Refuse),
    ];
    let modes = [
        ("enforce", Mode::Enforce),
        ("shadow", Mode::Shadow),
        ("off", Mode::Off),
    ];
    let failures = [
        ("local", OnStoreFailure::Local),
        ("open", OnStoreFailure::Open),
        ("closed", OnStoreFailure::Closed),
    ];
    let counts = [("admitted", Count::Admitted), ("all", Count::All)];
    Policy {
        quota: table.list_or_one("quota", "100 per minute", quota),
        algorithm: table.word("algorithm", &algorithms, &[]),
        buckets: table.number("buckets", 1..=BUCKETS_MAX),
        leaving: table.word("leaving", &leaving, &[]),
        burst: table.number("burst", 1..=COUNT_MAX),
        queue: table.number("queue", 0..=COUNT_MAX),
        partition: partition(table),
        missing: plain(table.word("missing", &missing, &[])),
        cost: cost(table),
        count: table.word("count", &counts, &[]),
        mode: plain(table.word("mode", &modes, &["mark"])),
        on_store_failure: plain(table.word("on_store_failure", &failures, &[])),
        incomplete: table.is_incomplete(),
    }
}

fn partition(table: &mut Table<'_, '_>) -> Option<At<Partition>> {
    let choices = table.list("partition", "ip", part_choice)?;
    let parts = choices.value.into_iter().map(|choice| choice.value);
    Some(At {
        value: Partition(parts.collect()),
        span: choices.span,
    })
}

fn cost(table: &mut Table<'_, '_>) -> Option<At<u64>> {
    let expected = format!("a number from 0 to {COST_MAX}");
    if table.is_to_come("cost", &["request-header:", "response-header:"], &expected) {
        return None;
    }
    table.number("cost", 0..=COST_MAX)
}

/// Most buckets of a sliding window.
const BUCKETS_MAX: u64 = 100;
