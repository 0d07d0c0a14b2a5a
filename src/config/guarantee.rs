//! What a quota guarantees, in words: each algorithm's law from `limits.md`, with the quota's numbers.

use super::display;
use crate::clock::Micros;
use crate::cost::{Amount, BodyCost, NumberSource, Others, Priced};
use crate::limit::{
    Algorithm, Align, AnchorDay, CalendarShape, CalendarUnit, Count, OldestBucket, Quota,
};
use crate::snapshot::{CostSource, CountedAnswers, HeaderCost, Policy, ReportedCost};

/// Says how much a quota can let through, and in which stretches of time.
pub fn guarantee(quota: &Quota) -> String {
    let mut text = law(quota);
    if quota.align == Align::Spread {
        text.push_str("; each client's windows start at a different time");
    }
    if quota.count == Count::All {
        text.push_str("; refused requests count too");
    }
    text
}

/// Describes, in lines, a policy's reported cost, and which answers count.
pub fn reported_later(policy: &Policy) -> impl Iterator<Item = String> {
    let costs = policy.reported_cost.as_deref().map(reported_cost);
    let answers = policy.counted_answers.as_deref().map(counted_answers);
    costs.into_iter().flatten().chain(answers)
}

/// Describes, in lines, what a reported cost means for the quotas.
pub fn reported_cost(cost: &ReportedCost) -> Vec<String> {
    match cost {
        ReportedCost::Header(header) => vec![header_cost(header)],
        ReportedCost::Body(body) => body_cost(body),
    }
}

fn header_cost(cost: &HeaderCost) -> String {
    let (source, least) = (&cost.header, cost.bounds.start());
    let (reserve, most) = (cost.reserve, *cost.bounds.end());
    let bounds = format!("{least} to {most}");
    match cost.source {
        CostSource::Request => {
            format!("costs {bounds}, declared by the request's `{source}`; {reserve} without it")
        }
        CostSource::Response if reserve >= most => {
            format!(
                "costs {bounds}, reported by the response's `{source}`; {reserve} reserved, so the quota is never overshot"
            )
        }
        CostSource::Response => {
            let above = most - reserve;
            format!(
                "costs {bounds}, reported by the response's `{source}`; {reserve} reserved, so each request in \
                 progress can overshoot the quota by {above}"
            )
        }
    }
}

fn body_cost(cost: &BodyCost<NumberSource>) -> Vec<String> {
    let (least, most) = (cost.bounds.start(), *cost.bounds.end());
    let reported = display::sum(&cost.cost);
    let reserve = display::amount(&cost.reserve);
    let otherwise = match &cost.reserve {
        Amount::Units(_) if cost.prices.is_some() => format!(
            ", at least {} if the request cannot be read",
            cost.reserve_default
        ),
        Amount::Units(_) => String::new(),
        Amount::Reported(_) => format!(
            ", at least {} if the request does not declare it",
            cost.reserve_default
        ),
    };
    let overshoot = match most - cost.reserve_min().min(most) {
        0 => "the quota is never overshot".to_owned(),
        above => format!("each request in progress can overshoot the quota by {above}"),
    };
    let unknown = cost.unknown.as_ref().map(|unknown| {
        let least = display::amount(unknown);
        format!(", at least {least}")
    });
    let unknown = unknown.unwrap_or_default();
    let early = match most - cost.unknown_min().min(most) {
        0 => "a client that leaves early pays no less".to_owned(),
        saved => format!("a client that leaves before the cost is reported saves at most {saved}"),
    };
    let failed = (!cost.refund_on.is_empty()).then(|| {
        let members = display::sources(&cost.refund_on);
        format!(
            "a response with {members} is charged what it reported, or nothing if that comes first"
        )
    });
    let prices = cost.prices.as_ref().map(prices);
    let lines = vec![
        format!("costs {least} to {most}: {reported}"),
        format!("reserves {reserve}{otherwise}"),
        format!("a response that reports no cost is charged the reserve{unknown}"),
        overshoot,
        early,
    ];
    lines.into_iter().chain(prices).chain(failed).collect()
}

