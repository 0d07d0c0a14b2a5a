//! What the codec and hyper's client make of a response.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::Builder;
use hyper::ext::ReasonPhrase;
use hyper_util::rt::TokioIo;

use super::super::scripted::{Scripted, StreamEnd};
use super::super::{BadBody, BadHead, Buffers, Http1Connection, Http1Error, Http1Receiving};
use crate::clock::{Clock, Timestamp};
use crate::proxy::differential::settle;
use crate::proxy::upstream::{BrokenBody, UpstreamBodyError};
use crate::proxy::wire::deadline::{Deadline, Sweep};
use crate::proxy::wire::outgoing::Outgoing;

/// A response to be read, and how it comes.
#[derive(Clone)]
pub struct Case {
    /// The method of the request.
    pub method: Method,
    /// All bytes that the origin sends.
    pub bytes: Vec<u8>,
    /// The pieces into which these bytes are cut.
    pub pieces: VecDeque<Vec<u8>>,
    /// What comes after the bytes.
    pub end: StreamEnd,
}

/// What one reader made of a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The head, unless it is refused or has not come.
    pub head: Option<Head>,
    pub body: Vec<u8>,
    pub trailers: HeaderMap,
    pub progress: Progress,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    pub version: Version,
    pub status: StatusCode,
    pub reason: Option<ReasonPhrase>,
    pub headers: HeaderMap,
}

/// How far a reader got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// More has to come.
    #[default]
    Waiting,
    /// The response was refused, or broke off.
    Broken,
    /// The response is whole, and its connection can carry another request or not.
    Whole { is_reusable: bool },
}

/// Why the codec refuses a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Head(BadHead),
    Body(BadBody),
}

/// The codec with the buffers of a worker.
pub struct Codec {
    deadline: Rc<Deadline>,
    buffers: Rc<Buffers>,
}

/// A response that is being read.
#[derive(Default)]
struct Reading {
    outcome: RefCell<Outcome>,
    refusal: Cell<Option<Refusal>>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, end, .. } = self;
        let cuts: Vec<_> = self.pieces.iter().map(Vec::len).collect();
        let bytes = self.bytes.escape_ascii();
        write!(f, "{bytes} to {method} in pieces of {cuts:?}, then {end:?}")
    }
}

impl Outcome {
    /// Whether a head has come, and nothing was refused or broke off.
    pub fn is_accepted(&self) -> bool {
        self.head.is_some() && self.progress != Progress::Broken
    }
}

impl Codec {
    /// Makes a codec whose clock stands still.
    pub fn new() -> Self {
        Self {
            deadline: Sweep::new(Clock::manual(Timestamp(1_000_000))).deadline(),
            buffers: Rc::default(),
        }
    }

    /// Reads a response. If it is refused, also returns why, and how many bytes had been read by then.
    pub fn read(&self, case: &Case) -> (Outcome, Option<(Refusal, usize)>) {
        let origin = Scripted::new(case.pieces.clone(), case.end);
        let seen = origin.seen();
        let reading = Reading::default();
        let connection =
            Http1Connection::new(origin, Rc::clone(&self.deadline), Rc::clone(&self.buffers));
        let mut exchange = pin!(reading.read(connection, &case.method));
        let mut is_over = false;
        settle(|cx| is_over = is_over || exchange.as_mut().poll(cx).is_ready());
        let refusal = reading.refusal.get();
        (
            reading.outcome.take(),
            refusal.map(|refusal| (refusal, seen.read.get())),
        )
    }
}

impl Reading {
    async fn read(&self, connection: Http1Connection<Scripted>, method: &Method) {
        let mut request = Outgoing::from(request(method));
        let host = HeaderValue::from_static("a");
        let is_seen = Cell::new(false);
        let exchanged = connection.exchange(&mut request, &host, (TIMEOUT, 32 << 10), &is_seen);
        let progress = match exchanged.await {
            Ok(response) => {
                self.outcome.borrow_mut().head = Some(Head::of(&response));
                self.read_body(response.into_body()).await
            }
            Err(Http1Error::BadHead(bad)) => {
                self.refusal.set(Some(Refusal::Head(bad)));
                Progress::Broken
            }
            Err(_) => Progress::Broken,
        };
        self.outcome.borrow_mut().progress = progress;
    }

