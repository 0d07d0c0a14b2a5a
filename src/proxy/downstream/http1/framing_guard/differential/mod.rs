//! The same bytes through the parser alone and through [`FramingGuard`] in front of it.
//!
//! The reader shadows the parser's framing, and only these tests hold the two together. If the reader refuses nothing,
//! it must have followed every request to its end. If it refuses something, its documentation must say why, the parser
//! must give up there, and everything before must be unchanged.
//!
//! A probe after each message shows whether the reader is still in step: the probe is a request
//! that the parser accepts and the reader must refuse.

mod cases;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::rc::Rc;

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{Join, Sink, join, sink};

use super::*;
use crate::proxy::differential::{every_cut, for_each_seed, settle};
use crate::proxy::downstream::request::IncomingBody;
use cases::{MESSAGES, PROBES, mutated};

/// What a service saw of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    head: String,
    body: Vec<u8>,
    end: StreamEnd,
}

/// How far a request's body came.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StreamEnd {
    Missing,
    Broken,
    Whole { trailers: String },
}

/// The result of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Observation {
    requests: Vec<Seen>,
    /// How the parser ended it, if it did.
    end: Option<Result<(), String>>,
}

/// What a client sends: its bytes in these pieces, and nothing more.
#[derive(Debug)]
struct Pieces(VecDeque<Vec<u8>>);

#[test]
fn parser_alone_takes_every_probe() {
    for probe in PROBES {
        let alone = parsed(VecDeque::from([probe.to_vec()]));
        assert_eq!(probes(&alone), 1, "{}", probe.escape_ascii());
    }
}

#[test]
fn every_pair_of_messages_is_read_alike_wherever_it_is_cut() {
    let pairs = MESSAGES
        .iter()
        .flat_map(|first| MESSAGES.iter().map(move |second| [*first, *second]));
    for (pair, probe) in pairs.zip(PROBES.iter().cycle()) {
        let bytes = [&pair.concat(), *probe].concat();
        let alone = parsed(VecDeque::from([with_targets_escaped(&bytes)]));
        for pieces in every_cut(&bytes) {
            compare(&bytes, &pieces, &alone);
        }
    }
}

#[test]
fn mutated_messages_are_read_alike() {
    let (refused, cases) = for_each_seed(|draws| {
        let bytes = mutated(draws);
        let alone = parsed(VecDeque::from([with_targets_escaped(&bytes)]));
        compare(&bytes, &draws.cut(&bytes), &alone)
    });
    assert!(refused >= cases / 4, "{refused} of {cases} reach a probe");
}

/// Fails unless `bytes` are read in these pieces as the parser alone reads them; returns whether the reader refused a
/// probe that the parser accepts.
fn compare(bytes: &[u8], pieces: &VecDeque<Vec<u8>>, alone: &Observation) -> bool {
    let bytes = &with_targets_escaped(bytes)[..];
    let strict = held_to_the_letter(pieces.clone());
    let shown = || {
        let cuts: Vec<_> = pieces.iter().map(Vec::len).collect();
        let bytes = bytes.escape_ascii();
        format!("{bytes} in pieces of {cuts:?}: {alone:#?} {strict:#?}")
    };
    assert_eq!(probes(&strict), 0, "a probe passes: {}", shown());
    let mut passed = bytes.to_vec();
    FramingReader::default().follow(&mut passed);
    let differs = |(new, old): (&u8, &u8)| new != old;
    let Some(at) = passed.iter().zip(bytes).position(differs) else {
        assert_eq!(strict, *alone, "{}", shown());
        return false;
    };
    assert_eq!(passed[at + 1..], bytes[at + 1..], "{}", shown());
    // Nobody reads what comes after the end of a connection.
    if strict == *alone && strict.end.is_some() {
        return false;
    }
    assert!(is_documented(bytes, at), "byte {at} is good: {}", shown());
    // A head that arrived in part is not looked at again before it ends.
    let mut ended = pieces.clone();
    ended.push_back(b"\r\n\r\n".to_vec());
    let is_refused = is_refused(&strict) || is_refused(&held_to_the_letter(ended));
    assert!(is_refused, "byte {at} is overwritten in vain: {}", shown());
    assert!(
        is_beginning(&strict.requests, &alone.requests),
        "{}",
        shown()
    );
    probes(alone) > 0
}

/// Returns what the parser is given for `bytes` if nothing is wrong with them except the targets.
fn with_targets_escaped(bytes: &[u8]) -> Vec<u8> {
    let (mut reader, mut escaped, mut rest) =
        (FramingReader::default(), Vec::new(), bytes.to_vec());
    loop {
        let behind = reader.follow(&mut rest.clone());
        let raw = rest.split_off(rest.len() - behind);
        escaped.append(&mut rest);
        if !std::mem::take(&mut reader.is_raw) {
            escaped.extend(raw);
            return escaped;
        }
        rest = target::escaped(&reader.line, &raw);
    }
}

/// Whether the parser ended the connection, or the body of a request.
fn is_refused(outcome: &Observation) -> bool {
    let is_broken = |seen: &Seen| seen.end == StreamEnd::Broken;
    matches!(outcome.end, Some(Err(_))) || outcome.requests.iter().any(is_broken)
}

/// Whether `short` equals `long`, up to a request that breaks off.
fn is_beginning(short: &[Seen], long: &[Seen]) -> bool {
    let Some((last, before)) = short.split_last() else {
        return true;
    };
    let Some(whole) = long.get(before.len()) else {
        return false;
    };
    let is_cut = last.end == StreamEnd::Broken
        && last.head == whole.head
        && whole.body.starts_with(&last.body);
    before == &long[..before.len()] && (last == whole || is_cut)
}

