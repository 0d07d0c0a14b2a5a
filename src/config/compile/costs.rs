//! What requests cost, which answers count, and how a policy refuses.

use bytes::Bytes;
use http::HeaderValue;

use crate::config::file::{RawPolicy, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::config::value::{CostText, RefundOn};
use crate::snapshot::{CountedAnswers, RefusalPage, RefusalStyle, ToldCost};

/// Compiles a cost that somebody tells; none if the file says a number.
pub(super) fn told_cost(table: &Table<RawPolicy>, report: &mut Report) -> Option<ToldCost> {
    let policy = &table.value;
    let (reserve, least, most) = (policy.reserve, policy.cost_min, policy.cost_max);
    let CostText::Told(source, header) = &policy.cost else {
        if !table.is_incomplete(POLICY.about.title) {
            for key in ["reserve", "cost_min", "cost_max"] {
                let Some(place) = table.place(key) else {
                    continue;
                };
                let message = format!("`{key}` does not go with a `cost` that is a number");
                let expected = "a key of costs that a header tells";
                (report.mistake(place, message, expected))
                    .hint("remove it, or set `cost = \"response-header:NAME\"`");
            }
        }
        return None;
    };
    let mut is_above = |key: &'static str, units: u64| {
        let places = [table.place(key), table.place("cost_max")];
        if units > most
            && let Some(place) = places.into_iter().flatten().next()
        {
            let message = format!("`{key}` of {units} is more than `cost_max` of {most}");
            report.mistake(place, message, format!("at most {most}"));
        }
    };
    is_above("cost_min", least);
    is_above("reserve", reserve);
    Some(ToldCost {
        source: *source,
        header: header.clone(),
        reserve,
        bounds: least.min(most)..=most,
    })
}

/// Compiles `count_status` and `refund_on`.
pub(super) fn counted_answers(table: &Table<RawPolicy>, report: &mut Report) -> CountedAnswers {
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
        match refund.value {
            RefundOn::Status(range) => answers.refund_status.push(range),
            RefundOn::Connect => answers.refund_connect = true,
            RefundOn::Timeout => answers.refund_timeout = true,
        }
    }
    answers
}

/// Compiles `[policies.NAME.refusal]`.
pub(super) fn refusal(table: &Table<RawPolicy>, report: &mut Report) -> RefusalStyle {
    let policy = &table.value;
    if let Some(place) = table.place("refusal.content_type")
        && policy.refusal_body.is_none()
        && !table.is_incomplete("[policies.NAME.refusal]")
    {
        let message = "`content_type` without a `body`";
        (report.mistake(place, message, "a `body` beside it"))
            .hint("without a `body`, a refusal is application/problem+json");
    }
    let page = policy.refusal_body.as_ref().map(|body| RefusalPage {
        body: Bytes::from(body.clone()),
        content_type: (policy.refusal_content_type.clone())
            .unwrap_or(HeaderValue::from_static("text/plain; charset=utf-8")),
    });
    RefusalStyle {
        page,
        ..policy.policy.refusal.clone()
    }
}
