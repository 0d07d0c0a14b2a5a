//! One request on a stream, from its head to the end of its answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, SEC_WEBSOCKET_ACCEPT, UPGRADE};
use http::{HeaderValue, Method, Response, StatusCode};
use http_body::{Body, Frame};

use super::piece::BodyPiece;
use super::state::StreamState;

/// Why a stream ends before its answer does.
enum Broken {
    /// The client reset it, or its connection has ended.
    Reset,
    /// The client took nothing of the answer for too long.
    Stalled,
    /// The answer's body broke off.
    Body,
}

/// Answers one request, unless the client resets the stream first.
pub(super) async fn respond<F, B, E>(
    state: Rc<StreamState>,
    method: Method,
    answer: F,
    mut respond: SendResponse<BodyPiece>,
) where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Data = Bytes> + Unpin,
{
    let mut answer = pin!(answer);
    let answered = poll_fn(|cx| {
        state.register(cx);
        if respond.poll_reset(cx).is_ready() {
            return Poll::Ready(None);
        }
        let answered = answer.as_mut().poll(cx);
        for interim in state.take_interim() {
            // If the stream takes no interim answer, it will end by itself.
            let _ = respond.send_informational(interim);
        }
        answered.map(Some)
    });
    let Some(Ok(response)) = answered.await else {
        // Before the head of an answer, only the client ends a stream.
        state.note_reset();
        return;
    };
    let (head, mut body) = response.into_parts();
    let mut head = Response::from_parts(head, ());
    let is_head = method == Method::HEAD;
    if head.status() == StatusCode::SWITCHING_PROTOCOLS {
        state.begin_tunnel();
    }
    complete(&mut head, is_head, &body, || state.connection().date());
    let is_end = is_head || body.is_end_stream();
    let Ok(mut stream) = respond.send_response(head, is_end) else {
        respond.send_reset(Reason::INTERNAL_ERROR);
        return;
    };
    state.connection().resets.note_answer();
    if is_end {
        return;
    }
    let mut rest = Bytes::new();
    let mut sent = poll_fn(|cx| poll_pipe(&mut body, &mut rest, &mut stream, &state, cx)).await;
    if sent.is_ok() {
        // The answer has ended, whether the client takes its end or not.
        drop(body);
        sent = written(&mut stream, &state).await;
    }
    match sent {
        Ok(()) | Err(Broken::Reset) => {}
        Err(Broken::Stalled) => stream.send_reset(Reason::CANCEL),
        Err(Broken::Body) => stream.send_reset(Reason::INTERNAL_ERROR),
    }
}

/// Turns the head of an answer into one for HTTP/2.
fn complete(
    head: &mut Response<()>,
    is_head: bool,
    body: &impl Body,
    date: impl FnOnce() -> HeaderValue,
) {
    let is_without_length = matches!(
        head.status(),
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    if head.status() == StatusCode::SWITCHING_PROTOCOLS {
        // What is a 101 over HTTP/1.1 is a 200 over HTTP/2 (RFC 8441, section 5).
        *head.status_mut() = StatusCode::OK;
        head.headers_mut().remove(SEC_WEBSOCKET_ACCEPT);
    }
    // Fields that concern the connection belong to HTTP/1 only.
    if head.status() == StatusCode::UPGRADE_REQUIRED {
        head.headers_mut().remove(UPGRADE);
    }
    let headers = head.headers_mut();
    headers.remove(CONNECTION);
    if let Some(bytes) = body.size_hint().exact()
        // The empty body of an answer to HEAD says nothing of the length.
        && !(is_without_length || is_head && bytes == 0)
        && !headers.contains_key(CONTENT_LENGTH)
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    if !headers.contains_key(DATE) {
        headers.insert(DATE, date());
    }
}

/// Sends what the body has and the client has room for. Room is requested only once there is something to send, because
/// other streams of the connection would have to do without it.
fn poll_pipe<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    rest: &mut Bytes,
    stream: &mut SendStream<BodyPiece>,
    state: &Rc<StreamState>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Broken>> {
    loop {
        if stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Broken::Reset));
        }
        while !rest.is_empty() {
            let room = ready!(poll_room(stream, rest.len(), state, cx))?;
            let piece = BodyPiece::new(rest.split_to(room.min(rest.len())), state);
            let is_end = rest.is_empty() && body.is_end_stream();
            stream.send_data(piece, is_end).map_err(|_| Broken::Reset)?;
            if is_end {
                return Poll::Ready(Ok(()));
            }
        }
        let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
            let stalled = state.poll_stalled_unwritten(cx);
            return stalled.map(|()| Err(Broken::Stalled));
        };
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => {
                stream.reserve_capacity(data.len());
                *rest = data;
            }
            Some(Ok(Err(frame))) => {
                let Ok(trailers) = frame.into_trailers() else {
                    continue;
                };
                // Trailers that cannot be sent are left out.
                let sent = stream.send_trailers(trailers);
                let sent =
                    sent.or_else(|_| stream.send_data(BodyPiece::new(Bytes::new(), state), true));
                return Poll::Ready(sent.map_err(|_| Broken::Reset));
            }
            Some(Err(_)) => return Poll::Ready(Err(Broken::Body)),
            None => {
                let sent = stream.send_data(BodyPiece::new(Bytes::new(), state), true);
                return Poll::Ready(sent.map_err(|_| Broken::Reset));
            }
        }
    }
}

/// Polls how many of `wanted` bytes the client has room for.
fn poll_room(
    stream: &mut SendStream<BodyPiece>,
    wanted: usize,
    state: &StreamState,
    cx: &mut Context<'_>,
) -> Poll<Result<usize, Broken>> {
    stream.reserve_capacity(wanted);
    loop {
        let room = stream.capacity();
        if room > 0 {
            state.taken();
            return Poll::Ready(Ok(room));
        }
        match stream.poll_capacity(cx) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(_) => return Poll::Ready(Err(Broken::Reset)),
            Poll::Pending => {
                let stalled = state.poll_stalled(cx);
                return stalled.map(|()| Err(Broken::Stalled));
            }
        }
    }
}

/// Waits until `h2` has written the end of an answer.
async fn written(stream: &mut SendStream<BodyPiece>, state: &StreamState) -> Result<(), Broken> {
    let mut has_waited = false;
    poll_fn(|cx| {
        if state.is_written() {
            return Poll::Ready(Ok(()));
        }
        if !std::mem::replace(&mut has_waited, true) {
            // The connection's task is ready, and has its turn before this one. It usually writes everything, so most
            // of the time this task need not register to be woken, nor arm a deadline.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        state.register_end(cx);
        if stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Broken::Reset));
        }
        let stalled = state.poll_stalled(cx);
        stalled.map(|()| Err(Broken::Stalled))
    })
    .await
}
