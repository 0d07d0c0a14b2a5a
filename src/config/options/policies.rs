//! `[policies.NAME]`.

use std::sync::LazyLock;

use super::kind::{list, list_or_one, number, number_or, text, word};
use super::{Effect, Keys};
use crate::config::file::{AlgorithmName, RawPolicy};
use crate::config::spelling;
use crate::config::value::{part_choice, quota};
use crate::limit::plan::{Mode, OnStoreFailure};
use crate::limit::quota::{COST_MAX, COUNT_MAX};
use crate::limit::{Count, LeavingBucket};
use crate::request::{Choice, Missing, Part, Partition};

/// `[policies.NAME]`
pub static POLICY: LazyLock<Keys<RawPolicy>> = LazyLock::new(|| {
    let per_address = Partition(vec![Choice(vec![Part::Ip])]);
    let partition =
        list(text("ip", part_choice, spelling::choice)).plain(Partition, spelling::partition);
    let algorithm = word(spelling::ALGORITHMS, &[]).or(AlgorithmName::SlidingWindow);
    let leaving = word(spelling::LEAVING, &[]).or(LeavingBucket::Weighted);
    let on_failure = word(spelling::ON_STORE_FAILURE, &[]).or(OnStoreFailure::Local);
    let quota = text("100 per minute", quota, spelling::quota);
    let cost = number_or(0..=COST_MAX, &["request-header:", "response-header:"]);
    let (afresh, kept) = (Effect::CountersAfresh, Effect::CountersKept);
    Keys::<RawPolicy>::of("policy", "[policies.NAME]")
        .key("quota", list_or_one(quota))
        .sets(|it| &mut it.quota)
        .doc("Units per window, or a list that must all hold:")
        .key("algorithm", algorithm)
        .sets(|it| &mut it.algorithm)
        .doc("How they are counted:")
        .effect(afresh)
        .key("buckets", number(1..=u64::from(BUCKETS_MAX)).or(10))
        .sets(|it| &mut it.buckets)
        .doc("Of sliding-window: buckets per window, 1 to 100.")
        .effect(afresh)
        .key("leaving", leaving)
        .sets(|it| &mut it.leaving)
        .doc("Of sliding-window: how much of the oldest bucket counts:")
        .effect(afresh)
        .key("burst", number(1..=COUNT_MAX).or_none("the quota"))
        .sets(|it| &mut it.burst)
        .doc("Most units at one instant from idle; without it, the quota's number.")
        .effect(kept)
        .key("queue", number(0..=COUNT_MAX).or(0))
        .sets(|it| &mut it.queue)
        .doc("Most units that wait; further ones are refused.")
        .effect(kept)
        .key("partition", partition.or(per_address))
        .sets(|it| &mut it.policy.partition)
        .doc("What names a client, all parts together:")
        .effect(afresh)
        .key("missing", word(spelling::MISSING, &[]).or(Missing::Share))
        .sets(|it| &mut it.policy.missing)
        .doc("A request without one of them:")
        .key("cost", cost.or(1))
        .sets(|it| &mut it.cost)
        .doc("Units that a request spends; 0 only looks. A route's own comes first.")
        .key("count", word(spelling::COUNTS, &[]).or(Count::Admitted))
        .sets(|it| &mut it.count)
        .doc("Requests that count:")
        .key(
            "mode",
            word(spelling::MODES, &["mark"]).or(Some(Mode::Enforce)),
        )
        .sets(|it| &mut it.policy.mode)
        .doc("\"enforce\", \"shadow\" (counts and reports, never refuses), \"off\".")
        .key("on_store_failure", on_failure)
        .sets(|it| &mut it.policy.on_store_failure)
        .doc("When the store cannot answer or is full:")
        .not_yet(
            "align time_zone anchor_day reserve cost_min cost_max count_status refund_on \
candidate penalty refusal overrides overrides_by overrides_file",
        )
});

/// Most buckets of a sliding window.
pub const BUCKETS_MAX: u32 = 100;
