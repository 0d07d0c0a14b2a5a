//! One client connection: hyper over the bytes of HTTP/1.1 calls a service once per request.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpStream;

use super::http1::{Awaited, Http1Io, RequestState, Strict};
use super::registry::Registration;
use super::socket::Socket;
use crate::fault::Reason;
use crate::proxy::deadline::Sweep;
use crate::request::target;
use crate::snapshot::Listener;

/// A connection that carries no further request; the client may still be reading the last answer.
pub(crate) struct Ended {
    state: Rc<RequestState>,
    /// Why the last head never became a request, and how it was answered, if it was.
    pub(crate) refused_head: Option<(Reason, Option<StatusCode>)>,
}

/// Serves a connection until either side ends it: `answer` gets each request and the state of its
/// connection.
///
/// # Errors
/// The operating system's, if the socket cannot be used.
pub(crate) async fn serve<A, F, B, E>(
    stream: std::net::TcpStream,
    listener: &Listener,
    sweep: &Sweep,
    registration: &Registration,
    index: usize,
    answer: A,
) -> std::io::Result<Ended>
where
    A: Fn(Rc<RequestState>, Request<Incoming>) -> F,
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Data = Bytes, Error: Error + Send + Sync + 'static> + 'static,
    E: Error + Send + Sync + 'static,
{
    stream.set_nodelay(true)?;
    let socket = Socket::new(TcpStream::from_std(stream)?, sweep, listener.body_timeout);
    let io = socket.io();
    let state = RequestState::new(socket, listener);
    let service = service_fn(|request| answer(Rc::clone(&state), request));
    let io = Strict::new(Http1Io::new(io, Rc::clone(&state)));
    let mut serving = http1::Builder::new()
        .header_read_timeout(None)
        .half_close(false)
        .max_header_size(listener.max_header_bytes)
        .max_buf_size(listener.max_header_bytes.max(BUFFER_BYTES_MIN))
        .serve_connection(TokioIo::new(io), service);
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    registration.is_served(waker, Rc::clone(&state), index);
    let is_draining = || registration.is_draining(state.awaited());
    let mut is_closing = false;
    let end = poll_fn(|cx| {
        loop {
            if !is_closing && is_draining() {
                is_closing = true;
                Pin::new(&mut serving).graceful_shutdown();
            }
            let polled = Pin::new(&mut serving).poll(cx);
            // Its first byte may just have arrived.
            if polled.is_ready() || is_closing || !is_draining() {
                return polled;
            }
        }
    })
    .await;
    let unread = serving.into_parts().read_buf;
    let refused_head = end.err().and_then(|error| {
        let status_of_length = || status_of_length(&unread, listener.max_header_bytes);
        refusal_of(&state, &error, status_of_length)
    });
    Ok(Ended {
        state,
        refused_head,
    })
}

impl Ended {
    /// Closes the connection in such a way that the client can read its last answer.
    pub(crate) async fn lingering_close(self) {
        self.state.lingering_close().await;
    }
}

/// Says why a connection ended before a request could begin, and how hyper answered its head. None
/// if a request ended the connection: that is recorded with the request.
fn refusal_of(
    state: &RequestState,
    error: &hyper::Error,
    status_of_length: impl FnOnce() -> StatusCode,
) -> Option<(Reason, Option<StatusCode>)> {
    let is_overdue = state.is_overdue();
    Some(match state.awaited() {
        Awaited::Head if is_overdue => (Reason::HeadTimeout, Some(StatusCode::REQUEST_TIMEOUT)),
        _ if error.is_parse_too_large() => (Reason::HeadTooLarge, Some(status_of_length())),
        // Its sender would not understand an HTTP/1.1 answer and gets none.
        _ if error.is_parse_version_h2() => (Reason::Syntax, None),
        _ if error.is_parse() => (Reason::Syntax, Some(StatusCode::BAD_REQUEST)),
        Awaited::Head if error.is_incomplete_message() => (Reason::HeadIncomplete, None),
        _ => return None,
    })
}

/// Says how hyper answered a head that is too large: 414 if only its target is too long.
fn status_of_length(head: &[u8], head_bytes_max: usize) -> StatusCode {
    let is_whole = memmem::find(head, b"\r\n\r\n").is_some_and(|end| end + 4 <= head_bytes_max);
    let target = head.split(|&byte| byte == b' ').nth(1);
    if is_whole && target.is_some_and(|target| target.len() > target::TARGET_BYTES_MAX) {
        StatusCode::URI_TOO_LONG
    } else {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    }
}

/// hyper's read and write buffers hold at least this much.
const BUFFER_BYTES_MIN: usize = 64 * 1024;
