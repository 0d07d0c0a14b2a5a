//! One client connection: HTTP/1.1 or HTTP/2, which calls a service once per request.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::awaited::Awaited;
use super::http1::{FramingGuard, Http1Io, Http1State, PARSED_BYTES_MAX};
use super::http2::{self, Ending, Http2State};
use super::io::ClientIo;
use super::panics::PanicGuard;
use super::registry::{ConnectionState, Registration};
use super::request::{IncomingBody, RequestState};
use super::socket::Socket;
use super::timeouts::Timeouts;
use crate::fault::Reason;
use crate::proxy::wire::deadline::Sweep;
use crate::proxy::wire::read_buffer::UploadBuffer;
use crate::proxy::wire::rewound::Rewound;
use crate::request::target;
use crate::snapshot::Listener;

/// A connection that carries no further request; the client may still be reading the last answer.
pub(crate) struct Ended {
    socket: Rc<Socket>,
    /// Whether the client may still be sending.
    is_more_expected: bool,
    /// Why the last head never became a request, and how it was answered, if it was.
    pub(crate) refused_head: Option<(Reason, Option<StatusCode>)>,
}

/// What it takes to serve the requests of a connection.
pub(crate) struct Serving<'s, A> {
    pub(crate) listener: &'s Listener,
    pub(crate) sweep: &'s Rc<Sweep>,
    pub(crate) registration: &'s Registration,
    pub(crate) panics: &'s PanicGuard,
    /// The buffer into which long and chunked bodies of HTTP/1.1 are read.
    pub(crate) read_buffer: &'s Rc<UploadBuffer>,
    /// Called for each head that never became a request, except the last of its connection.
    pub(crate) refused: &'s dyn Fn(Reason),
    /// Called with each request and its state; returns the answer.
    pub(crate) answer: A,
}

