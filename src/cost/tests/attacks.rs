//! Bodies that are made to cost memory or time, or to report a wrong number.

use super::super::BodyFormat::{self, EventStream, Json};
use super::super::{Decimal, NumberReader};
use super::{Reading, compiled, read, reported};

/// Reads `head`, then `piece` as many `times`, then `tail`.
fn repeated(format: BodyFormat, head: &str, piece: &str, times: usize, tail: &str) -> Reading {
    let mut reader = NumberReader::new(compiled("/a /b/c"), format, None);
    reader.read(head.as_bytes());
    (0..times).for_each(|_| reader.read(piece.as_bytes()));
    reader.read(tail.as_bytes());
    reader.finish().into()
}

#[test]
fn what_is_long_or_deep_is_read_past() {
    let text = "x".repeat(1 << 16);
    let escapes = "\\\"".repeat(1 << 12);
    let end = r#""x":0,"a":7}"#;
    for (name, head, piece, times, tail) in [
        ("a string", r#"{"s":""#, text.as_str(), 100, r#"","a":7}"#),
        (
            "a string of escapes",
            r#"{"s":""#,
            &escapes,
            50,
            r#"","a":7}"#,
        ),
        ("a key", r#"{""#, &text, 100, r#"":1,"a":7}"#),
        (
            "a key of escapes",
            r#"{""#,
            "\\u0061",
            5000,
            r#"":1,"a":7}"#,
        ),
        ("a number", r#"{"b":"#, "1234567890", 10_000, r#","a":7}"#),
        (
            "a number that cannot count",
            r#"{"a":7,"x":"#,
            "9",
            10_000,
            "}",
        ),
        ("spaces", "{", "        ", 10_000, end),
        (
            "padding",
            "{",
            r#""pad":"xxxxxxxxxxxxxxxxxxxx","#,
            30_000,
            end,
        ),
        ("the same key", "{", r#""a":7,"#, 30_000, end),
        (
            "objects to look into",
            "{",
            r#""b":{"c":null},"#,
            30_000,
            end,
        ),
        (
            "arrays beside each other",
            r#"{"b":["#,
            "[],{},",
            30_000,
            r#"0],"a":7}"#,
        ),
    ] {
        let expected = reported("7 _", true);
        assert_eq!(repeated(Json, head, piece, times, tail), expected, "{name}");
        let (head, tail) = (format!("data: {head}"), format!("{tail}\n\n"));
        assert_eq!(
            repeated(EventStream, &head, piece, times, &tail),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_million_open_brackets_are_a_count() {
    let nested = "[".repeat(1000) + &"]".repeat(1000);
    let (opening, closing) = nested.split_at(1000);
    for open in ["[", "{\"b\":[", "{\"b\":{\"c\":{\"d\":"] {
        let mut reader = NumberReader::new(compiled("/a /b/c"), Json, None);
        reader.read(open.as_bytes());
        (0..1000).for_each(|_| reader.read(opening.as_bytes()));
        (0..1000).for_each(|_| reader.read(closing.as_bytes()));
        let close: String = open.chars().rev().filter_map(closer).collect();
        reader.read(close.as_bytes());
        assert_eq!(
            Reading::from(reader.finish()),
            reported("_ _", true),
            "{open}"
        );
    }
}

fn closer(open: char) -> Option<char> {
    match open {
        '[' => Some(']'),
        '{' => Some('}'),
        _ => None,
    }
}

#[test]
fn a_number_beyond_256_bytes_leaves_the_body_unread() {
    let longest = format!("{{\"a\":{}}}", "1".repeat(256));
    assert_eq!(read("/a", Json, &longest), reported("1e40", true));
    for digits in [
        "1".repeat(257),
        "1".repeat(10_000),
        format!("0.{}", "0".repeat(300)),
    ] {
        let mut reader = NumberReader::new(compiled("/a"), Json, None);
        reader.read(format!("{{\"a\":3,\"a\":{digits}}}").as_bytes());
        assert_eq!(
            Reading::from(reader.finish()),
            reported("3", false),
            "{} digits",
            digits.len()
        );
    }
}

#[test]
fn a_decoy_in_what_a_model_says_does_not_count() {
    let body = r#"{"choices":[{"message":{"role":"assistant",
        "content":"{\"usage\":{\"total_tokens\":999}}, \"usage\": {\"total_tokens\": 999}",
        "usage":{"total_tokens":999}}}],"x":{"usage":{"total_tokens":999}},
        "usage":{"prompt":{"total_tokens":999},"total_tokens":12}}"#;
    assert_eq!(
        read("/usage/total_tokens", Json, body),
        reported("12", true)
    );
    let stream = "data: {\"delta\":\"\\n\\ndata: {\\\"usage\\\":{\\\"total_tokens\\\":999}}\\n\\n\"}\n\n\
        data: {\"usage\":{\"total_tokens\":12}}\n\ndata: [DONE]\n\n";
    assert_eq!(
        read("/usage/total_tokens", EventStream, stream),
        reported("12", true)
    );
}

#[test]
fn a_reader_of_32_pointers_holds_less_than_a_kibibyte() {
    let number = size_of::<Option<Decimal>>();
    assert_eq!(number, 16);
    // On the heap, a level of 12 bytes for each key of the longest pointer, and one more.
    let held = size_of::<NumberReader>() + 32 * number + 8 * 12;
    assert!(held < 1024, "{held} bytes");
}
