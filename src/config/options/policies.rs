//! `[policies.NAME]`.

use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::StatusCode;
use smallvec::smallvec;

use super::kind::{boolean, duration, free_text, list, number, number_or_text, size, text, word};
use super::overrides::{overrides, overrides_file};
use super::{Effect, TableSpec, costs, prices, quotas};
use crate::config::display;
use crate::config::file::{AlgorithmName, ConsistencyName, RawPolicy};
use crate::config::value::{
    OVERSHOOT_PATTERN, STATUS_PATTERN, THRESHOLD_PATTERN, Zone, anchor_by, field_value, name,
    overshoot, part_choice, part_pattern, refund_on, refusal_status, retry_jitter, status_range,
    threshold,
};
use crate::limit::consistency::SYNC_INTERVAL_MIN;
use crate::limit::plan::OnStoreFailure;
use crate::limit::quota::{COST_MAX, COUNT_MAX};
use crate::limit::sliding_window::BUCKETS_MAX;
use crate::limit::{Align, Count, OldestBucket, Overshoot};
use crate::request::{Choice, Missing, Part, Partition};
use crate::snapshot::{PolicyMode, REQUESTS};

/// `[policies.NAME]`
pub static POLICY: LazyLock<TableSpec<RawPolicy>> = LazyLock::new(|| {
    let per_address = Partition(smallvec![Choice(smallvec![Part::Ip])]);
    let partition = list(text("ip", part_choice, display::choice).matching(part_pattern()))
        .plain(|choices| Partition(choices.into()), display::partition);
    let algorithm = word(display::ALGORITHMS).or(AlgorithmName::SlidingWindow);
    let oldest = word(display::OLDEST_BUCKETS).or(OldestBucket::Weighted);
    let on_failure = word(display::ON_STORE_FAILURE).or(OnStoreFailure::Local);
    let anchor_by = text("jwt:billing_day", anchor_by, display::choice);
    let anchor_by = anchor_by.matching("^jwt:.+$");
    let units = || number(0..=COST_MAX);
    let most = number(1..=COST_MAX);
    let unit = text(
        "tokens",
        |text| name(text).map(Arc::from),
        |unit: &Arc<str>| unit.to_string(),
    );
    let body_size = size(1..=BODY_BUFFERED_MAX).or(1 << 20);
    let statuses =
        number_or_text("401", status_range, display::status_range).matching(STATUS_PATTERN);
    let refunds = number_or_text("5xx", refund_on, display::refund_on);
    let overshoot = text("0.5%", overshoot, display::overshoot).matching(OVERSHOOT_PATTERN);
    let thresholds = list(text("80%", threshold, display::threshold).matching(THRESHOLD_PATTERN));
    let (afresh, kept) = (Effect::CountersAfresh, Effect::CountersKept);
    TableSpec::<RawPolicy>::of("policy", "[policies.NAME]")
        .about("Who may spend how much.")
        .key("quota", quotas::quotas())
        .sets(|table| &mut table.quota)
        .doc("Units per window, or a list of quotas that must all hold:")
        .key("algorithm", algorithm)
        .sets(|table| &mut table.algorithm)
        .doc("The algorithm:")
        .effect(afresh)
        .key("buckets", number(1..=u64::from(BUCKETS_MAX)).or(10))
        .sets(|table| &mut table.buckets)
        .doc("For sliding-window: buckets per window, 1 to 360.")
        .effect(afresh)
        .key("oldest_bucket", oldest)
        .sets(|table| &mut table.oldest)
        .doc("How much of the oldest bucket counts, for sliding-window:")
        .effect(afresh)
        .key("align", word(display::ALIGNS).or(Align::Epoch))
        .sets(|table| &mut table.align)
        .doc("When windows and buckets start:")
        .effect(afresh)
        .key("time_zone", quotas::time_zone().or(Zone::default()))
        .sets(|table| &mut table.time_zone)
        .doc("For calendar quotas: the time zone.")
        .effect(afresh)
        .key("anchor_day", quotas::day().or_none("1, of a week monday"))
        .sets(|table| &mut table.anchor_day)
        .doc("For calendar quotas: the day that weeks or months begin on; in a shorter month, its last day.")
        .effect(afresh)
        .key("anchor_time", quotas::time().or(0))
        .sets(|table| &mut table.anchor_time)
        .doc("For calendar quotas: the time of day that windows begin at.")
        .effect(afresh)
        .key("anchor_by", anchor_by.or_none("none"))
        .sets(|table| &mut table.anchor_by)
        .doc("For calendar quotas: the claim that names each client's own day.")
        .effect(afresh)
        .key("burst", number(1..=COUNT_MAX).or_none("the quota"))
        .sets(|table| &mut table.burst)
        .doc("Most units that an idle client may spend at once.")
        .effect(kept)
        .key("queue", number(0..=COUNT_MAX).or(0))
        .sets(|table| &mut table.queue)
        .doc("Most units that wait.")
        .effect(kept)
        .key("initial_credits", number(0..=COUNT_MAX).or(0))
        .sets(|table| &mut table.initial_credits)
        .doc("For credits: the initial balance of a client.")
        .effect(kept)
        .key("allow_loss", boolean().or(false))
        .sets(|table| &mut table.allow_loss)
        .doc("For credits: keep balances in this process, where a restart forgets them.")
        .key("partition", partition.or(per_address))
        .sets(|table| &mut table.policy.partition)
        .doc("What identifies a client, all parts together:")
        .effect(afresh)
        .key(
            "on_missing",
            word(display::MISSING).or(Missing::Share),
        )
        .sets(|table| &mut table.policy.missing)
        .doc("What to do if a part is missing:")
        .key("cost", costs::cost())
        .sets(|table| &mut table.cost)
        .doc("Units that a request spends; 0 only peeks.")
        .key("reserve", costs::reserve())
        .sets(|table| &mut table.reserve)
        .doc("For reported costs: what is charged until the response reports the cost.")
        .key("reserve_default", units().or_none("none"))
        .sets(|table| &mut table.reserve_default)
        .doc("For declared reserves: the least that is reserved if the body does not declare the reserve.")
        .key("max_reserve_body", body_size)
        .sets(|table| &mut table.max_reserve_body)
        .doc("For declared reserves: most bytes of a body buffered before the decision.")
        .key("cost_unknown", costs::unknown())
        .sets(|table| &mut table.cost_unknown)
        .doc("For costs that a body reports: the least that is charged if the response reports no cost.")
        .key("cost_by", prices::cost_by())
        .sets(|table| &mut table.cost_by)
        .doc("For costs that a body reports: the text in the request's body that selects the prices.")
        .key("prices", prices::prices())
        .sets(|table| &mut table.prices)
        .doc("Prices by that text, for terms with `price`:")
        .key("min_cost", units().or_none("1, or 0 if a body reports the cost"))
        .sets(|table| &mut table.min_cost)
        .doc("For reported costs: the least that a request costs.")
        .key(
            "max_cost",
            most.or_none("1000, or 10000000 if a body reports the cost"),
        )
        .sets(|table| &mut table.max_cost)
        .doc("For reported costs: the most that a request costs.")
        .key("unit", unit.or(Arc::from(REQUESTS)))
        .sets(|table| &mut table.policy.unit)
        .doc("What a unit is called in responses and in the RateLimit-Policy header.")
        .key("count", word(display::COUNTS).or(Count::Admitted))
        .sets(|table| &mut table.count)
        .doc("Which requests count:")
        .key("count_status", list(statuses))
        .sets(|table| &mut table.count_status)
        .doc("Response statuses that count, for example [401, 403].")
        .key("refund_on", list(refunds))
        .sets(|table| &mut table.refund_on)
        .doc("What refunds the charge: response statuses, \"connect\" (the upstream could not be reached), \"timeout\" (it did not respond in time).")
        .key(
            "mode",
            word(display::MODES).or(Some(PolicyMode::Enforce)),
        )
        .sets(|table| &mut table.policy.mode)
        .doc("\"enforce\", \"shadow\" (count and report, never refuse), \"mark\" (shadow, and tell the upstream), or \"off\".")
        .key("spill", free_text("credits").spanned().or_none("none"))
        .sets(|table| &mut table.spill)
        .doc("The policy whose credits take what this one refuses.")
        .key("penalty", duration(PENALTIES).or_none("none"))
        .sets(|table| &mut table.penalty)
        .doc("How long a refusal keeps the client refused.")
        .effect(kept)
        .key("penalty_growth", number(1..=PENALTY_GROWTH_MAX).or(1))
        .sets(|table| &mut table.penalty_growth)
        .doc("The factor by which each penalty within a day of the last one's end grows, to at most 24h, or `penalty`.")
        .effect(kept)
        .key(
            "candidate",
            quotas::candidates().or(Vec::new()),
        )
        .sets(|table| &mut table.candidate)
        .doc("A quota to try beside the real one: counted and reported, never enforced.")
        .key("on_store_failure", on_failure)
        .sets(|table| &mut table.policy.on_store_failure)
        .doc("What happens if the store cannot answer or is full:")
        .key("consistency", word(display::CONSISTENCIES).or(ConsistencyName::Exact))
        .sets(|table| &mut table.consistency)
        .doc("How exactly gateways that share Redis keep the quota:")
        .effect(kept)
        .key("overshoot", overshoot.or(Overshoot::default()))
        .sets(|table| &mut table.overshoot)
        .doc("For leased: how much of the quota all gateways together may hold ahead, and so overshoot it by.")
        .effect(kept)
        .key("sync_interval", duration(SYNC_INTERVALS).or(Duration::from_secs(1)))
        .sets(|table| &mut table.sync_interval)
        .doc("For synced: how often each gateway reports to Redis what it counted; at most a tenth of the shortest window.")
        .effect(kept)
        .key("overrides", overrides())
        .sets(|table| &mut table.overrides)
        .doc("Other quotas for single clients:")
        .key(
            "overrides_by",
            text("header:x-plan", part_choice, display::choice).matching(part_pattern()).or_none("the partition"),
        )
        .sets(|table| &mut table.overrides_by)
        .doc("What selects the override.")
        .key("overrides_file", overrides_file().or_none("none"))
        .sets(|table| &mut table.overrides_file)
        .doc("A CSV file with more overrides, read again on SIGHUP.")
        .key("notify", thresholds)
        .sets(|table| &mut table.notify)
        .doc("Percentages of a quota: the log and a metric report each client whose use reaches one.")
        .table("refusal", refusal())
});

