//! What a request costs, and which answers count.

use std::time::Duration;

use http::{HeaderName, StatusCode};

use super::{Wrong, header_name};
use crate::clock::Micros;
use crate::limit::quota::COST_MAX;
use crate::snapshot::{CostSource, Jitter, StatusRange};

/// `cost`, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostText {
    /// A number.
    Units(u64),
    /// `request-header:NAME` or `response-header:NAME`.
    Told(CostSource, HeaderName),
}

/// An item of `refund_on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundOn {
    /// A status or a class.
    Status(StatusRange),
    /// `connect`
    Connect,
    /// `timeout`
    Timeout,
}

impl Default for CostText {
    fn default() -> Self {
        Self::Units(1)
    }
}

/// Parses `cost`.
pub fn cost(text: &str) -> Result<CostText, Wrong> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let units = text.parse().ok().filter(|units| *units <= COST_MAX);
        let out_of_range =
            || Wrong::new("is out of range", format!("a number from 0 to {COST_MAX}"));
        return units.map(CostText::Units).ok_or_else(out_of_range);
    }
    let wrong = || Wrong::new("is not a cost", COSTS);
    let (source, name) = text.split_once(':').ok_or_else(wrong)?;
    let source = match source.trim() {
        "request-header" => CostSource::Request,
        "response-header" => CostSource::Response,
        "response-json" | "request-json" => return Err(Wrong::to_come(COSTS)),
        "header" => {
            let hint =
                "`request-header:NAME` is the client's word, `response-header:NAME` the upstream's";
            return Err(wrong().hint(hint));
        }
        other => {
            let known = ["request-header", "response-header"];
            return Err(wrong().maybe_hint(super::did_you_mean(other, known)));
        }
    };
    Ok(CostText::Told(source, header_name(name.trim())?))
}

/// Parses an item of `count_status`: `401`, or a class such as `4xx`.
pub fn status_range(text: &str) -> Result<StatusRange, Wrong> {
    let wrong = || {
        Wrong::new(
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
    // An answer's head has none below 200.
    let status = text
        .parse::<u16>()
        .ok()
        .filter(|status| (200..=599).contains(status));
    let first = status.ok_or_else(wrong)?;
    Ok(StatusRange { first, last: first })
}

/// Parses an item of `refund_on`.
pub fn refund_on(text: &str) -> Result<RefundOn, Wrong> {
    match text {
        "connect" => Ok(RefundOn::Connect),
        "timeout" => Ok(RefundOn::Timeout),
        _ => status_range(text).map(RefundOn::Status).map_err(|_| {
            let expected = "a status such as `503`, a class such as `5xx`, `connect` or `timeout`";
            let wrong = Wrong::new("is no reason to give a charge back", expected);
            wrong.maybe_hint(super::did_you_mean(text, ["connect", "timeout"]))
        }),
    }
}

/// Parses the status of a policy's own refusals.
pub fn refusal_status(text: &str) -> Result<StatusCode, Wrong> {
    let status = text
        .parse::<u16>()
        .ok()
        .filter(|status| (400..=599).contains(status));
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    status.ok_or_else(|| Wrong::new("is not the status of a refusal", "a status from 400 to 599"))
}

/// Parses `retry_jitter`: a duration, or a percentage of the wait.
pub fn retry_jitter(text: &str) -> Result<Jitter, Wrong> {
    let expected = "a duration such as `5s`, or up to `100%` of the wait";
    if let Some(percent) = text.trim().strip_suffix('%') {
        let percent = percent
            .trim()
            .parse()
            .ok()
            .filter(|percent| *percent <= 100);
        let wrong = || Wrong::new("is not a share of the wait", expected);
        return percent.map(Jitter::Percent).ok_or_else(wrong);
    }
    match super::duration(text) {
        Ok(time) if time <= JITTER_MAX => {
            let us = u64::try_from(time.as_micros()).expect("a day fits");
            Ok(Jitter::Time(Micros(us)))
        }
        Ok(_) => Err(Wrong::new("is out of range", "at most `24h`")),
        Err(wrong) => Err(Wrong::new(wrong.problem, expected).maybe_hint(wrong.hint)),
    }
}

const COSTS: &str = "a number, `request-header:NAME` or `response-header:NAME`";
const JITTER_MAX: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_number_or_the_field_that_tells_it() {
        let told = |source, name| Ok(CostText::Told(source, HeaderName::from_static(name)));
        for (text, parsed) in [
            ("0", Ok(CostText::Units(0))),
            ("2147483648", Ok(CostText::Units(1 << 31))),
            ("request-header:X-Cost", told(CostSource::Request, "x-cost")),
            (
                "response-header: x-cost",
                told(CostSource::Response, "x-cost"),
            ),
            ("2147483649", Err("is out of range")),
            ("-1", Err("is not a cost")),
            ("header:x-cost", Err("is not a cost")),
            ("response-header:", Err("is not a header's name")),
            ("response-json:/usage", Err("is not available yet")),
        ] {
            assert_eq!(cost(text).map_err(|wrong| wrong.problem), parsed, "{text}");
        }
        let hint = cost("response-headr:x").expect_err("misspelt").hint;
        assert_eq!(hint.as_deref(), Some("did you mean `response-header`?"));
    }

    #[test]
    fn statuses_are_codes_and_classes() {
        let range = |first, last| StatusRange { first, last };
        for (text, parsed) in [
            ("401", Some(range(401, 401))),
            ("5xx", Some(range(500, 599))),
            ("1xx", None),
            ("6xx", None),
            ("100", None),
            ("600", None),
            ("xx", None),
            ("ok", None),
        ] {
            assert_eq!(status_range(text).ok(), parsed, "{text}");
        }
        assert_eq!(refund_on("connect"), Ok(RefundOn::Connect));
        let hint = refund_on("timeouts").expect_err("misspelt").hint;
        assert_eq!(hint.as_deref(), Some("did you mean `timeout`?"));
        assert!(refusal_status("503").is_ok() && refusal_status("200").is_err());
    }

    #[test]
    fn jitter_is_a_time_or_a_share_of_the_wait() {
        let seconds = |secs| Jitter::Time(Micros::from_secs(secs));
        for (text, parsed) in [
            ("0s", Some(seconds(0))),
            ("5s", Some(seconds(5))),
            ("10%", Some(Jitter::Percent(10))),
            ("101%", None),
            ("-1%", None),
            ("25h", None),
            ("5", None),
        ] {
            assert_eq!(retry_jitter(text).ok(), parsed, "{text}");
        }
    }
}
