//! `[policies.NAME]`.

use std::sync::{Arc, LazyLock};

use http::StatusCode;

use super::kind::{free_text, list, list_or_one, number, number_or_text, size, text, word};
use super::overrides::{grants, overrides, overrides_file};
use super::{Effect, TableSpec, costs};
use crate::config::file::{AlgorithmName, RawPolicy};
use crate::config::spelling;
use crate::config::value::{
    field_value, name, part_choice, quota, refund_on, refusal_status, retry_jitter, status_range,
};
use crate::limit::plan::OnStoreFailure;
use crate::limit::quota::{COST_MAX, COUNT_MAX};
use crate::limit::{Align, Count, OldestBucket};
use crate::request::{Choice, Missing, Part, Partition};
use crate::snapshot::{Jitter, PolicyMode, REQUESTS};

/// `[policies.NAME]`
pub static POLICY: LazyLock<TableSpec<RawPolicy>> = LazyLock::new(|| {
    let per_address = Partition(vec![Choice(vec![Part::Ip])]);
    let partition =
        list(text("ip", part_choice, spelling::choice)).plain(Partition, spelling::partition);
    let algorithm = word(spelling::ALGORITHMS, &[]).or(AlgorithmName::SlidingWindow);
    let oldest = word(spelling::OLDEST_BUCKETS, &[]).or(OldestBucket::Weighted);
    let on_failure = word(spelling::ON_STORE_FAILURE, &[]).or(OnStoreFailure::Local);
    let a_quota = |example| text(example, quota, spelling::quota);
    let units = || number(0..=COST_MAX);
    let most = number(1..=COST_MAX);
    let unit = text(
        "tokens",
        |text| name(text).map(Arc::from),
        |unit: &Arc<str>| unit.to_string(),
    );
    let held = size(1..=BODY_HELD_MAX).or(1 << 20);
    let statuses = number_or_text("401", status_range, spelling::status_range);
    let refunds = number_or_text("5xx", refund_on, spelling::refund_on);
    let (afresh, kept) = (Effect::CountersAfresh, Effect::CountersKept);
    TableSpec::<RawPolicy>::of("policy", "[policies.NAME]")
        .key("quota", grants())
        .sets(|it| &mut it.quota)
        .doc("Units per window, or a list of quotas that must all hold:")
        .key("algorithm", algorithm)
        .sets(|it| &mut it.algorithm)
        .doc("The algorithm:")
        .effect(afresh)
        .key("buckets", number(1..=u64::from(BUCKETS_MAX)).or(10))
        .sets(|it| &mut it.buckets)
        .doc("For sliding-window: buckets per window, 1 to 100.")
        .effect(afresh)
        .key("oldest_bucket", oldest)
        .sets(|it| &mut it.oldest)
        .doc("How much of the oldest bucket counts, for sliding-window:")
        .effect(afresh)
        .key("align", word(spelling::ALIGNS, &[]).or(Align::Epoch))
        .sets(|it| &mut it.align)
        .doc("When windows and buckets start:")
        .effect(afresh)
        .key("burst", number(1..=COUNT_MAX).or_none("the quota"))
        .sets(|it| &mut it.burst)
        .doc("Most units that an idle client may spend at once.")
        .effect(kept)
        .key("queue", number(0..=COUNT_MAX).or(0))
        .sets(|it| &mut it.queue)
        .doc("Most units that wait.")
        .effect(kept)
        .key("partition", partition.or(per_address))
        .sets(|it| &mut it.policy.partition)
        .doc("What identifies a client, all parts together:")
        .effect(afresh)
        .key(
            "on_missing",
            word(spelling::MISSING, &[]).or(Missing::Share),
        )
        .sets(|it| &mut it.policy.missing)
        .doc("What to do if a part is missing:")
        .key("cost", costs::cost())
        .sets(|it| &mut it.cost)
        .doc("Units that a request spends; 0 only peeks.")
        .key("reserve", costs::reserve())
        .sets(|it| &mut it.reserve)
        .doc("For reported costs: what is charged until the response reports the cost.")
        .key("reserve_default", units().or_none("none"))
        .sets(|it| &mut it.reserve_default)
        .doc("For declared reserves: the least that is reserved if the body does not declare the reserve.")
        .key("max_reserve_body", held)
        .sets(|it| &mut it.max_reserve_body)
        .doc("For declared reserves: most bytes of a body buffered before the decision.")
        .key("cost_unknown", costs::unknown())
        .sets(|it| &mut it.cost_unknown)
        .doc("For costs that a body reports: the least that is charged if the response reports no cost.")
        .key("min_cost", units().or_none("1, or 0 if a body reports the cost"))
        .sets(|it| &mut it.min_cost)
        .doc("For reported costs: the least that a request costs.")
        .key(
            "max_cost",
            most.or_none("1000, or 10000000 if a body reports the cost"),
        )
        .sets(|it| &mut it.max_cost)
        .doc("For reported costs: the most that a request costs.")
        .key("unit", unit.or(Arc::from(REQUESTS)))
        .sets(|it| &mut it.policy.unit)
        .doc("What a unit is called in responses and in the RateLimit-Policy header.")
        .key("count", word(spelling::COUNTS, &[]).or(Count::Admitted))
        .sets(|it| &mut it.count)
        .doc("Which requests count:")
        .key("count_status", list(statuses))
        .sets(|it| &mut it.count_status)
        .doc("Response statuses that count, for example [401, 403].")
        .key("refund_on", list(refunds))
        .sets(|it| &mut it.refund_on)
        .doc("What refunds the charge: response statuses, \"connect\" (the upstream could not be reached), \"timeout\" (it did not respond in time).")
        .key(
            "mode",
            word(spelling::MODES, &[]).or(Some(PolicyMode::Enforce)),
        )
        .sets(|it| &mut it.policy.mode)
        .doc("\"enforce\", \"shadow\" (count and report, never refuse), \"mark\" (shadow, and tell the upstream), or \"off\".")
        .key(
            "candidate",
            list_or_one(a_quota("200 per minute")).or(Vec::new()),
        )
        .sets(|it| &mut it.candidate)
        .doc("A quota to try beside the real one: counted and reported, never enforced.")
        .key("on_store_failure", on_failure)
        .sets(|it| &mut it.policy.on_store_failure)
        .doc("What happens if the store cannot answer or is full:")
        .key("overrides", overrides())
        .sets(|it| &mut it.overrides)
        .doc("Other quotas for single clients:")
        .key(
            "overrides_by",
            text("header:x-plan", part_choice, spelling::choice).or_none("the partition"),
        )
        .sets(|it| &mut it.overrides_by)
        .doc("What selects the override.")
        .key("overrides_file", overrides_file().or_none("none"))
        .sets(|it| &mut it.overrides_file)
        .doc("A CSV file with more overrides, read again on SIGHUP.")
        .table("refusal", refusal())
        .not_yet("time_zone anchor_day anchor_time anchor_by initial_credits allow_loss spill")
        .not_yet("penalty penalty_growth notify consistency overshoot sync_interval")
});