/// `[policies.NAME.refusal]`
fn refusal() -> TableSpec<RawPolicy> {
    let status = number_or_text("503", refusal_status, |status| status.as_u16().to_string())
        .matching("^[45][0-9][0-9]$");
    let jitter = text("10%", retry_jitter, display::jitter);
    let content_type = text("text/html", field_value, display::field_value);
    TableSpec::<RawPolicy>::of("refusal", "[policies.NAME.refusal]")
        .about("The response to a refused request.")
        .key("status", status.or(StatusCode::TOO_MANY_REQUESTS))
        .sets(|table| &mut table.policy.refusal.status)
        .doc("The status of a refusal.")
        .key("body", free_text("Slow down.").or_none("problem+json"))
        .sets(|table| &mut table.refusal_body)
        .doc("The body of a refusal. {policy}, {reason} and {retry_after} are filled in.")
        .key("content_type", content_type.or_none("text/plain"))
        .sets(|table| &mut table.refusal_content_type)
        .doc("The content type of that body.")
        .key("retry_jitter", jitter.or_none("0s, of calendar quotas 5m"))
        .sets(|table| &mut table.policy.refusal.retry_jitter)
        .doc("The largest random delay added to Retry-After: a duration or a share of the wait, \"5s\" or \"10%\".")
}

/// Allowed times between two reports of what a gateway has counted.
const SYNC_INTERVALS: RangeInclusive<Duration> = SYNC_INTERVAL_MIN..=Duration::from_hours(1);
/// Allowed lengths of a penalty.
const PENALTIES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(366 * 24);
/// Largest factor by which a further penalty grows.
const PENALTY_GROWTH_MAX: u64 = 100;
/// Most bytes of a body that may be buffered before the decision.
const BODY_BUFFERED_MAX: u64 = 1 << 30;
