//! What a request costs, and which answers count.

use std::time::Duration;

use http::{HeaderName, StatusCode};

use super::{ValueError, header_name};
use crate::clock::Micros;
use crate::cost::{Amount, BadWeight, Decimal, JsonPointer, NumberSource, Sum, Term, Weight};
use crate::limit::quota::COST_MAX;
use crate::snapshot::{CostSource, Jitter, StatusRange};

/// `cost`, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostText {
    /// A number of units.
    Units(u64),
    /// `request-header:NAME` or `response-header:NAME`.
    Reported(CostSource, HeaderName),
    /// Terms of `response-json:POINTER`.
    Body(Sum<NumberSource>),
}

/// The sources that a key accepts for a reported number.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    /// Words that the sources begin with, such as `response-json`.
    pub words: &'static [&'static str],
    /// What the key accepts, in words for error messages.
    pub expected: &'static str,
}

/// An item of `refund_on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundOn {
    /// A status or a class.
    Status(StatusRange),
    /// `connect`
    Connect,
    /// `timeout`
    Timeout,
    /// Members of an answer's body, each of which means that the answer failed.
    Members(Vec<NumberSource>),
}

impl Default for CostText {
    fn default() -> Self {
        Self::Units(1)
    }
}

/// Parses `cost`.
pub fn cost(text: &str) -> Result<CostText, ValueError> {
    let text = text.trim();
    if is_number(text) {
        return units(text).map(CostText::Units);
    }
    let wrong = || ValueError::new("is not a cost", COSTS);
    let (source, name) = text.split_once(':').ok_or_else(wrong)?;
    let source = match source.trim() {
        "request-header" => CostSource::Request,
        "response-header" => CostSource::Response,
        "response-json" => {
            return sources(text, COST_SOURCES)
                .map(one_term)
                .map(CostText::Body);
        }
        "request-json" => {
            let hint =
                "what the request declares can only be a `reserve`; `cost` comes from the response";
            return Err(wrong().hint(hint));
        }
        "header" => {
            let hint = "`request-header:NAME` is set by the client, `response-header:NAME` by the upstream";
            return Err(wrong().hint(hint));
        }
        other => {
            let known = ["request-header", "response-header", "response-json"];
            return Err(wrong().maybe_hint(super::did_you_mean(other, known)));
        }
    };
    Ok(CostText::Reported(source, header_name(name.trim())?))
}

/// Parses a number of units, or a source, which becomes the only term of a sum.
pub fn amount(text: &str, allowed: Sources) -> Result<Amount<NumberSource>, ValueError> {
    let text = text.trim();
    if is_number(text) {
        return units(text).map(Amount::Units);
    }
    sources(text, allowed).map(one_term).map(Amount::Reported)
}

/// Parses the sources of a term: `request-bytes`, or `response-json:/a | /b`, of which the largest counts.
pub fn sources(text: &str, allowed: Sources) -> Result<Vec<NumberSource>, ValueError> {
    let wrong = || ValueError::new("is not a source of a cost here", allowed.expected);
    let (word, pointers) = match text.trim().split_once(':') {
        Some((word, pointers)) => (word.trim_end(), Some(pointers)),
        None => (text.trim(), None),
    };
    if !allowed.words.contains(&word) {
        let known = allowed.words.iter().copied();
        return Err(wrong().maybe_hint(super::did_you_mean(word, known)));
    }
    let make = match (word, pointers) {
        ("request-bytes", None) => return Ok(vec![NumberSource::RequestBytes]),
        ("response-bytes", None) => return Ok(vec![NumberSource::ResponseBytes]),
        ("request-json", Some(_)) => NumberSource::RequestJson,
        ("response-json", Some(_)) => NumberSource::ResponseJson,
        _ => return Err(wrong()),
    };
    let pointers = pointers.unwrap_or_default().split('|').map(|pointer| {
        let wrong = |why: crate::cost::BadPointer| {
            let expected = "JSON Pointers such as `/usage/total_tokens`";
            ValueError::new("has a wrong JSON Pointer", expected).hint(why.to_string())
        };
        JsonPointer::parse(pointer.trim()).map(make).map_err(wrong)
    });
    pointers.collect()
}

/// JSON Schema pattern that every allowed source matches.
pub fn sources_pattern(allowed: Sources) -> String {
    format!(r"^\s*({})\s*(:|$)", allowed.words.join("|"))
}

/// Makes a sum of one term.
fn one_term(sources: Vec<NumberSource>) -> Sum<NumberSource> {
    let term = Term {
        sources,
        ..Term::default()
    };
    Sum { terms: vec![term] }
}

/// Parses `times`.
pub fn weight(text: &str) -> Result<Weight, ValueError> {
    let problem = |bad| match bad {
        BadWeight::NotANumber => "is not a decimal number",
        BadWeight::TooLarge => "is out of range",
        BadWeight::TooManyDecimals => "has too many decimals",
    };
    Weight::parse(text).map_err(|bad| ValueError::new(problem(bad), WEIGHTS))
}

/// Parses `price`.
pub fn price_name(text: &str) -> Result<Box<str>, ValueError> {
    super::name(text).map(Box::from)
}

/// Parses a row of `prices` that is not a table: the word `dearest`.
pub fn dearest(text: &str) -> Result<(), ValueError> {
    let wrong = || {
        let expected = "a table such as `{ input = 1.25 }`, or `dearest`";
        ValueError::new("is no price", expected).maybe_hint(super::did_you_mean(text, ["dearest"]))
    };
    (text == "dearest").then_some(()).ok_or_else(wrong)
}