    async fn read_body(&self, mut body: Http1Receiving<Scripted>) -> Progress {
        while let Some(frame) = poll_fn(|cx| body.poll_frame(Some(TIMEOUT), cx)).await {
            match frame {
                Ok(frame) => self.outcome.borrow_mut().add(frame),
                Err(UpstreamBodyError::Broken(BrokenBody::Bad(bad)))
                    if bad != BadBody::Incomplete =>
                {
                    self.refusal.set(Some(Refusal::Body(bad)));
                    return Progress::Broken;
                }
                Err(_) => return Progress::Broken,
            }
        }
        let connection = body.take_connection();
        Progress::Whole {
            is_reusable: connection
                .is_some_and(|connection| connection.seems_quiet() && connection.is_quiet()),
        }
    }
}

/// Lets hyper's client read a response, as the gateway did before it had a codec of its own.
pub fn hyper(case: &Case) -> Outcome {
    let origin = Scripted::new(case.pieces.clone(), case.end);
    let outcome = RefCell::<Outcome>::default();
    let handshake = Builder::new()
        .max_buf_size(64 * 1024)
        .max_header_size(32 * 1024)
        .handshake(TokioIo::new(origin));
    let mut handshake = pin!(handshake);
    let mut made = None;
    settle(|cx| {
        if let Poll::Ready(ready) = handshake.as_mut().poll(cx) {
            made = Some(ready.expect("a connection"));
        }
    });
    let (mut sender, connection) = made.expect("it waits for nothing");
    let mut connection = pin!(connection);
    let response = sender.send_request(request(&case.method));
    let mut exchange = pin!(async {
        let Ok(response) = response.await else {
            outcome.borrow_mut().progress = Progress::Broken;
            return;
        };
        outcome.borrow_mut().head = Some(Head::of(&response));
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                outcome.borrow_mut().progress = Progress::Broken;
                return;
            };
            outcome.borrow_mut().add(frame);
        }
        outcome.borrow_mut().progress = Progress::Whole { is_reusable: false };
    });
    let (mut is_over, mut is_closed) = (false, false);
    settle(|cx| {
        is_closed = is_closed || connection.as_mut().poll(cx).is_ready();
        is_over = is_over || exchange.as_mut().poll(cx).is_ready();
    });
    let mut outcome = outcome.take();
    if let Progress::Whole { is_reusable } = &mut outcome.progress {
        *is_reusable = sender.is_ready();
    }
    outcome
}

impl Head {
    /// Returns the head as the codec passes it on: without what concerns its connection (RFC 9110,
    /// section 7.6.1), and without the length of a 204 (8.6).
    pub fn passed_on(mut self) -> Self {
        let options = self.headers.get_all(CONNECTION).iter().cloned();
        let options: Vec<_> = options.collect();
        let options = options
            .iter()
            .flat_map(|option| option.as_bytes().split(|&value| value == b','));
        let named = options.filter_map(|option| HeaderName::from_bytes(option.trim_ascii()).ok());
        for name in named.filter(|named| !matches!(*named, HOST | CONTENT_LENGTH)) {
            self.headers.remove(name);
        }
        for name in HOP_BY_HOP {
            self.headers.remove(name);
        }
        if self.status == StatusCode::NO_CONTENT {
            self.headers.remove(CONTENT_LENGTH);
        }
        if let Some(length) = self.headers.get_mut(CONTENT_LENGTH)
            && let Some(digits) = length.as_bytes().strip_prefix(b"0")
            && let Some(bytes) = str::from_utf8(digits)
                .ok()
                .and_then(|from_utf8| from_utf8.parse::<u64>().ok())
        {
            *length = bytes.into();
        }
        self.version = Version::HTTP_11;
        self
    }

    fn of<B>(response: &Response<B>) -> Self {
        Self {
            version: response.version(),
            status: response.status(),
            reason: response.extensions().get().cloned(),
            headers: response.headers().clone(),
        }
    }
}

impl Outcome {
    /// Returns the same outcome with its head as the codec passes it on.
    pub fn passed_on(mut self) -> Self {
        self.head = self.head.map(Head::passed_on);
        self
    }

    fn add(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(data) => self.body.extend_from_slice(&data),
            Err(frame) => self.trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
}

fn request(method: &Method) -> Request<Empty<Bytes>> {
    let request = Request::builder().method(method).uri("/");
    request.body(Empty::new()).expect("a request")
}

/// A timeout that never elapses, because the clock stands still.
const TIMEOUT: Duration = Duration::from_mins(1);

const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];