impl<A, F, B, E> Serving<'_, A>
where
    A: Fn(RequestState, Request<IncomingBody>) -> F,
    F: Future<Output = Result<Response<B>, E>> + 'static,
    B: Body<Data = Bytes, Error: Error + Send + Sync + 'static> + Unpin + 'static,
    E: Error + Send + Sync + 'static,
{
    /// Serves a connection until either side ends it; `is_http2` if the client's handshake says so.
    pub(crate) async fn serve(&self, socket: Rc<Socket>, io: ClientIo, is_http2: bool) -> Ended {
        let (unread, io) = if is_http2 {
            (Bytes::new(), io)
        } else {
            match self.serve_http1(&socket, io).await {
                Served::Http1(ended) => return ended,
                Served::Preface(unread, io) => (unread, io),
            }
        };
        // Boxed, so that HTTP/1.1 needs no room for it.
        Box::pin(self.serve_http2(socket, unread, io)).await
    }

    async fn serve_http1(&self, socket: &Rc<Socket>, io: ClientIo) -> Served {
        let listener = self.listener;
        let state = Http1State::new(Rc::clone(socket), listener);
        let bypass = &state.bypass;
        let service = |request: Request<_>| {
            let state = RequestState::Http1(Rc::clone(&state));
            (self.answer)(state, IncomingBody::begin(bypass, request))
        };
        // Over TLS, the handshake says whether HTTP/2 is spoken.
        let may_be_http2 = listener.http2 && matches!(io, ClientIo::Left(_));
        let io = Http1Io::new(io, Rc::clone(&state), may_be_http2);
        let (gate, read_buffer) = (Rc::clone(&state.gate), Rc::clone(self.read_buffer));
        let mut guard = FramingGuard::new(io, gate, Rc::clone(bypass), read_buffer);
        let builder = http1_builder(listener.max_header_bytes);
        let begun = ConnectionState::Http1(Rc::clone(&state));
        self.registration.begins(begun).await;
        let (guard, unread, end) = loop {
            let unread = self.next_bytes(&state, &mut guard).await;
            if unread.is_empty() {
                let _ = poll_fn(|cx| Pin::new(&mut guard).poll_shutdown(cx)).await;
                break (guard, Bytes::new(), Ok(()));
            }
            let io = TokioIo::new(Rewound { unread, io: guard });
            let mut serving = builder.serve_connection(io, service_fn(&service));
            let end = self.serve_until_idle(&state, &mut serving).await;
            let http1::Parts { io, read_buf, .. } = serving.into_parts();
            guard = io.into_inner().io;
            if let Some(end) = end {
                break (guard, read_buf, end);
            }
            // hyper reads into a buffer while it waits, and keeps its buffers as large as they have become. Between
            // requests, what it has read and not used is empty lines.
            debug_assert!(read_buf.trim_ascii().is_empty());
        };
        let (io, held) = guard.into_parts();
        let (io, preface) = io.into_parts();
        if let Some(unread) = preface {
            return Served::Preface(unread, io);
        }
        Served::Http1(self.end_http1(&state, io, [&unread, &held], end).await)
    }

    /// Serves requests until the connection ends; `None` if it is idle and its buffers are to be dropped first.
    async fn serve_until_idle<S>(
        &self,
        state: &Http1State,
        serving: &mut http1::Connection<TokioIo<Rewound<Guard>>, S>,
    ) -> Option<hyper::Result<()>>
    where
        S: HttpService<Incoming, ResBody = B, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let mut is_closing = false;
        let polled = poll_fn(|cx| {
            loop {
                self.heed_registry(state);
                let polled = Pin::new(&mut *serving).poll(cx);
                // A request that has begun to come is still awaited, and its answer says that it is the last.
                if polled.is_ready() || is_closing || !state.ends_now() {
                    return match polled {
                        Poll::Pending if state.drops_buffers() => Poll::Ready(None),
                        polled => polled.map(Some),
                    };
                }
                is_closing = true;
                Pin::new(&mut *serving).graceful_shutdown();
            }
        });
        let end = polled.await?;
        let is_done = end.as_ref().map_or_else(hyper::Error::is_parse, |()| true);
        if is_done && !state.socket.is_write_closed() && !state.gate.has_tunnel() {
            // A request had an Upgrade field, so hyper left the connection, and what is not written yet, to the other
            // protocol. But there is no tunnel: polled again, hyper writes the rest and closes.
            let _ = serving.await;
        }
        Some(end)
    }

    /// Waits for bytes on a connection that has nothing to do, and needs no buffer meanwhile. Returns no bytes if the
    /// connection is to end, or has ended.
    async fn next_bytes(&self, state: &Http1State, guard: &mut Guard) -> Bytes {
        poll_fn(|cx| {
            let mut room = [MaybeUninit::uninit(); PARSED_BYTES_MAX];
            let mut room = ReadBuf::uninit(&mut room);
            // An error ends the connection as its end does: nobody waits for an answer.
            let read = Pin::new(&mut *guard).poll_read(cx, &mut room);
            self.heed_registry(state);
            // A request that has come is still answered.
            if read.is_pending() && state.ends_now() {
                return Poll::Ready(Bytes::new());
            }
            read.map(|_| Bytes::copy_from_slice(room.filled()))
        })
        .await
    }

    /// Tells `state` to end the connection if the registry says so.
    fn heed_registry(&self, state: &Http1State) {
        if self.registration.closes_idle() {
            state.end_connection();
        } else if self.registration.ends_after_answer() {
            state.end_after_answer();
        }
    }

    /// Returns why a connection of HTTP/1 ended, after carrying its tunnel, if there is one. `unread` is what hyper and
    /// the guard in front of it have read and not used.
    async fn end_http1(
        &self,
        state: &Http1State,
        io: ClientIo,
        unread: [&[u8]; 2],
        end: hyper::Result<()>,
    ) -> Ended {
        let (socket, listener) = (&state.socket, self.listener);
        let refused_head = end.err().and_then(|error| {
            let status_of_length = || status_of_length(unread[0], listener.max_header_bytes);
            refusal_of(state, &error, status_of_length)
        });
        if let Some(tunnel) = state.gate.take() {
            let unread = unread.concat().into();
            socket.set_write_timeout(listener.tunnel_timeout);
            self.registration.begins(ConnectionState::Tunnel).await;
            tunnel(Rewound { unread, io }).await;
        }
        Ended {
            socket: Rc::clone(socket),
            // More may still be on its way after a head that is refused, even if the whole head came while the request
            // before it was being answered.
            is_more_expected: refused_head.is_some() || state.may_be_sending(),
            refused_head,
        }
    }

    /// Serves HTTP/2 to a client that has sent `unread` already.
    async fn serve_http2(&self, socket: Rc<Socket>, unread: Bytes, io: ClientIo) -> Ended {
        let timeouts = Timeouts::of(self.listener);
        let state = Http2State::new(Rc::clone(&socket), self.sweep, timeouts);
        let begun = ConnectionState::Http2(Rc::clone(&state));
        self.registration.begins(begun).await;
        let io = Rewound { unread, io };
        let malformed = || (self.refused)(Reason::Syntax);
        let ending = http2::serve(
            io,
            &state,
            self.listener.max_header_bytes,
            self.registration,
            self.panics,
            &malformed,
            &self.answer,
        );
        let refused_head = match ending.await {
            Ending::Done => None,
            Ending::HeadTimeout => Some((Reason::HeadTimeout, None)),
            Ending::Malformed => Some((Reason::Syntax, None)),
            Ending::Abused => Some((Reason::TooManyResets, None)),
        };
        let is_between_requests = state.awaited() == Awaited::NextRequest;
        Ended {
            is_more_expected: !is_between_requests || refused_head.is_some(),
            socket,
            refused_head,
        }
    }
}

