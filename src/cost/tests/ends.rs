//! Members that say that a response failed, and bodies that say that they are complete.

use super::super::BodyFormat::{self, EventStream, Json};
use super::super::MemberPlace::{First, Later};
use super::{compiled, read_all};

fn member(format: BodyFormat, body: &str) -> Option<super::super::MemberPlace> {
    read_all(&compiled("?/error /a"), format, body).member(0)
}

#[test]
fn a_member_is_what_is_not_null_false_or_empty() {
    for (value, is_member) in [
        (r#"{"code":1}"#, true),
        (r#"{ "code":1}"#, true),
        ("[1]", true),
        (r#""no""#, true),
        (r#"" ""#, true),
        (r#""\"""#, true),
        ("true", true),
        ("500", true),
        ("-1.5", true),
        ("0", true),
        ("null", false),
        ("false", false),
        ("NaN", false),
        (r#""""#, false),
        ("{}", false),
        ("{ \n}", false),
        ("[]", false),
        ("[ ]", false),
    ] {
        let body = format!("{{\"b\":{{\"error\":1}},\"error\":{value}}}");
        assert_eq!(member(Json, &body), is_member.then_some(First), "{body}");
        // Pointers that lead further are followed as usual.
        let inside = compiled("?/error /error/code /error/0 ?/error/code");
        let read = read_all(&inside, Json, &body);
        assert!(
            read.is_whole && read.member(0) == is_member.then_some(First),
            "{body}"
        );
        let has_number = read.numbers[1].is_some() || read.numbers[2].is_some();
        assert_eq!(
            has_number,
            value.contains("\"code\":1") || value == "[1]",
            "{body}"
        );
        assert_eq!(
            read.member(3),
            value.contains("code").then_some(First),
            "{body}"
        );
    }
}

#[test]
fn a_member_is_of_the_first_document_or_of_a_later_one() {
    for (format, body, place) in [
        (Json, r#"{"a":1,"error":1}"#, Some(First)),
        (Json, "{\"a\":1}\n{\"error\":1}", Some(Later)),
        (Json, "{\"error\":1}\n{\"error\":1}", Some(First)),
        (Json, r#"[{"error":1}]"#, Some(First)),
        (Json, r#"[ {"a":1}, {"error":1} ]"#, Some(Later)),
        (Json, r#"[[],{"error":1}]"#, Some(Later)),
        (
            EventStream,
            ": ping\n\nevent: error\ndata: {\"error\":\ndata: 1}\n\ndata: [DONE]\n\n",
            Some(First),
        ),
        (
            EventStream,
            "data: {\"a\":1}\n\ndata: {\"error\":1}\n\n",
            Some(Later),
        ),
        (
            EventStream,
            "data: {\"b\":1}\n\ndata: {\"error\":1}\n\n",
            Some(Later),
        ),
        (
            EventStream,
            "data: {\"error\":null}\n\ndata: {\"error\":1}",
            Some(Later),
        ),
        (EventStream, "data: {\"error\":1}", Some(First)),
        (
            EventStream,
            "data: {\"error\":1}\n\ndata: {\"a",
            Some(First),
        ),
        // A document that is cut or broken could have become anything, so its members do not count.
        (EventStream, "data: {\"error\":1", None),
        (EventStream, "data: {\"error\":1 x}\n\n", None),
        (Json, r#"{"error":{"code":1},"#, None),
        (Json, "{\"error\":1}\n\0", None),
        (Json, r#"{"error":1}x"#, None),
        (Json, r#"[{"error":1},"#, None),
    ] {
        assert_eq!(member(format, body), place, "{body}");
    }
    let of_any = read_all(
        &compiled("?/errors/*/code"),
        Json,
        r#"{"errors":[{},{"code":"x"}]}"#,
    );
    assert_eq!(of_any.member(0), Some(First));
}

#[test]
fn a_body_is_closed_by_its_own_grammar() {
    for (format, body, is_closed) in [
        (Json, r#"{"a":1}"#, true),
        (Json, "[1]\r\n", true),
        (Json, r#"{"b":{}}"#, true),
        (Json, "{\"a\":1}\n{\"a\":2}\n", true),
        (Json, "{\"a\":1}\n{\"a\":2", false),
        (Json, r#"{"a":1"#, false),
        (Json, "{\"a\":1}\n2", false),
        (Json, r#"{"a":1}x"#, false),
        (Json, "{\"a\":x}\n{\"a\":2}", false),
        (Json, "12", false),
        (Json, "\"a\"", false),
        (Json, "", false),
        (EventStream, "data: {\"a\":1}\n\ndata: [DONE]\n\n", true),
        (EventStream, "data: {\"a\":1}\n\ndata:[DONE]", true),
        (EventStream, "data: {\"a\":1}\n\ndata: [DONE]\n", true),
        (EventStream, "data:  [DONE] \r\n\r\n", true),
        (EventStream, "data: {\"a\":1}\n\ndata: [DONE", false),
        (EventStream, "data: {\"a\":1}\n\ndata: [DONE]x\n\n", false),
        (
            EventStream,
            "data: {\"a\":1}\n\ndata: x\ndata: [DONE]\n\n",
            false,
        ),
        (EventStream, "data: {\"a\":\"[DONE]\"}\n\n", false),
        (EventStream, ": [DONE]\n\ndata: {\"a\":1}\n\n", false),
        (EventStream, "event: end\ndata: {\"a\":1}\n\n", true),
        (EventStream, "event:end\rdata: {\"a\":1}\r\r", true),
        (EventStream, "data: {\"a\":1}\nevent: end\n\n", true),
        (EventStream, "event: end\n\n", true),
        (EventStream, "event: end\ndata: {\"a\":1}", true),
        (EventStream, "event: end\ndata: {\"a\":1", false),
        (EventStream, "data: {\"a\":1}\n\nevent: end\n", false),
        (EventStream, "data: {\"a\":1}\n\nevent: en", false),
        (EventStream, "event: ends\ndata: {\"a\":1}\n\n", false),
        (EventStream, "event: end \ndata: {\"a\":1}\n\n", false),
        (
            EventStream,
            "event: end\nevent: x\ndata: {\"a\":1}\n\n",
            false,
        ),
        (
            EventStream,
            "event: end\nevent:\ndata: {\"a\":1}\n\n",
            false,
        ),
        (EventStream, "event: end\nevent\ndata: {\"a\":1}\n\n", false),
        (EventStream, "events: end\ndata: {\"a\":1}\n\n", false),
        (
            EventStream,
            "event: end\nevents: x\ndata: {\"a\":1}\n\n",
            true,
        ),
        (EventStream, "event: end\n\ndata: {\"a\":1}\n\n", true),
    ] {
        let read = read_all(&compiled("/a"), format, body);
        assert_eq!(read.is_closed, is_closed, "{body:?}");
    }
}