/// Parses `or`.
pub fn reported_number(text: &str) -> Result<Decimal, ValueError> {
    match Decimal::parse(text.as_bytes()) {
        Some((false, number)) => Ok(number),
        Some((true, _)) => Err(ValueError::new("is negative", REPORTED_NUMBERS)),
        None => Err(ValueError::new("is not a decimal number", REPORTED_NUMBERS)),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn units(text: &str) -> Result<u64, ValueError> {
    let units = text.parse().ok().filter(|units| *units <= COST_MAX);
    let out_of_range =
        || ValueError::new("is out of range", format!("a number from 0 to {COST_MAX}"));
    units.ok_or_else(out_of_range)
}

/// Parses an item of `count_status`: `401`, or a class such as `4xx`.
pub fn status_range(text: &str) -> Result<StatusRange, ValueError> {
    let wrong = || {
        ValueError::new(
            "is not a status",
            "a status such as `401`, or a class such as `4xx`",
        )
    };
    let class = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX"));
    if let Some(class) = class {
        let class = class
            .parse::<u16>()
            .ok()
            .filter(|class| (2..=5).contains(class));
        let first = class.ok_or_else(wrong)? * 100;
        return Ok(StatusRange {
            first,
            last: first + 99,
        });
    }
    // A final answer never has a status below 200.
    let status = text
        .parse::<u16>()
        .ok()
        .filter(|status| (200..=599).contains(status));
    let first = status.ok_or_else(wrong)?;
    Ok(StatusRange { first, last: first })
}

/// JSON Schema pattern that every item of `count_status` matches.
pub const STATUS_PATTERN: &str = "^[2-5]([0-9][0-9]|xx|XX)$";

/// Parses an item of `refund_on`.
pub fn refund_on(text: &str) -> Result<RefundOn, ValueError> {
    match text {
        "connect" => Ok(RefundOn::Connect),
        "timeout" => Ok(RefundOn::Timeout),
        _ if text.contains(':') => sources(text, REFUND_SOURCES).map(RefundOn::Members),
        _ => status_range(text).map(RefundOn::Status).map_err(|_| {
            let expected = "a status such as `503`, a class such as `5xx`, `connect`, `timeout` or \
                            `response-json:POINTER`";
            let wrong = ValueError::new("is not a reason for a refund", expected);
            wrong.maybe_hint(super::did_you_mean(text, ["connect", "timeout"]))
        }),
    }
}

/// Parses the status of a policy's own refusals.
pub fn refusal_status(text: &str) -> Result<StatusCode, ValueError> {
    let status = text
        .parse::<u16>()
        .ok()
        .filter(|status| (400..=599).contains(status));
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    status.ok_or_else(|| {
        ValueError::new("is not the status of a refusal", "a status from 400 to 599")
    })
}

/// Parses `retry_jitter`: a duration, or a percentage of the wait.
pub fn retry_jitter(text: &str) -> Result<Jitter, ValueError> {
    let expected = "a duration such as `5s`, or up to `100%` of the wait";
    if let Some(percent) = text.trim().strip_suffix('%') {
        let percent = percent
            .trim()
            .parse()
            .ok()
            .filter(|percent| *percent <= 100);
        let wrong = || ValueError::new("is not a share of the wait", expected);
        return percent.map(Jitter::Percent).ok_or_else(wrong);
    }
    match super::duration(text) {
        Ok(time) if time <= JITTER_MAX => {
            let us = u64::try_from(time.as_micros()).expect("a day fits");
            Ok(Jitter::Time(Micros(us)))
        }
        Ok(_) => Err(ValueError::new("is out of range", "at most `24h`")),
        Err(wrong) => Err(ValueError::new(wrong.problem, expected).maybe_hint(wrong.hint)),
    }
}

const COSTS: &str =
    "a number, `request-header:NAME`, `response-header:NAME` or `response-json:POINTER`";

/// Sources of a `cost` in a body.
pub const COST_SOURCES: Sources = Sources {
    words: &["response-json"],
    expected: "`response-json:POINTER`",
};

/// Sources that tell that an answer failed.
const REFUND_SOURCES: Sources = Sources {
    expected: "a status, a class, `connect`, `timeout` or `response-json:POINTER`",
    ..COST_SOURCES
};

/// Sources of a `reserve`.
pub const RESERVE_SOURCES: Sources = Sources {
    words: &["request-json", "request-bytes"],
    expected: "a number, `request-json:POINTER` or `request-bytes`",
};

/// Sources of the text that selects prices.
pub const PRICED_SOURCES: Sources = Sources {
    words: &["request-json"],
    expected: "`request-json:POINTER`",
};

/// Sources of a `cost_unknown`.
pub const UNKNOWN_SOURCES: Sources = Sources {
    words: &["request-json", "request-bytes", "response-bytes"],
    expected: "a number, `request-json:POINTER`, `request-bytes` or `response-bytes`",
};

/// What `times` accepts, in words for error messages.
pub const WEIGHTS: &str = "a number from -1000000000 to 1000000000 with at most 9 decimals";

/// What `or` accepts, in words for error messages.
pub const REPORTED_NUMBERS: &str = "a number that is not negative";
const JITTER_MAX: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests;