/// The reader between a client's bytes and hyper.
type Guard = FramingGuard<Http1Io<ClientIo>>;

/// What became of a connection on which HTTP/1.1 was to be spoken.
enum Served {
    Http1(Ended),
    /// It began as HTTP/2 does, with these bytes.
    Preface(Bytes, ClientIo),
}

impl Ended {
    /// Closes the connection in such a way that the client can read its last answer: the gateway, which has closed its
    /// side, reads on for a while. If the connection is to make room for another, it closes at once.
    ///
    /// This takes a while, so it comes last: all that is recorded of the connection is known before.
    pub(crate) async fn lingering_close(self, registration: &Registration, sweep: &Sweep) {
        let Self { socket, .. } = self;
        let may_linger = socket.is_write_closed() && !socket.is_evicted();
        if may_linger && (self.is_more_expected || socket.has_unread()) {
            linger(&socket, registration, sweep).await;
        }
    }
}

/// Reads and throws away what a client still sends after the gateway has closed its side.
pub(super) async fn linger(socket: &Rc<Socket>, registration: &Registration, sweep: &Sweep) {
    let lingering = ConnectionState::Lingering {
        socket: Rc::clone(socket),
        since: sweep.swept(),
    };
    registration.begins(lingering).await;
    socket.lingering_close(registration.is_draining()).await;
}

/// Returns why a connection ended before a request could begin, and how hyper answered its head. `None` if a request
/// ended the connection, because that is recorded with the request.
fn refusal_of(
    state: &Http1State,
    error: &hyper::Error,
    status_of_length: impl FnOnce() -> StatusCode,
) -> Option<(Reason, Option<StatusCode>)> {
    let is_overdue = state.is_overdue();
    Some(match state.awaited() {
        Awaited::Head if is_overdue => (Reason::HeadTimeout, Some(StatusCode::REQUEST_TIMEOUT)),
        _ if error.is_parse_too_large() => (Reason::HeadTooLarge, Some(status_of_length())),
        // A client of HTTP/2 would not understand an HTTP/1.1 answer, and gets none.
        _ if error.is_parse_version_h2() => (Reason::Syntax, None),
        _ if error.is_parse() => (Reason::Syntax, Some(StatusCode::BAD_REQUEST)),
        Awaited::Head if error.is_incomplete_message() => (Reason::HeadIncomplete, None),
        _ => return None,
    })
}

fn http1_builder(header_bytes_max: usize) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None)
        // So hyper does not look for the client's end while a request is worked on: `Socket::poll_gone` notices it.
        .half_close(true)
        .max_header_size(header_bytes_max)
        .max_buf_size(header_bytes_max.max(BUFFER_BYTES_MIN));
    builder
}

/// Returns how hyper answered a head that is too large: 414 if only its target is too long.
fn status_of_length(head: &[u8], head_bytes_max: usize) -> StatusCode {
    let is_whole = memmem::find(head, b"\r\n\r\n").is_some_and(|end| end + 4 <= head_bytes_max);
    let target = head.split(|&byte| byte == b' ').nth(1);
    if is_whole && target.is_some_and(|target| target.len() > target::TARGET_BYTES_MAX) {
        StatusCode::URI_TOO_LONG
    } else {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    }
}

/// hyper's read and write buffers may grow to at least this size, however small `max_header_bytes` is.
const BUFFER_BYTES_MIN: usize = 64 * 1024;
