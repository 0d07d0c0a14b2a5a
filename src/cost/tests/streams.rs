//! What counts in event streams.

use super::super::BodyFormat::EventStream;
use super::{read, reported};

#[test]
fn events_are_taken_apart_whatever_ends_their_lines() {
    for lines in [
        "data: {\"a\":1}||data: {\"a\":3}||data: {\"a\":2}||",
        "data:{\"a\":3}||",
        "data: {\"a\":3}",
        "data: {\"a\":3}|",
        "|||data: {\"a\":3}||",
        ": a comment|data: {\"a\":3}|: another||:||",
        "event: x|id: 7|data: {\"a\":3}|retry: 9||",
        "data: {\"a\"|data: :3}||",
        "data: {\"a\":|data|data:|data: 3|data|data: }||",
        "data|data||data: {\"a\":3}||",
        "data:  {\"a\":3}||",
        "datax: {\"a\":9}|dat: {\"a\":9}|Data: {\"a\":9}| data: {\"a\":9}|data: {\"a\":3}||",
        "data : {\"a\":9}|data: {\"a\":3}||",
        "{\"a\":9}|data: {\"a\":3}||",
        "data: {\"a\":3}||data: [DONE]||",
        "data: {\"a\":3}||data: [DONE] {\"a\":9}||",
        "data: ping||data: {\"a\":3}||data: ||",
        "data: [{\"a\":3},{\"a\":1}]||",
        "data: {\"\\u0061\":3}||data: {\"b\":4}||",
        "data: {\"a\":-9}||data: {\"a\":\"9\"}||data: {\"a\":3}||data: {\"a\":null}||",
    ] {
        for ending in ["\n", "\r", "\r\n"] {
            let body = lines.replace('|', ending);
            assert_eq!(
                read("/a", EventStream, &body),
                reported("3", true),
                "{body:?}"
            );
            let marked = format!("\u{feff}{body}");
            let is_field = body.starts_with("data");
            if is_field {
                assert_eq!(
                    read("/a", EventStream, &marked),
                    reported("3", true),
                    "{marked:?}"
                );
            }
        }
    }
}

#[test]
fn lines_of_data_are_joined_by_a_line_feed() {
    let body = "data: 1\ndata: 2\n\ndata: 1\r\rdata: 5\r\n\r\n";
    assert_eq!(read("-", EventStream, body), reported("5", true));
}

#[test]
fn a_broken_event_ends_with_itself() {
    for (body, numbers, is_whole) in [
        ("data: {\"a\":1\n\ndata: {\"a\":2}\n\n", "2", true),
        ("data: {\"a\":5,\n\ndata: {\"a\":2}\n\n", "5", true),
        ("data: {\"a\":2}\n\ndata: {\"a\":x}\n\n", "2", true),
        ("data: {\"b\":\n\n", "_", true),
        ("data: {\"a\":2}\n\ndata: {\"a", "2", false),
        ("data: {\"a\":2}\n\ndata: {\"a\":77", "2", false),
        ("data: {\"a\":2} x\n\n", "2", true),
        ("data: {\"a\":2} x", "2", false),
        ("data: [\n\ndata: \"\n\ndata: {\"a\":2}\n\n", "2", true),
        ("data: {\"a\":2}\n\ndata: [DO", "2", true),
        ("data: [DONE]\n\n", "_", false),
        (": nothing\n\n", "_", false),
        ("", "_", false),
    ] {
        assert_eq!(
            read("/a", EventStream, body),
            reported(numbers, is_whole),
            "{body:?}"
        );
    }
}
