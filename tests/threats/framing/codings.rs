//! Lengths and transfer codings: messages that could be framed in two ways.

use super::bench::{Bench, expect};
use super::{Row, SMUGGLED, assert_none, post, rejected, rows, shown};
use crate::support::Framing;

#[test]
fn both_framings_in_one_message_are_one_request_in_chunks_and_a_close() {
    let bodies: [(&str, &[u8], &[u8]); 2] = [
        ("0\r\n\r\nG", b"", b""),
        ("3\r\nabc\r\n0\r\n\r\n", b"abc", SMUGGLED.as_bytes()),
    ];
    let mut failures = Vec::new();
    for fields in [
        "Content-Length: 6\r\nTransfer-Encoding: chunked",
        "Content-Length: 6\r\nX: y\r\ntransfer-encoding:chunked",
        "Content-Length: 6\r\nContent-Length: 6\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 6",
        "Transfer-Encoding: chunked\r\nContent-Length: 6\r\nContent-Length: 6",
        "Transfer-Encoding: chunked\r\nContent-Length: 6\r\nContent-Length: 7",
        "Content-Length: 6\r\nTransfer-Encoding: chunked\r\nContent-Length: 6",
    ] {
        for (chunks, body, behind) in bodies {
            let bench = Bench::new();
            let message = [post(fields), chunks.into()].concat();
            // A reader that goes by the length would take `G` for the first letter of the next request.
            let behind = [behind, SMUGGLED.as_bytes()].concat();
            let checked = bench.one_and_close(&message, &behind).and_then(|seen| {
                let framing = seen.head.framing(Framing::Empty);
                let framing = framing.map_err(|error| error.to_string())?;
                expect("framing", framing, Framing::Chunked)?;
                expect("body", &*seen.body, body)
            });
            if let Err(failure) = checked {
                failures.push(format!("{}: {failure}", shown(&message)));
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn transfer_codings_other_than_one_chunked_are_refused() {
    // hyper refuses these: chunked is not the last coding, or the field is malformed.
    let mut table: Vec<Row> = rows(
        &[
            post("Transfer-Encoding: xchunked"),
            post("Transfer-Encoding: chunked, gzip"),
            post("Transfer-Encoding: chunked;q=1"),
            post("Transfer-Encoding: \"chunked\""),
            post("Transfer-Encoding: \x0bchunked"),
            post(b"Transfer-Encoding: \xa0chunked\xa0"),
            post("Transfer-Encoding: chunked\x00"),
            post("Transfer-Encoding: identity"),
            post("Transfer-Encoding:"),
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
            post("Transfer-Encoding : chunked"),
            post("Transfer-Encoding\t: chunked"),
            post("Transfer-Encoding:\n chunked"),
            post("Transfer-Encoding:\r\n chunked"),
            post("Transfer-Encoding: \r\n\tchunked"),
        ],
        400,
        "syntax",
    );
    // hyper accepts these, because it checks only the last coding.
    let taken = [
        "chunked, chunked",
        "gzip, chunked",
        ",chunked",
        "chunked,chunked",
        "identity, chunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "identity\r\nTransfer-Encoding: chunked",
        "gzip\r\nTransfer-Encoding: chunked",
        "\r\nTransfer-Encoding: chunked",
    ];
    let taken = taken.map(|codings| {
        let head = post(format!("Transfer-Encoding: {codings}"));
        [head, b"3\r\nabc\r\n0\r\n\r\n".into()].concat()
    });
    table.extend(rows(&taken, 400, "bad_framing"));
    rejected(&table);
}

#[test]
fn a_coding_spelled_with_an_underscore_is_no_coding_and_does_not_reach_the_origin() {
    for name in [
        "Transfer_Encoding",
        "transfer_encoding",
        "TRANSFER_encoding",
    ] {
        let bench = Bench::new();
        let message = [post(format!("{name}: chunked")), b"0\r\n\r\n".into()].concat();
        let (mut client, seen) = bench.one(&message, SMUGGLED.as_bytes()).expect(name);
        for (field, _) in &seen.head.fields {
            assert!(!field.to_lowercase().starts_with("transfer"), "{field}");
        }
        // The chunk is where the next request should be, but it is not a request.
        let answer = client.answer();
        assert_eq!((answer.status, answer.says_close()), (400, true), "{name}");
        client.assert_closed();
        assert_eq!(bench.origin.targets(), ["/"], "{name}");
    }
}

#[test]
fn a_transfer_coding_of_http_1_0_is_refused() {
    let head = |fields: &str| format!("POST / HTTP/1.0\r\nHost: a.test\r\n{fields}\r\n\r\n");
    let chunked = "Transfer-Encoding: chunked";
    rejected(&rows(
        &[
            head(chunked),
            format!("{}0\r\n\r\n", head(chunked)),
            head(&format!("Connection: keep-alive\r\n{chunked}")),
            head(&format!("Content-Length: 3\r\n{chunked}")),
            head(&format!("{chunked}\r\n{chunked}")),
            head("Transfer-Encoding: gzip"),
        ],
        400,
        "syntax",
    ));
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let messages = [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 6\r\nContent-Length: 5",
        "Content-Length: 5, 6",
        "Content-Length: 5, 5",
        "Content-Length: 5,",
        "Content-Length: , 5",
        "Content-Length:\r\nContent-Length: 59",
        "Content-Length: 59\r\nContent-Length:",
        "Content-Length: 5\r\nContent-Length: 5, 5",
    ];
    let messages = messages.map(|fields| [post(fields), b"hello".into()].concat());
    rejected(&rows(&messages, 400, "syntax"));
}

#[test]
fn the_same_length_twice_is_one_length() {
    let bench = Bench::new();
    let fields = "Content-Length: 5\r\nContent-Length: 5\r\nConnection: close";
    let message = [post(fields), b"hello".into()].concat();
    let seen = bench.one_and_close(&message, SMUGGLED.as_bytes());
    let seen = seen.expect("one request");
    assert_eq!(seen.head.field("content-length"), Some("5"));
    assert_eq!(seen.body, b"hello");
}

#[test]
fn lengths_that_are_not_digits_are_refused() {
    let lengths = [
        "+5",
        "-1",
        "-0",
        "0x5",
        "5_0",
        "1Z",
        " ",
        "",
        "5 5",
        "5\t5",
        "5.",
        "5.0",
        "5;",
        "\"5\"",
        "1e1",
        "NaN",
        "18446744073709551616",
        "99999999999999999999999999999999",
        "\u{665}",
        "\u{ff15}",
    ];
    let mut messages = lengths
        .map(|length| post(format!("Content-Length: {length}")))
        .to_vec();
    messages.push(post(b"Content-Length: \xa05"));
    messages.push(post("Content-Length: 5\x00"));
    messages.push(post("Content-Length: 5\x0b"));
    let mut table = rows(&messages, 400, "syntax");
    // hyper uses the two largest numbers for other purposes, and must not take them for a length.
    let largest = ["18446744073709551614", "18446744073709551615"];
    let largest = largest.map(|length| post(format!("Content-Length: {length}")));
    table.extend(rows(&largest, 431, "too_large"));
    rejected(&table);
}