/// Describes a table of prices: its size, its dearest prices, and what values without a row cost.
fn prices(prices: &Priced<NumberSource>) -> String {
    let (by, table) = (display::sources(&prices.by), &prices.table);
    let largest = table.largest().iter();
    let largest: Vec<_> = largest
        .map(|(name, price)| format!("{name} {price}"))
        .collect();
    let others = match table.others() {
        Others::Refused => "requests with other values are refused",
        Others::Dearest => "other values have the dearest prices",
        Others::Row(_) => "`*` has the prices of other values",
    };
    let rows = table.len();
    let s = if rows == 1 { "" } else { "s" };
    format!(
        "prices in {rows} row{s}, by {by}; the dearest: {}; {others}",
        largest.join(", ")
    )
}

/// Says which answers count.
pub fn counted_answers(answers: &CountedAnswers) -> String {
    let ranges = |ranges: &[_]| ranges.iter().map(display::status_range).collect::<Vec<_>>();
    let mut texts = Vec::new();
    if !answers.count_status.is_empty() {
        let statuses = ranges(&answers.count_status).join(", ");
        texts.push(format!("only responses with status {statuses} count"));
    }
    let mut refunds = ranges(&answers.refund_status);
    let faults = [
        (answers.refund_connect, "connect"),
        (answers.refund_timeout, "timeout"),
    ];
    let faults = faults.into_iter().filter(|(is_refunded, _)| *is_refunded);
    refunds.extend(faults.map(|(_, fault)| fault.to_owned()));
    if !refunds.is_empty() {
        texts.push(format!("{} refund the charge", refunds.join(", ")));
    }
    texts.join("; ")
}

/// Suggests what would serve better than a policy's quotas, if anything would.
///
/// A sliding log needs an entry per unit; a sliding window a counter per bucket, and one for the leaving bucket.
pub fn advice(quotas: &[Quota]) -> Vec<String> {
    let is_small = |quota: &Quota| match quota.algorithm {
        Algorithm::SlidingWindow { buckets, .. } => quota.limit <= u64::from(buckets) + 1,
        _ => false,
    };
    let is_all_small = !quotas.is_empty() && quotas.iter().all(is_small);
    if is_all_small {
        let laws = quotas.iter().map(|quota| {
            let window = display::span(quota.window);
            format!("{} in any {window}", quota.limit)
        });
        let laws = laws.collect::<Vec<_>>().join(", ");
        return vec![format!(
            "`algorithm = \"sliding-log\"` is exact and costs no more here: at most {laws}"
        )];
    }
    let needs_whole = |quota: &&Quota| {
        let is_weighted = matches!(
            quota.algorithm,
            Algorithm::SlidingWindow {
                oldest: OldestBucket::Weighted,
                ..
            }
        );
        is_weighted && quota.window >= LONG
    };
    let needing = quotas.iter().filter(needs_whole);
    let needing = needing.map(|quota| {
        let (limit, window) = (quota.limit, display::span(quota.window));
        format!("{limit} in any {window} needs `oldest_bucket = \"whole\"`, or `algorithm = \"sliding-log\"`")
    });
    needing.collect()
}

/// Windows at least this long often mirror the quota of an API behind the gateway, where every excess costs money.
const LONG: Micros = Micros::from_secs(3600);

fn law(quota: &Quota) -> String {
    let limit = quota.limit;
    let window = display::span(quota.window);
    let interval_us = || quota.interval_us();
    let interval = |units: u64| display::span(Micros(units.saturating_mul(interval_us())));
    match quota.algorithm {
        Algorithm::FixedWindow => fixed_window(quota),
        Algorithm::Calendar(calendar) => calendar_window(limit, calendar.shape()),
        Algorithm::SlidingWindow { buckets, oldest } => sliding_window(quota, buckets, oldest),
        Algorithm::SlidingLog => format!("exact: at most {limit} in any {window}"),
        Algorithm::Penalty { length, growth } => penalty(length, growth),
        Algorithm::InFlight => {
            format!(
                "at most {limit} are held at once; each request holds its cost until it is answered"
            )
        }
        Algorithm::Credits { initial } => format!(
            "a balance that no time refills: {initial} at first, more by `tollgate keys grant`"
        ),
        Algorithm::Gcra { burst } => {
            let most = burst.saturating_add(quota.window.0 / interval_us());
            let interval = interval(1);
            format!("at most {burst} at once, then 1 per {interval}; {most} in any {window}")
        }
        Algorithm::LeakyBucket { queue: 0 } => {
            let interval = interval(1);
            format!("1 per {interval}; none wait, requests that come sooner are refused")
        }
        Algorithm::LeakyBucket { queue } => {
            let (interval, longest) = (interval(1), interval(queue));
            format!(
                "1 per {interval}, evenly; at most {queue} wait, for up to {longest}, further ones are refused"
            )
        }
    }
}

