//! What requests cost, which answers count, and how a policy refuses.

use http::HeaderValue;

use super::prices;
use crate::config::file::{RawPolicy, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::config::value::{CostText, RefundOn};
use crate::cost::{Amount, BodyCost, NumberSource};
use crate::snapshot::{CountedAnswers, HeaderCost, RefusalPage, RefusalStyle, ReportedCost};

/// Compiles a cost that a header or a body reports, or returns `None` if `cost` is a number.
pub(super) fn reported_cost(table: &Table<RawPolicy>, report: &mut Report) -> Option<ReportedCost> {
    check_keys(table, report);
    let policy = &table.value;
    let (least, most) = bounds_unless_said(&policy.cost)?;
    let (least, most) = (
        policy.min_cost.unwrap_or(least),
        policy.max_cost.unwrap_or(most),
    );
    let units = |amount: &Amount<NumberSource>| match amount {
        Amount::Units(units) => Some(*units),
        Amount::Reported(_) => None,
    };
    let unknown = policy.cost_unknown.as_ref();
    for (key, units) in [
        ("min_cost", Some(least)),
        ("reserve", units(&policy.reserve)),
        ("reserve_default", policy.reserve_default),
        ("cost_unknown", unknown.and_then(units)),
    ] {
        let places = [table.place(key), table.place("max_cost")];
        if let Some(units) = units.filter(|units| *units > most)
            && let Some(place) = places.into_iter().flatten().next()
        {
            let message = format!("`{key}` of {units} is more than `max_cost` of {most}");
            report.mistake(place, message, format!("at most {most}"));
        }
    }
    let bounds = least.min(most)..=most;
    let members = policy
        .refund_on
        .iter()
        .filter_map(|refund| match &refund.value {
            RefundOn::Members(members) => Some(members.iter().cloned()),
            _ => None,
        });
    match &policy.cost {
        CostText::Units(_) => None,
        CostText::Reported(source, header) => Some(ReportedCost::Header(HeaderCost {
            source: *source,
            header: header.clone(),
            reserve: units(&policy.reserve).unwrap_or_default(),
            bounds,
        })),
        CostText::Body(sum) => Some(ReportedCost::Body(BodyCost {
            cost: sum.clone(),
            bounds,
            reserve: policy.reserve.clone(),
            reserve_default: policy.reserve_default.unwrap_or_default(),
            max_reserve_body: policy.max_reserve_body,
            unknown: policy.cost_unknown.clone(),
            refund_on: members.flatten().collect(),
            prices: prices::compile(table, report),
        })),
    }
}

/// Returns the default `min_cost` and `max_cost` of a reported cost, or `None` if `cost` is a number.
fn bounds_unless_said(cost: &CostText) -> Option<(u64, u64)> {
    match cost {
        CostText::Units(_) => None,
        CostText::Reported(..) => Some((1, 1000)),
        CostText::Body(_) => Some((0, 10_000_000)),
    }
}

/// Refuses keys that the policy's `cost` or `reserve` has no use for, and empty lists of terms.
fn check_keys(table: &Table<RawPolicy>, report: &mut Report) {
    if table.is_incomplete(POLICY.about.title) {
        return;
    }
    let policy = &table.value;
    for (key, sum) in prices::reported_sums(policy) {
        if sum.is_some_and(|sum| sum.terms.is_empty()) {
            let message = format!("the list of terms of `{key}` is empty");
            let hint = "add `{ from = … }`, or write a number";
            refuse((table, key), message, "at least one term", hint, report);
        }
    }
    let keys = ["reserve", "min_cost", "max_cost"];
    let of_bodies = [
        "reserve_default",
        "max_reserve_body",
        "cost_unknown",
        "cost_by",
        "prices",
    ];
    match &policy.cost {
        CostText::Units(_) => {
            for key in keys.into_iter().chain(of_bodies) {
                let message = format!("`{key}` does not go with a `cost` that is a number");
                let hint = "remove it, or set `cost = \"response-header:NAME\"`";
                let expected = "a key for costs from a header or a body";
                refuse((table, key), message, expected, hint, report);
            }
        }
        CostText::Reported(..) => {
            let hint = "remove it, or set `cost = \"response-json:POINTER\"`";
            for key in of_bodies {
                let message = format!("`{key}` does not go with a `cost` from a header");
                let expected = "a key for costs from a body";
                refuse((table, key), message, expected, hint, report);
            }
            if policy.reserve.reported().is_some() {
                let message = "a `reserve` from a body does not go with a `cost` from a header";
                refuse(
                    (table, "reserve"),
                    message.to_owned(),
                    "a number",
                    hint,
                    report,
                );
            }
        }
        CostText::Body(_) => check_reserve(table, report),
    }
}

/// Refuses a reserve without its default, and keys that do not go with a reserve that is a number.
fn check_reserve(table: &Table<RawPolicy>, report: &mut Report) {
    let policy = &table.value;
    if policy.cost_by.is_some() && policy.reserve_default.is_none() {
        let message = "`cost_by` needs a `reserve_default`".to_owned();
        let expected = "a table with `reserve_default`";
        let hint = "add `reserve_default = 4000000`: the reserve if the body cannot be read";
        refuse((table, "cost_by"), message, expected, hint, report);
        return;
    }
    if policy.cost_by.is_some() {
        return;
    }
    if policy.reserve.reported().is_some() {
        if policy.reserve_default.is_none() {
            let message = "a `reserve` from a body needs a `reserve_default`".to_owned();
            let expected = "a table with `reserve_default`";
            let hint = "add `reserve_default = 4096`: the reserve if the body does not declare one";
            refuse((table, "reserve"), message, expected, hint, report);
        }
        return;
    }
    for key in ["reserve_default", "max_reserve_body"] {
        let message = format!("`{key}` does not go with a `reserve` that is a number");
        let expected = "a key for reserves from a body";
        let hint = "remove it, or set `reserve = \"request-json:POINTER\"`";
        refuse((table, key), message, expected, hint, report);
    }
    let of_requests = |source: &NumberSource| {
        matches!(
            source,
            NumberSource::RequestJson(_) | NumberSource::RequestBytes
        )
    };
    let unknown = policy.cost_unknown.as_ref().and_then(Amount::reported);
    if unknown.is_some_and(|sum| sum.sources().any(of_requests)) {
        let message = "`cost_unknown` reads requests, but `reserve` does not".to_owned();
        let expected = "a number or `response-bytes`";
        let hint = "requests are read only if `reserve` is made of terms, or for `cost_by`";
        refuse((table, "cost_unknown"), message, expected, hint, report);
    }
}

/// Reports a mistake at a key, if the file has it.
fn refuse(
    (table, key): (&Table<RawPolicy>, &str),
    message: String,
    expected: &str,
    hint: &str,
    report: &mut Report,
) {
    if let Some(place) = table.place(key) {
        report.mistake(place, message, expected).hint(hint);
    }
}

/// Compiles `count_status` and `refund_on`, or returns `None` if all answers count.
pub(super) fn counted_answers(
    table: &Table<RawPolicy>,
    report: &mut Report,
) -> Option<Box<CountedAnswers>> {
    let policy = &table.value;
    if let Some(place) = table.place("count_status")
        && policy.count_status.is_empty()
        && !table.is_incomplete(POLICY.about.title)
    {
        let message = "the list of statuses is empty, so nothing would count";
        report.mistake(place, message, "at least one status");
    }
    let mut answers = CountedAnswers {
        count_status: policy.count_status.iter().map(|at| at.value).collect(),
        ..CountedAnswers::default()
    };
    for refund in &policy.refund_on {
        match &refund.value {
            RefundOn::Status(range) => answers.refund_status.push(*range),
            RefundOn::Connect => answers.refund_connect = true,
            RefundOn::Timeout => answers.refund_timeout = true,
            RefundOn::Members(_)
                if matches!(policy.cost, CostText::Body(_))
                    || table.is_incomplete(POLICY.about.title) => {}
            RefundOn::Members(_) => {
                let message = "`refund_on` reads a response whose body does not tell the `cost`";
                (report.mistake(
                    &refund.span,
                    message,
                    "a status, a class, `connect` or `timeout`",
                ))
                .hint("remove it, or set `cost = \"response-json:POINTER\"`");
            }
        }
    }
    (answers != CountedAnswers::default()).then(|| Box::new(answers))
}

/// Compiles `[policies.NAME.refusal]`.
pub(super) fn refusal(table: &Table<RawPolicy>, report: &mut Report) -> RefusalStyle {
    let policy = &table.value;
    if let Some(place) = table.place("refusal.content_type")
        && policy.refusal_body.is_none()
        && !table.is_incomplete("[policies.NAME.refusal]")
    {
        let message = "`content_type` without a `body`";
        (report.mistake(place, message, "a `body` as well"))
            .hint("without a `body`, a refusal is application/problem+json");
    }
    let page = policy.refusal_body.as_ref().map(|body| {
        let content_type = policy.refusal_content_type.clone();
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        RefusalPage::new(body, content_type.unwrap_or(plain))
    });
    RefusalStyle {
        page,
        ..policy.policy.refusal.clone()
    }
}
