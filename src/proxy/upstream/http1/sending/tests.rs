//! How bodies of requests are framed and written, however few bytes the origin takes at a time.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use http::{HeaderValue, Request, Response};

use super::super::scripted::Scripted;
use super::super::{Buffers, Http1Connection, Http1Error, Http1Receiving, Repeat};
use super::*;
use crate::clock::{Clock, Timestamp};
use crate::proxy::differential::settle;
use crate::proxy::wire::body::WrongLength;
use crate::proxy::wire::deadline::Sweep;
use crate::proxy::wire::encoding::LARGE_BYTES_MIN;
use crate::proxy::wire::outgoing::Outgoing;
use crate::proxy::wire::scripted_body::ScriptedBody;
use crate::request::hop_by_hop::tests::fields;

/// How much of a request's body was written, and what became of it.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    /// The whole body was written, and the connection waits for a response.
    Whole(String),
    /// The body differs from its announced length, and the connection is closed.
    Broken(String),
}

/// How many bytes an origin takes at a time.
const WRITE_BYTES: [usize; 4] = [1, 3, 20, usize::MAX];

/// The result of a request if it has ended, and whether the origin may have seen the request.
type Ended = (
    Option<Result<Response<Http1Receiving<Scripted>>, Http1Error>>,
    bool,
);

/// Sends a request with this body, and waits as long as something moves.
fn exchange(body: ScriptedBody, origin: Scripted, buffers: &Rc<Buffers>) -> Ended {
    let request = Request::post("/").header("trailer", "x-sum, Content-Length");
    let mut request = Outgoing::from(request.body(body).expect("a request"));
    let connection = connection(origin, buffers);
    let host = HeaderValue::from_static("a");
    let (timeout, is_sent) = (Duration::from_mins(1), Cell::new(false));
    let mut exchange =
        pin!(connection.exchange(&mut request, &host, (timeout, 32 << 10), &is_sent));
    let mut ended = None;
    settle(|cx| {
        if ended.is_none()
            && let Poll::Ready(result) = exchange.as_mut().poll(cx)
        {
            ended = Some(result);
        }
    });
    (ended, is_sent.get())
}

/// Sends a request with this body to an origin that takes `write_bytes_max` bytes at a time.
fn send(body: ScriptedBody, write_bytes_max: usize, buffers: &Rc<Buffers>) -> Sent {
    let origin = Scripted::silent(write_bytes_max);
    let seen = origin.seen();
    let (ended, is_sent) = exchange(body, origin, buffers);
    let written = String::from_utf8(seen.written.take()).expect("text");
    assert_eq!(is_sent, !written.is_empty());
    let body = written.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    match ended {
        None => Sent::Whole(body.into()),
        Some(Err(Http1Error::Body(error))) => {
            assert!(error.is::<WrongLength>(), "{error}");
            assert_eq!(Rc::strong_count(&seen), 1, "the connection is closed");
            Sent::Broken(body.into())
        }
        Some(other) => panic!("{other:?}"),
    }
}

fn connection(origin: Scripted, buffers: &Rc<Buffers>) -> Http1Connection<Scripted> {
    let deadline = Sweep::new(Clock::manual(Timestamp(1))).deadline();
    Http1Connection::new(origin, deadline, Rc::clone(buffers))
}

#[test]
fn body_that_differs_from_its_length_is_cut_there_and_closes_the_connection() {
    for (pieces, is_whole) in [
        (&["abc"][..], true),
        (&["a", "", "bc"], true),
        // The body is not polled beyond its announced length.
        (&["abc", "d"], true),
        (&["abcd"], false),
        (&["ab", "cd"], false),
        (&["ab"], false),
        (&["ab", ""], false),
        (&[], false),
    ] {
        for write_bytes in WRITE_BYTES {
            let body = ScriptedBody::new(Some(3), pieces);
            match send(body, write_bytes, &Rc::default()) {
                Sent::Whole(body) => assert!(is_whole && body == "abc", "{pieces:?}"),
                Sent::Broken(body) => {
                    assert!(!is_whole && "abc".starts_with(&body), "{pieces:?}: {body}");
                }
            }
        }
    }
}

