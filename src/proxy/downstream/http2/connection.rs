//! One HTTP/2 connection: it accepts streams until either side ends it.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Context, Poll};

use base64::Engine as _;
use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, Connection};
use http::header::{COOKIE, Entry, HeaderMap, HeaderValue, SEC_WEBSOCKET_KEY, UPGRADE};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite};

use super::FIELDS_MAX;
use super::body::Http2Body;
use super::heads::FrameObserver;
use super::piece::BodyPiece;
use super::resets::RESETS_MAX;
use super::state::{Http2State, StreamState};
use super::stream;
use crate::chance;
use crate::proxy::downstream::panics::PanicGuard;
use crate::proxy::downstream::registry::Registration;
use crate::proxy::downstream::request::{IncomingBody, RequestState};
use crate::proxy::wire::deadline::Deadline;
use crate::request::upgrade::switches_protocol;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The connection's requests are answered, or its client has left.
    Done,
    /// The preface or a head was not complete in time.
    HeadTimeout,
    /// What has come is not HTTP/2, or breaks its rules.
    Malformed,
    /// The client has reset too many streams, or had too many reset.
    Abused,
}

/// Streams that a connection may have at once; more are refused, and their requests never begin.
const STREAMS_MAX: u32 = 100;
/// Bytes that a client may send on one stream before any of them is forwarded.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The same for all streams of a connection together: streams that stall leave room for the others.
const CONNECTION_WINDOW: u32 = STREAMS_MAX * STREAM_WINDOW;
/// Most bytes that are kept of an answer that its client has announced room for, but takes slowly.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// How many streams of a connection the gateway may reset because the client breaks rules; refused ones
/// count too.
const LOCAL_RESETS_MAX: usize = 1024;

/// Serves a connection: `answer` gets each request and its state, and `refused` is called for each one that is
/// malformed and so never becomes a request.
pub(crate) async fn serve<T, A, F, B, E>(
    io: T,
    state: &Rc<Http2State>,
    header_bytes_max: usize,
    registration: &Registration,
    panics: &PanicGuard,
    refused: &dyn Fn(),
    answer: A,
) -> Ending
where
    T: AsyncRead + AsyncWrite + Unpin,
    A: Fn(RequestState, Request<IncomingBody>) -> F,
    F: Future<Output = Result<Response<B>, E>> + 'static,
    B: Body<Data = Bytes, Error: Error + Send + Sync + 'static> + Unpin + 'static,
    E: 'static,
{
    let handshake = builder(header_bytes_max)
        .handshake::<_, BodyPiece>(FrameObserver::new(io, Rc::clone(state)));
    let read = &state.socket.read;
    let mut connection = match read.within(state.header_timeout(), handshake).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) if error.is_io() => return Ending::Done,
        Ok(Err(_)) => return Ending::Malformed,
        Err(_) => return Ending::HeadTimeout,
    };
    state.begin();
    let accept = |(request, mut respond): AcceptResult| {
        if has_too_many_fields(request.headers()) {
            let mut answer = Response::new(());
            *answer.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            // As `h2` answers a head that has too many bytes; its client may have left.
            let _ = respond.send_response(answer, true);
            return;
        }
        let stream = StreamState::new(state);
        let method = request.method().clone();
        // Boxed, because a task is moved several times, with its whole future.
        let answered = Box::pin(answer(
            RequestState::Http2(Rc::clone(&stream)),
            incoming(request, &stream),
        ));
        let panics = panics.clone();
        tokio::task::spawn_local(async move {
            let _panics = panics;
            stream::respond(stream, method, answered, respond).await;
        });
    };
    let mut ends = Ends::default();
    poll_fn(|cx| {
        let polled = poll_serve(&mut connection, state, registration, &mut ends, &accept, cx);
        (0..state.take_malformed()).for_each(|_| refused());
        polled
    })
    .await
}

impl Http2State {
    /// Returns the reason that a last GOAWAY gives to the client, and why the connection ends, if it must end at once.
    fn must_close(&self) -> Option<(Reason, Ending)> {
        Some(if self.resets.are_too_many() {
            (Reason::ENHANCE_YOUR_CALM, Ending::Abused)
        } else if self.is_head_overdue() {
            (Reason::NO_ERROR, Ending::HeadTimeout)
        } else if self.is_idle_for_too_long() {
            (Reason::NO_ERROR, Ending::Done)
        } else {
            return None;
        })
    }
}

/// How a connection has been told to end.
#[derive(Debug, Default)]
struct Ends {
    /// After the requests that are on their way.
    is_draining: bool,
    /// At once: why, and by when the client must have taken the GOAWAY.
    closing: Option<(Ending, Rc<Deadline>)>,
}

impl Ends {
    /// Returns why the connection ends, if the client has not taken the GOAWAY in time or is evicted.
    fn cut(&self, state: &Http2State, cx: &Context<'_>) -> Option<Ending> {
        let (ending, deadline) = self.closing.as_ref()?;
        deadline.register(cx);
        (deadline.is_over() || state.socket.is_evicted()).then_some(*ending)
    }
}