fn penalty(length: Micros, growth: u32) -> String {
    let most = display::span(length.max(Micros::from_secs(86_400)));
    let length = display::span(length);
    let first = format!("a client that is refused stays refused for {length}");
    match growth {
        1 => first,
        _ => format!(
            "{first}, and {growth} times longer if that was within a day after the last time, at most for {most}"
        ),
    }
}

fn fixed_window(quota: &Quota) -> String {
    let limit = quota.limit;
    let window = display::span(quota.window);
    let double = limit.saturating_mul(2);
    let each = match quota.align {
        Align::First => format!("each {window} that a client's first request begins"),
        Align::Epoch | Align::Spread => format!("each aligned {window}"),
    };
    format!("at most {limit} in {each}, {double} in any {window}")
}

fn calendar_window(limit: u64, shape: &CalendarShape) -> String {
    let CalendarShape {
        unit,
        time_zone,
        anchor_day,
        anchor_minute,
        is_own,
    } = shape;
    let day = match (unit, is_own) {
        (CalendarUnit::Day, _) => String::new(),
        (_, true) => " on each client's own day".to_owned(),
        (CalendarUnit::Week, false) => {
            format!(" on {}", display::anchor_day(&AnchorDay::Week(*anchor_day)))
        }

        (CalendarUnit::Month, false) => match anchor_day {
            1..=28 => format!(" on day {anchor_day}"),
            _ => format!(" on day {anchor_day} or the month's last"),
        },
    };
    let (unit, time) = (unit.name(), display::anchor_time(anchor_minute));
    format!("at most {limit} in each {unit} that begins{day} at {time} in {time_zone}")
}

fn sliding_window(quota: &Quota, buckets: u32, oldest: OldestBucket) -> String {
    let limit = quota.limit;
    let window = display::span(quota.window);
    let bucket_us = quota.window.0 / u64::from(buckets);
    let double = limit.saturating_mul(2);
    let inner = display::span(Micros(quota.window.0 - bucket_us));
    match (oldest, buckets) {
        (OldestBucket::Whole, _) => {
            let paced = display::span(Micros(quota.window.0 + bucket_us));
            format!("at most {limit} in any {window}; a steady client gets {limit} per {paced}")
        }
        (OldestBucket::Weighted, 1) => {
            format!("at most {double} in any {window}; a steady client gets {limit}")
        }
        (OldestBucket::Weighted, _) => format!(
            "at most {limit} in any {inner}, {double} in any {window}; a steady client gets {limit}"
        ),
        (OldestBucket::Dropped, 1) => fixed_window(quota),
        (OldestBucket::Dropped, _) => {
            format!("at most {limit} in any {inner}, {double} in any {window}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(limit: u64, window_s: u64, algorithm: Algorithm) -> Quota {
        Quota::of(algorithm, limit, Micros(window_s * 1_000_000))
    }

    fn sliding(buckets: u32, oldest: OldestBucket) -> Algorithm {
        Algorithm::SlidingWindow { buckets, oldest }
    }

    #[test]
    fn what_serves_better_is_advised() {
        let small = quota(11, 60, sliding(10, OldestBucket::Weighted));
        let large = quota(12, 3600, sliding(10, OldestBucket::Weighted));
        let log = "`algorithm = \"sliding-log\"` is exact and costs no more here: at most 5 in any 10s, 11 in any 60s";
        let whole =
            "12 in any 1h needs `oldest_bucket = \"whole\"`, or `algorithm = \"sliding-log\"`";
        for (quotas, expected) in [
            (vec![quota(5, 10, small.algorithm), small], vec![log]),
            (vec![small, large], vec![whole]),
            (vec![quota(12, 3599, large.algorithm)], vec![]),
            (
                vec![quota(12, 3600, sliding(10, OldestBucket::Whole))],
                vec![],
            ),
            (vec![quota(5, 60, Algorithm::FixedWindow)], vec![]),
        ] {
            assert_eq!(advice(&quotas), expected);
        }
    }
}
