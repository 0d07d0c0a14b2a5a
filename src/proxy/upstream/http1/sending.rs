//! The bytes of a request on their way to an origin.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::connection::{Transport, Wire, Written};
use crate::proxy::wire::body::{BoxError, UploadBody};
use crate::proxy::wire::encoding::Http1Encoding;

/// Why the rest of a request is not sent.
#[derive(Debug)]
pub(super) enum SendError {
    /// The request's body ended in an error of its own.
    Body(BoxError),
    /// The origin takes no more bytes.
    Closed(io::Error),
}

/// Sends until everything is written.
pub(super) fn poll_send<B: UploadBody, T: Transport>(
    request: &mut Http1Encoding<B>,
    wire: &Wire<T>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), SendError>> {
    loop {
        let (before, has_begun) = (request.collected(), wire.written() != Written::Nothing);
        let taken = poll_take(request, wire, cx).map_err(SendError::Body)?;
        if request.collected() == 0 {
            wire.recycle(request.take_buffer());
            if request.body.is_none() {
                wire.note_end();
                return Poll::Ready(Ok(()));
            }
            wire.due.await_client();
            return Poll::Pending;
        }
        if taken.is_pending() && request.collected() > before && has_begun {
            // The client's connection yields one piece at a time and may have another, so both are written together.
            // The first write does not wait, because a kept connection was checked just before.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Err(error) = ready!(poll_write(request, wire, cx)) {
            wire.note_failure();
            return Poll::Ready(Err(SendError::Closed(error)));
        }
    }
}

/// Collects the parts of the body that have come; ready if there is no room for more, or the body has ended.
fn poll_take<B: UploadBody, T: Transport>(
    request: &mut Http1Encoding<B>,
    wire: &Wire<T>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), BoxError>> {
    while request.has_room() {
        let Some(body) = &mut request.body else { break };
        let frame = ready!(Pin::new(body).poll_frame(cx)).transpose();
        wire.due.await_origin();
        request.ensure_buffer(|| wire.buffer());
        request.take(frame.map_err(Into::into)?)?;
    }
    Poll::Ready(Ok(()))
}

/// Writes all that has been collected.
fn poll_write<B, T: Transport>(
    request: &mut Http1Encoding<B>,
    wire: &Wire<T>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    ready!(request.poll_write(|pieces| wire.poll_write(pieces, cx)))?;
    ready!(wire.poll_flush(cx))?;
    request.clear();
    Poll::Ready(Ok(()))
}

#[cfg(test)]
mod tests;
