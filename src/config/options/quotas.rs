//! `quota`: one or several, each a text or a table.

use std::sync::LazyLock;

use super::TableSpec;
use super::ValueShape;
use super::kind::{ValueSpec, list_or_one, number, number_or_text, text, word};
use crate::config::display;
use crate::config::file::{RawQuota, Spanned};
use crate::config::read::Scalar;
use crate::config::secrets::{may_be_key, quoted};
use crate::config::value::{
    ANCHOR_TIME_PATTERN, GrantText, QuotaSpan, QuotaText, ValueError, Zone, anchor_day,
    anchor_day_pattern, anchor_time, grant, grant_pattern, quota, quota_pattern, windowed_pattern,
    zone,
};
use crate::limit::AnchorDay;
use crate::limit::quota::COUNT_MAX;
use crate::limit::sliding_window::BUCKETS_MAX;

/// `quota` of a policy.
pub(super) fn quotas() -> ValueSpec<Vec<Spanned<RawQuota>>> {
    one_or_several(text("100 per minute", grant, display::grant).matching(grant_pattern()))
}

/// `candidate`: its quotas refuse nothing, so they can be neither `unlimited` nor `blocked`.
pub(super) fn candidates() -> ValueSpec<Vec<Spanned<RawQuota>>> {
    one_or_several(text("200 per minute", tried, display::grant).matching(windowed_pattern()))
}

/// `quota` of an override, which may be a client's key by mistake.
pub(super) fn quotas_of_override() -> ValueSpec<Vec<Spanned<RawQuota>>> {
    let read = |text: &str| {
        grant(text).map_err(|wrong| {
            if !may_be_key(text) || quoted(text) == text {
                return wrong;
            }
            let hint = wrong.hint.clone().filter(|hint| !hint.contains(" per "));
            wrong.unquoted("this value").maybe_hint(hint)
        })
    };
    one_or_several(text("100 per minute", read, display::grant).matching(grant_pattern()))
}

fn counted(text: &str) -> Result<GrantText, ValueError> {
    quota(text).map(GrantText::Quota)
}

/// Parses a quota of `candidate`. It cannot be `credits`, because no client has been granted a balance of a candidate,
/// nor a number in flight, because requests that are refused would have to hold its units.
fn tried(text: &str) -> Result<GrantText, ValueError> {
    let expected = "a quota such as `100 per minute`";
    match quota(text)? {
        QuotaText {
            span: QuotaSpan::Credits | QuotaSpan::InFlight,
            ..
        } => Err(ValueError::new("cannot be a candidate", expected)),
        quota => Ok(GrantText::Quota(quota)),
    }
}

fn one_or_several(text: ValueSpec<GrantText>) -> ValueSpec<Vec<Spanned<RawQuota>>> {
    let table = ValueShape::Table(QUOTA.about.clone());
    let shape = ValueShape::OneOf(vec![text.shape.clone(), table]);
    let example = text.example.clone();
    let read = move |mut value: Scalar<'_, '_>| match value.table(&QUOTA) {
        Some(quota) => Some(quota),
        None => text.read(value).map(RawQuota::from),
    };
    list_or_one(ValueSpec::new(&example, shape, read, display::raw_quota))
}

/// A quota that is written as a table, with keys for itself alone.
static QUOTA: LazyLock<TableSpec<RawQuota>> = LazyLock::new(|| {
    let text = text("240 per hour", counted, display::grant).matching(quota_pattern());
    TableSpec::<RawQuota>::of("quota", "a quota")
        .key("quota", text)
        .sets(|table| &mut table.quota)
        .doc("Units per window.")
        .key(
            "algorithm",
            word(display::ALGORITHMS).spanned().or_none("the policy's"),
        )
        .sets(|table| &mut table.algorithm)
        .doc("The algorithm.")
        .key(
            "buckets",
            number(1..=u64::from(BUCKETS_MAX))
                .spanned()
                .or_none("the policy's"),
        )
        .sets(|table| &mut table.buckets)
        .doc("For sliding-window: buckets per window.")
        .key(
            "oldest_bucket",
            word(display::OLDEST_BUCKETS)
                .spanned()
                .or_none("the policy's"),
        )
        .sets(|table| &mut table.oldest)
        .doc("How much of the oldest bucket counts.")
        .key(
            "align",
            word(display::ALIGNS).spanned().or_none("the policy's"),
        )
        .sets(|table| &mut table.align)
        .doc("When windows and buckets start.")
        .key(
            "burst",
            number(1..=COUNT_MAX).spanned().or_none("the policy's"),
        )
        .sets(|table| &mut table.burst)
        .doc("Most units that an idle client may spend at once.")
        .key(
            "queue",
            number(0..=COUNT_MAX).spanned().or_none("the policy's"),
        )
        .sets(|table| &mut table.queue)
        .doc("Most units that wait.")
        .key("time_zone", time_zone().spanned().or_none("the policy's"))
        .sets(|table| &mut table.time_zone)
        .doc("For calendar quotas: the time zone.")
        .key("anchor_day", day().spanned().or_none("the policy's"))
        .sets(|table| &mut table.anchor_day)
        .doc("For calendar quotas: the day that weeks or months begin on.")
        .key("anchor_time", time().spanned().or_none("the policy's"))
        .sets(|table| &mut table.anchor_time)
        .doc("For calendar quotas: the time of day that windows begin at.")
});

/// `time_zone`
pub(super) fn time_zone() -> ValueSpec<Zone> {
    text("Europe/Berlin", zone, display::zone)
}

/// `anchor_day`
pub(super) fn day() -> ValueSpec<AnchorDay> {
    number_or_text("15", anchor_day, display::anchor_day).matching(anchor_day_pattern())
}

/// `anchor_time`, in minutes since midnight
pub(super) fn time() -> ValueSpec<u16> {
    text("06:00", anchor_time, display::anchor_time).matching(ANCHOR_TIME_PATTERN)
}