/// Returns how many probes the parser took.
fn probes(outcome: &Observation) -> usize {
    let is_probe = |seen: &&Seen| {
        let is_whole = matches!(seen.end, StreamEnd::Whole { .. });
        seen.head.contains(" /probe/head ") || seen.head.contains(" /probe/body ") && is_whole
    };
    outcome.requests.iter().filter(is_probe).count()
}

/// Whether the module's documentation says that the byte there is refused, judged by its line alone.
fn is_documented(bytes: &[u8], at: usize) -> bool {
    let begin = bytes[..at].iter().rposition(|&byte| byte == b'\n');
    let before = &bytes[begin.map_or(0, |value| value + 1)..at];
    let digits = before
        .iter()
        .take_while(|before| before.is_ascii_hexdigit())
        .count();
    let behind = &before[digits..];
    let spaces = behind
        .iter()
        .take_while(|behind| matches!(behind, b' ' | b'\t'))
        .count();
    match bytes[at] {
        b'\n' => before.last() != Some(&b'\r') || is_behind_data(bytes, at),
        digit if digit.is_ascii_hexdigit() && behind.is_empty() => digits >= 16,
        byte if digits > 0 && spaces == behind.len() => spaces > 0 && byte != b';',
        b'\r' => digits > 0 && is_quoted(&behind[spaces..]),
        byte => digits > 0 && behind[spaces] == b';' && byte.is_ascii_control() && byte != b'\t',
    }
}

/// Whether a quoted string in these extensions has begun and not ended.
fn is_quoted(extensions: &[u8]) -> bool {
    let mut bytes = extensions.iter();
    let mut is_quoted = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' if is_quoted && bytes.next().is_none() => return true,
            _ => {}
        }
    }
    is_quoted
}

/// Whether the carriage return before this line feed is the end of a body, so that the line feed
/// belongs to the next head without a carriage return of its own: with one, the parser reads the
/// same.
fn is_behind_data(bytes: &[u8], at: usize) -> bool {
    let whole = [&bytes[..at], b"\r", &bytes[at..]].concat();
    let read = |bytes: &[u8]| parsed(VecDeque::from([bytes.to_vec()]));
    read(&whole) == read(bytes)
}

/// Serves a client that sends these pieces with the parser alone.
fn parsed(pieces: VecDeque<Vec<u8>>) -> Observation {
    // No request's body is diverted.
    outcome(client(pieces), &Rc::default())
}

/// A client that sends these pieces, and takes every answer.
fn client(pieces: VecDeque<Vec<u8>>) -> Join<Pieces, Sink> {
    join(Pieces(pieces), sink())
}

/// Serves a client that sends these pieces with the reader in front of the parser, and diverts even short bodies.
fn held_to_the_letter(pieces: VecDeque<Vec<u8>>) -> Observation {
    let bypass = Rc::default();
    let mut io = FramingGuard::new(
        client(pieces),
        Rc::default(),
        Rc::clone(&bypass),
        Rc::default(),
    );
    // A body of one byte is not diverted, because the parser is to read the last byte.
    io.reader = FramingReader::diverting(1);
    outcome(io, &bypass)
}

/// Serves a client until nothing moves any more.
fn outcome<I: AsyncRead + AsyncWrite + Unpin>(io: I, bypass: &Rc<BodyBypass>) -> Observation {
    let requests: Rc<RefCell<Vec<Seen>>> = Rc::default();
    let service =
        service_fn(|request| record(Rc::clone(&requests), IncomingBody::begin(bypass, request)));
    let io = TokioIo::new(io);
    // hyper's own timer is off, as for a listener's connections.
    let mut serving = http1::Builder::new();
    let serving = serving.header_read_timeout(None).half_close(true);
    let mut serving = std::pin::pin!(serving.serve_connection(io, service));
    let mut end = None;
    settle(|cx| {
        if end.is_none()
            && let Poll::Ready(ended) = serving.as_mut().poll(cx)
        {
            end = Some(ended.map_err(|error| error.to_string()));
        }
    });
    Observation {
        requests: requests.take(),
        end,
    }
}

/// Reads a request to its end and answers it.
async fn record(
    requests: Rc<RefCell<Vec<Seen>>>,
    mut request: Request<IncomingBody>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    // A length that was shortened is restored as a number.
    if let Some(length) = request.headers_mut().get_mut(CONTENT_LENGTH) {
        let number: Option<u64> = length.to_str().ok().and_then(|str| str.parse().ok());
        *length = number.map_or(length.clone(), HeaderValue::from);
    }
    let (head, mut body) = request.into_parts();
    let index = requests.borrow().len();
    requests.borrow_mut().push(Seen {
        head: format!(
            "{} {} {:?} {:?}",
            head.method, head.uri, head.version, head.headers
        ),
        body: Vec::new(),
        end: StreamEnd::Missing,
    });
    let mut trailers = String::new();
    let end = loop {
        match body.frame().await {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => requests.borrow_mut()[index].body.extend_from_slice(&data),
                Err(frame) => trailers = format!("{:?}", frame.into_trailers()),
            },
            Some(Err(_)) => break StreamEnd::Broken,
            None => break StreamEnd::Whole { trailers },
        }
    };
    requests.borrow_mut()[index].end = end;
    let mut response = Response::new(Empty::new());
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let is_one_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    // The gateway opens no tunnels, and refuses codings other than a single `chunked`.
    if head.method == Method::CONNECT {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    } else if codings.next().is_some_and(|coding| !is_one_chunked(coding))
        || codings.next().is_some()
    {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    Ok(response)
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(mut piece) = self.0.pop_front() else {
            return Poll::Pending;
        };
        let rest = piece.split_off(piece.len().min(buf.remaining()));
        if !rest.is_empty() {
            self.0.push_front(rest);
        }
        buf.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}