#[test]
fn chunked_body_ends_with_its_last_piece_and_not_with_an_empty_one() {
    for (pieces, expected) in [
        (&[][..], "0\r\n\r\n"),
        (&[""], "0\r\n\r\n"),
        (
            &["", "a", "", "0123456789abcdef", ""],
            "1\r\na\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
        ),
    ] {
        for write_bytes in WRITE_BYTES {
            let sent = send(ScriptedBody::new(None, pieces), write_bytes, &Rc::default());
            assert_eq!(sent, Sent::Whole(expected.into()));
        }
    }
}

#[test]
fn large_pieces_are_written_in_their_place_between_short_ones() {
    let large: &str = "x".repeat(LARGE_BYTES_MIN).leak();
    let pieces = ["a", large, large, "", "b"];
    let length = pieces.concat().len() as u64;
    let chunk = format!("{LARGE_BYTES_MIN:x}\r\n{large}\r\n");
    let chunked = format!("1\r\na\r\n{chunk}{chunk}1\r\nb\r\n0\r\n\r\n");
    for write_bytes in WRITE_BYTES {
        let send = |length| {
            send(
                ScriptedBody::new(length, &pieces),
                write_bytes,
                &Rc::default(),
            )
        };
        assert!(
            send(Some(length)) == Sent::Whole(pieces.concat()),
            "{write_bytes}"
        );
        assert!(send(None) == Sent::Whole(chunked.clone()), "{write_bytes}");
    }
}

#[test]
fn trailers_are_sent_if_they_were_announced_and_may_be_trailers() {
    let trailers = fields(&[("x-sum", "1"), ("content-length", "9"), ("x-other", "2")]);
    let body = |length, pieces| ScriptedBody::new(length, pieces).with_trailers(trailers.clone());
    for write_bytes in WRITE_BYTES {
        let send = |body| send(body, write_bytes, &Rc::default());
        let expected = Sent::Whole("1\r\na\r\n0\r\nx-sum: 1\r\n\r\n".into());
        assert_eq!(send(body(None, &["a"])), expected);
        // A body with a length has no room for trailers, and ends before them.
        assert_eq!(send(body(Some(1), &["a"])), Sent::Whole("a".into()));
        assert!(matches!(send(body(Some(2), &["a"])), Sent::Broken(_)));
    }
}

#[test]
fn buffer_that_is_used_again_is_empty() {
    let buffers = Rc::default();
    let whole = || ScriptedBody::new(Some(3), &["abc"]);
    let bodies = [whole(), ScriptedBody::new(Some(3), &["ab"]), whole()];
    let sent = bodies.map(|body| send(body, usize::MAX, &buffers));
    assert_eq!(sent[0], Sent::Whole("abc".into()));
    assert_eq!(sent[2], sent[0]);
    let buffer = connection(Scripted::silent(1), &buffers).0.buffer();
    assert!(
        buffer.is_empty() && buffer.capacity() > 0,
        "{}",
        buffer.capacity()
    );
}

#[test]
fn request_of_which_nothing_is_written_may_be_sent_elsewhere() {
    let origin = Scripted::silent(0);
    let body = ScriptedBody::new(Some(1), &["a"]);
    let (ended, is_sent) = exchange(body, origin, &Rc::default());
    let error = ended.expect("an end").expect_err("no response");
    assert_eq!((error.repeat(), is_sent), (Repeat::Unwritten, false));
}

#[test]
fn request_whose_first_write_fails_in_tls_counts_as_written() {
    let origin = || Scripted::silent(0).encrypted();
    let posted = exchange(ScriptedBody::new(Some(1), &["a"]), origin(), &Rc::default());
    let (ended, is_sent) = posted;
    // The failed write has consumed the error, so the end of the connection does not tell the reason.
    let repeat = ended.map(|ended| ended.expect_err("no response").repeat());
    assert!(is_sent && repeat != Some(Repeat::Unwritten), "{repeat:?}");
}

#[test]
fn request_without_a_buffer_takes_none_from_others() {
    let connection = connection(Scripted::silent(1), &Rc::default());
    connection.0.recycle(Vec::with_capacity(10));
    connection.0.recycle(Vec::new());
    assert_eq!(connection.0.buffer().capacity(), 10);
}