type AcceptResult = (Request<h2::RecvStream>, h2::server::SendResponse<BodyPiece>);

fn poll_serve<T: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<T, BodyPiece>,
    state: &Http2State,
    registration: &Registration,
    ends: &mut Ends,
    accept: &impl Fn(AcceptResult),
    cx: &mut Context<'_>,
) -> Poll<Ending> {
    loop {
        match connection.poll_accept(cx) {
            Poll::Ready(Some(Ok(accepted))) => {
                accept(accepted);
                continue;
            }
            Poll::Ready(ended) => {
                return Poll::Ready(match (&ends.closing, ended) {
                    (Some((ending, _)), _) => *ending,
                    (None, Some(Err(error))) if error.is_library() => broken(&error),
                    _ => Ending::Done,
                });
            }
            Poll::Pending => {}
        }
        if connection.has_streams() {
            // The client may still have to take the end of an answer.
            state.extend();
        }
        if ends.closing.is_none()
            && let Some((reason, ending)) = state.must_close()
        {
            ends.closing = Some((ending, state.close()));
            connection.abrupt_shutdown(reason);
        } else if let Some(ending) = ends.cut(state, cx) {
            return Poll::Ready(ending);
        } else if (state.is_ending() || registration.ends_after_answer())
            && !std::mem::replace(&mut ends.is_draining, true)
        {
            connection.graceful_shutdown();
            state.drain();
        } else {
            state.register(cx);
            return Poll::Pending;
        }
    }
}

/// Distinguishes a client that breaks the rules from one that asks for too much: `h2` ends a connection if too many
/// streams are reset before they are accepted, or if it has to reset too many itself.
fn broken(error: &h2::Error) -> Ending {
    if error.reason() == Some(Reason::ENHANCE_YOUR_CALM) {
        Ending::Abused
    } else {
        Ending::Malformed
    }
}

fn builder(header_bytes_max: usize) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(header_bytes_max).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_local_error_reset_streams(Some(LOCAL_RESETS_MAX))
        .max_pending_accept_reset_streams(RESETS_MAX)
        .enable_connect_protocol();
    builder
}

/// Whether a head has more than [`FIELDS_MAX`] fields, before anything is done with them.
fn has_too_many_fields(headers: &HeaderMap) -> bool {
    headers.len() > FIELDS_MAX && {
        let cookies = headers.get_all(COOKIE).iter().count();
        headers.len() - cookies.saturating_sub(1) > FIELDS_MAX
    }
}

/// Turns the request of a stream into what it would be over HTTP/1.1.
fn incoming(request: Request<h2::RecvStream>, stream: &Rc<StreamState>) -> Request<IncomingBody> {
    let (mut head, receiving) = request.into_parts();
    join_cookies(&mut head.headers);
    if let Some(protocol) = head.extensions.remove::<h2::ext::Protocol>() {
        ask_to_switch(&mut head, protocol.as_str());
    }
    let body = if receiving.is_end_stream() {
        IncomingBody::Empty
    } else {
        IncomingBody::Http2(Box::new(Http2Body::new(receiving, stream, &head.headers)))
    };
    Request::from_parts(head, body)
}

/// Turns an extended CONNECT (RFC 8441) into the request for another protocol that it would be over HTTP/1.1.
fn ask_to_switch(head: &mut Parts, protocol: &str) {
    let Ok(asked) = HeaderValue::from_str(protocol) else {
        return;
    };
    if !switches_protocol(protocol.as_bytes()) {
        return;
    }
    head.method = Method::GET;
    if protocol.eq_ignore_ascii_case("websocket") {
        // HTTP/2 does without this key, but an origin of HTTP/1.1 needs it.
        let key = base64::engine::general_purpose::STANDARD.encode(&chance::hex_digits()[..16]);
        let key = HeaderValue::try_from(key).expect("base64 is a field value");
        head.headers.insert(SEC_WEBSOCKET_KEY, key);
    }
    head.headers.insert(UPGRADE, asked);
}

/// Joins the Cookie fields, which HTTP/2 lets a client split (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if let Entry::Occupied(mut entry) = headers.entry(COOKIE)
        && entry.iter().nth(1).is_some()
    {
        let lines: Vec<&[u8]> = entry.iter().map(HeaderValue::as_bytes).collect();
        let joined = HeaderValue::from_bytes(&lines.join(&b"; "[..]));
        entry.insert(joined.expect("what is made of field values is a field value"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_that_come_in_pieces_are_one_field() {
        let mut headers = HeaderMap::new();
        for piece in ["a=1", "b=2; c=3", "d=4"] {
            headers.append(COOKIE, HeaderValue::from_static(piece));
        }
        join_cookies(&mut headers);
        let joined: Vec<_> = headers.get_all(COOKIE).iter().collect();
        assert_eq!(joined, ["a=1; b=2; c=3; d=4"]);
    }
}
