//! Every forwarded request has only one reading: one kind of line end, one host, one framing.

use super::bench::{Bench, expect};
use super::{assert_none, post, shown};
use crate::support::{Framing, Recorded};

/// Returns an error if two servers could read a request at the origin in different ways.
pub fn check(seen: &Recorded) -> Result<(), String> {
    let start: Vec<&str> = seen.head.start.split(' ').collect();
    let [method, target, version] = start.as_slice() else {
        return Err(format!("request line {:?}", seen.head.start));
    };
    expect("version", *version, "HTTP/1.1")?;
    expect("method is a token", method.bytes().all(is_token), true)?;
    let is_plain = target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic());
    expect("target is a path", is_plain || *target == "*", true)?;
    for (name, value) in &seen.head.fields {
        // The wire splits lines only at CRLF, so a bare line end or a fold would show here.
        let is_name = !name.is_empty() && name.bytes().all(is_token);
        let is_value = value.bytes().all(|byte| byte == b'\t' || byte >= b' ');
        if !is_name || !is_value || value.contains('\u{7f}') {
            return Err(format!("field {name:?}: {value:?}"));
        }
    }
    expect("hosts", seen.head.fields("host").len(), 1)?;
    let framing = seen.head.framing(Framing::Empty);
    if let Framing::Length(length) = framing.map_err(|error| error.to_string())? {
        let told = seen.head.field("content-length");
        expect("length", told, Some(length.to_string().as_str()))?;
    }
    for gone in ["upgrade", "keep-alive", "proxy-connection", "expect"] {
        expect(gone, seen.head.fields(gone).len(), 0)?;
    }
    Ok(())
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Method and target, framing and body of a message, as the origin must see it.
pub type Seen = (&'static str, Framing, &'static str);

/// Returns messages that pass, and how the origin must see each of them.
pub fn accepted() -> Vec<(Vec<u8>, Seen)> {
    let chunked = |chunks: &str| {
        let mut message = post("Transfer-Encoding: chunked");
        message.extend_from_slice(chunks.as_bytes());
        message
    };
    vec![
        (
            b"GET /a?b=c HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
            ("GET /a?b=c HTTP/1.1", Framing::Empty, ""),
        ),
        (
            b"\r\n\r\nGET / HTTP/1.1\r\nHOST:a.test\r\nX-A:\t a \t\r\n\r\n".into(),
            ("GET / HTTP/1.1", Framing::Empty, ""),
        ),
        (
            b"GET / HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n".into(),
            ("GET / HTTP/1.1", Framing::Empty, ""),
        ),
        (
            b"GET http://a.test HTTP/1.1\r\nHost: b.test\r\n\r\n".into(),
            ("GET / HTTP/1.1", Framing::Empty, ""),
        ),
        (
            [post("Content-Length: 3"), b"abc".into()].concat(),
            ("POST / HTTP/1.1", Framing::Length(3), "abc"),
        ),
        (
            [post("Content-Length: 003"), b"abc".into()].concat(),
            ("POST / HTTP/1.1", Framing::Length(3), "abc"),
        ),
        (
            post("Content-Length: 000"),
            ("POST / HTTP/1.1", Framing::Length(0), ""),
        ),
        (
            post("Content-Length: 0"),
            ("POST / HTTP/1.1", Framing::Length(0), ""),
        ),
        (
            chunked("3\r\nabc\r\n0\r\n\r\n"),
            ("POST / HTTP/1.1", Framing::Chunked, "abc"),
        ),
        (
            chunked("03;a=b\r\nabc\r\n0;last\r\nX-Sum: 1\r\n\r\n"),
            ("POST / HTTP/1.1", Framing::Chunked, "abc"),
        ),
        (
            chunked("0\r\n\r\n"),
            ("POST / HTTP/1.1", Framing::Chunked, ""),
        ),
        (
            [
                post("Transfer-Encoding: CHUNKED"),
                b"1\r\na\r\n0\r\n\r\n".into(),
            ]
            .concat(),
            ("POST / HTTP/1.1", Framing::Chunked, "a"),
        ),
        (
            [
                post("Content-Length: 9\r\nTransfer-Encoding: chunked"),
                b"1\r\na\r\n0\r\n\r\n".into(),
            ]
            .concat(),
            ("POST / HTTP/1.1", Framing::Chunked, "a"),
        ),
    ]
}

#[test]
fn every_accepted_message_reaches_the_origin_in_one_canonical_form() {
    let mut failures = Vec::new();
    for (message, (line, framing, body)) in &accepted() {
        let bench = Bench::new();
        let seen = bench.one(message, b"").and_then(|(_, seen)| {
            expect("request line", seen.head.start.as_str(), line)?;
            let found = seen.head.framing(Framing::Empty);
            expect(
                "framing",
                found.map_err(|error| error.to_string())?,
                *framing,
            )?;
            expect("body", &*String::from_utf8_lossy(&seen.body), *body)
        });
        if let Err(failure) = seen {
            failures.push(format!("{}: {failure}", shown(message)));
        }
    }
    assert_none(&failures);
}
