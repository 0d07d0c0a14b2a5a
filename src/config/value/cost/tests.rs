//! What is read as a cost, and what is not.

use super::*;

#[test]
fn a_cost_is_a_number_or_the_field_that_tells_it() {
    let reported = |source, name| Ok(CostText::Reported(source, HeaderName::from_static(name)));
    for (text, parsed) in [
        ("0", Ok(CostText::Units(0))),
        ("2147483648", Ok(CostText::Units(1 << 31))),
        (
            "request-header:X-Cost",
            reported(CostSource::Request, "x-cost"),
        ),
        (
            "response-header: x-cost",
            reported(CostSource::Response, "x-cost"),
        ),
        ("2147483649", Err("is out of range")),
        ("-1", Err("is not a cost")),
        ("header:x-cost", Err("is not a cost")),
        ("response-header:", Err("is not a header's name")),
        ("request-json:/max_tokens", Err("is not a cost")),
        ("response-json:usage", Err("has a wrong JSON Pointer")),
        ("response-bytes", Err("is not a cost")),
    ] {
        assert_eq!(cost(text).map_err(|wrong| wrong.problem), parsed, "{text}");
    }
    let hint = cost("response-headr:x").expect_err("misspelt").hint;
    assert_eq!(hint.as_deref(), Some("did you mean `response-header`?"));
}

#[test]
fn a_term_is_told_at_pointers_or_by_a_length() {
    let of = |allowed, text| sources(text, allowed).map_err(|wrong| wrong.problem);
    let pointer = |text| JsonPointer::parse(text).expect("a pointer");
    let both =
        ["/usage/total_tokens", "/a~1b"].map(|value| NumberSource::ResponseJson(pointer(value)));
    let found = of(COST_SOURCES, "response-json:/usage/total_tokens | /a~1b");
    assert_eq!(found, Ok(both.to_vec()));
    let not_here = Err("is not a source of a cost here");
    for (allowed, text, found) in [
        (
            RESERVE_SOURCES,
            "request-bytes",
            Ok(vec![NumberSource::RequestBytes]),
        ),
        (
            UNKNOWN_SOURCES,
            "response-bytes",
            Ok(vec![NumberSource::ResponseBytes]),
        ),
        (RESERVE_SOURCES, "response-bytes", not_here.clone()),
        (RESERVE_SOURCES, "request-json", not_here.clone()),
        (RESERVE_SOURCES, "request-bytes:/a", not_here.clone()),
        (COST_SOURCES, "request-json:/a", not_here),
        (
            RESERVE_SOURCES,
            "request-json:/a | b",
            Err("has a wrong JSON Pointer"),
        ),
    ] {
        assert_eq!(of(allowed, text), found, "{text}");
    }
    let hint = sources("request-jsn:/a", RESERVE_SOURCES)
        .expect_err("misspelt")
        .hint;
    assert_eq!(hint.as_deref(), Some("did you mean `request-json`?"));
}

#[test]
fn weights_are_decimals_and_what_stands_for_a_number_is_not_negative() {
    for (text, problem) in [
        ("3", None),
        ("-0.25", None),
        ("1e-9", None),
        ("1e10", Some("is out of range")),
        ("+1", Some("is not a decimal number")),
        ("0x10", Some("is not a decimal number")),
        ("inf", Some("is not a decimal number")),
    ] {
        let wrong = weight(text).err().map(|wrong| wrong.problem);
        assert_eq!(wrong, problem, "{text}");
    }
    assert_eq!(
        reported_number("12.5").map(|number| number.to_string()),
        Ok("12.5".to_owned())
    );
    assert!(reported_number("-1").is_err() && reported_number("nan").is_err());
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
    let member = |text| NumberSource::ResponseJson(JsonPointer::parse(text).expect("a pointer"));
    assert_eq!(
        refund_on("response-json:/error | /response/error"),
        Ok(RefundOn::Members(vec![
            member("/error"),
            member("/response/error")
        ]))
    );
    assert!(refund_on("request-json:/error").is_err());
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
