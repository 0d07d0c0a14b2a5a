//! Names of fields, tested with every byte.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::SeqCst;

use super::frames::{DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, RST_STREAM};
use crate::support::{After, Client, Config, Origin, Running, start};

/// Whether a byte is allowed in a name (RFC 9110, section 5.6.2); HTTP/2 allows no capitals there.
fn may_stand(byte: u8, is_http2: bool) -> bool {
    byte.is_ascii_digit()
        || byte.is_ascii_lowercase()
        || byte.is_ascii_uppercase() && !is_http2
        || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Encodes a field for HPACK, as a literal without indexing (RFC 7541, section 6.2.2).
fn literal(name: &[u8]) -> Vec<u8> {
    let length = u8::try_from(name.len()).expect("a short name");
    [&[0, length], name, b"\x011"].concat()
}

/// Posts a body with a field of that name in its head or its trailers. Returns the status, or `None` if the stream or
/// the connection ended without one.
fn post_http2(running: &Running, name: &[u8], is_trailer: bool) -> Option<u16> {
    const POST: &[u8] = b"\x83\x86\x84\x01\x06a.test";
    let mut client = Frames::connect(running.public, &[]);
    let field = literal(name);
    if is_trailer {
        client.send(HEADERS, END_HEADERS, 1, POST);
        client.send(DATA, 0, 1, b"abc");
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, &field);
    } else {
        client.send(HEADERS, END_HEADERS, 1, &[POST, &field].concat());
        client.send(DATA, END_STREAM, 1, b"abc");
    }
    loop {
        let frame = client.next()?;
        match frame.kind {
            // The status comes first, here always as an index of the static table.
            HEADERS => {
                return Some(match frame.payload[0] {
                    0x88 => 200,
                    0x8c => 400,
                    other => panic!("another status: {other:#x}"),
                });
            }
            RST_STREAM | GOAWAY => return None,
            _ => {}
        }
    }
}

fn post_http1(running: &Running, name: &[u8], is_trailer: bool) -> Option<u16> {
    let mut client = Client::connect(running.public);
    let field = [name, b": 1\r\n"].concat();
    let head = b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n";
    let body = b"3\r\nabc\r\n0\r\n";
    let (head, body) = if is_trailer {
        (
            [&head[..], b"\r\n"].concat(),
            [&body[..], &field, b"\r\n"].concat(),
        )
    } else {
        (
            [&head[..], &field, b"\r\n"].concat(),
            [&body[..], b"\r\n"].concat(),
        )
    };
    client.send([head, body].concat());
    client.try_answer().ok().map(|answer| answer.status)
}

#[test]
fn a_field_whose_name_is_no_token_reaches_no_origin() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).route("/*", ""));
    for is_http2 in [true, false] {
        for is_trailer in [false, true] {
            for byte in 0..=u8::MAX {
                let case = format!("{byte:#x}, HTTP/2 {is_http2}, in trailers {is_trailer}");
                let name = [b'x', byte, b'y'];
                let before = origin.requests().len();
                let post = if is_http2 { post_http2 } else { post_http1 };
                let status = post(&running, &name, is_trailer);
                let seen = origin.requests().split_off(before);
                // In HTTP/1.1, a colon ends the name.
                if may_stand(byte, is_http2) || byte == b':' && !is_http2 {
                    assert_eq!(status, Some(200), "{case}");
                    continue;
                }
                assert!(matches!(status, None | Some(400)), "{case}: {status:?}");
                assert!(
                    seen.iter().all(|seen| !seen.is_complete),
                    "{case}: {seen:?}"
                );
                let mut fields = seen
                    .iter()
                    .flat_map(|seen| seen.head.fields.iter().chain(&seen.trailers));
                assert!(
                    !fields.any(|(name, _)| name.starts_with('x') && name.ends_with('y')),
                    "{case}: {seen:?}"
                );
            }
        }
    }
}

#[test]
fn an_answer_of_http_1_1_with_a_name_that_is_no_token_is_refused_or_breaks_off() {
    let byte = Arc::new(AtomicU8::new(0));
    let origin = Origin::scripted({
        let byte = Arc::clone(&byte);
        move |exchange| {
            let field = [b"x", &[byte.load(SeqCst)][..], b"y: 1\r\n"].concat();
            let (head, trailers) = match exchange.target() {
                "/head" => (&field[..], &b""[..]),
                _ => (&b""[..], &field[..]),
            };
            let answer = [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
                head,
                b"\r\n2\r\nok\r\n0\r\n",
                trailers,
                b"\r\n",
            ];
            exchange.write(answer.concat())?;
            Ok(After::Close)
        }
    });
    let running = start(&Config::to(origin.url()).route("/*", ""));
    for sent in 0..=u8::MAX {
        byte.store(sent, SeqCst);
        // A colon ends the name.
        let is_token = may_stand(sent, false) || sent == b':';
        for target in ["/head", "/trailers"] {
            let mut client = Client::asking(running.public, target, "");
            let answer = client.try_answer().ok().map(|answer| answer.status);
            let is_passed = answer == Some(200);
            assert_eq!(is_passed, is_token, "{sent:#x}, {target}: {answer:?}");
        }
    }
}