/// `[policies.NAME.refusal]`
fn refusal() -> TableSpec<RawPolicy> {
    let status = number_or_text("503", refusal_status, |status| status.as_u16().to_string());
    let jitter = text("10%", retry_jitter, spelling::jitter);
    let content_type = text("text/html", field_value, spelling::field_value);
    TableSpec::<RawPolicy>::of("refusal", "[policies.NAME.refusal]")
        .key("status", status.or(StatusCode::TOO_MANY_REQUESTS))
        .sets(|it| &mut it.policy.refusal.status)
        .doc("The status of a refusal.")
        .key("body", free_text("Slow down.").or_none("problem+json"))
        .sets(|it| &mut it.refusal_body)
        .doc("The body of a refusal.")
        .key("content_type", content_type.or_none("text/plain"))
        .sets(|it| &mut it.refusal_content_type)
        .doc("The content type of that body.")
        .key("retry_jitter", jitter.or(Jitter::default()))
        .sets(|it| &mut it.policy.refusal.retry_jitter)
        .doc("The largest random delay added to Retry-After: a duration or a share of the wait, \"5s\" or \"10%\".")
}

/// Most bytes of a body that may be held before the decision.
const BODY_HELD_MAX: u64 = 1 << 30;

/// Most buckets of a sliding window.
pub const BUCKETS_MAX: u32 = 100;
