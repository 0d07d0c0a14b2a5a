//! One connection to an origin: made, used for one request at a time, closed when dropped.
//!
//! hyper drives the socket in a task of its own. [`Connection`] holds the sender's side, the task's
//! handle and one [`Deadline`] that serves connecting, waiting for the head and waiting for the
//! body in turn, so a request arms no timer. The deadline runs only while the origin is awaited:
//! [`Upload`] halts it while the client owes bytes of the request's body. `pool` decides which
//! connection a request takes, and the module above what happens around it.

use std::cell::Cell;
use std::error::Error as StdError;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::io::{Interim, Observed, UpstreamIo};
use crate::proxy::deadline::{Deadline, Elapsed};
use crate::request::hop_by_hop;

/// What the body of a request must be.
pub trait UploadBody: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + 'static {}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + 'static> UploadBody for B {}

/// An error of a request's body, of whatever type.
pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

/// A connection to an origin; dropping it closes it, whatever is under way.
pub(super) struct Connection {
    sender: SendRequest<Upload>,
    wire: Rc<Wire>,
    seen: Rc<Observed>,
    driver: AbortHandle,
}

/// What a connection, its driver and the body that it sends share.
struct Wire {
    deadline: Rc<Deadline>,
    /// How long the origin may take for what it owes now; none while it owes nothing.
    owed_within: Cell<Option<Duration>>,
    /// The error that ended the driver, until somebody is told of it.
    failure: Cell<Option<hyper::Error>>,
}

/// The body of a request on its way to an origin; none if it is empty.
///
/// Boxed, because hyper passes requests on by value a dozen times, and few of them have a body.
pub(super) struct Upload(Option<Box<Uploading<dyn AnyBody>>>);

struct Uploading<B: ?Sized> {
    /// The connection it is sent on, once that is known.
    wire: Option<Rc<Wire>>,
    body: B,
}

/// The body of a request, whatever its type is.
trait AnyBody: Body<Data = Bytes, Error = BoxError> + Unpin {}

impl<B: Body<Data = Bytes, Error = BoxError> + Unpin> AnyBody for B {}

/// Why a request got no response head.
pub(super) enum SendError {
    /// Nothing was sent: the request is back in the outbox and can go elsewhere.
    Unsent(hyper::Error),
    /// Some of it may have been sent.
    Broken(hyper::Error),
    /// The origin took too long.
    Elapsed,
}

impl Connection {
    /// Speaks HTTP/1.1 over `stream`; `deadline` is the connection's own.
    pub(super) async fn new(stream: TcpStream, deadline: Rc<Deadline>) -> hyper::Result<Self> {
        let seen = Rc::new(Observed::nothing());
        let (sender, connection) = Builder::new()
            .max_buf_size(BUFFER_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(UpstreamIo::new(stream, Rc::clone(&seen))))
            .await?;
        let wire = Rc::new(Wire {
            deadline,
            owed_within: Cell::new(None),
            failure: Cell::new(None),
        });
        let driver = tokio::task::spawn_local({
            let (wire, gate) = (Rc::clone(&wire), Arc::clone(&seen.gate));
            async move {
                let mut connection = pin!(connection);
                let waker = Waker::from(Arc::clone(&gate));
                let driven = poll_fn(|cx| {
                    gate.open_for(cx.waker());
                    connection.as_mut().poll(&mut Context::from_waker(&waker))
                });
                wire.failure.set(driven.await.err());
            }
        });
        Ok(Self {
            sender,
            wire,
            seen,
            driver: driver.abort_handle(),
        })
    }

    /// Sends the request in `outbox` and waits at most `timeout` for the head of its response.
    ///
    /// Time in which the client owes bytes of the request's body does not count.
    pub(super) async fn send(
        &mut self,
        outbox: &mut Option<Request<Upload>>,
        timeout: Duration,
    ) -> Result<Response<Incoming>, SendError> {
        if let Some(Upload(Some(uploading))) = outbox.as_mut().map(Request::body_mut) {
            uploading.wire = Some(Rc::clone(&self.wire));
        }
        self.wire.owed_within.set(Some(timeout));
        self.seen.interim.set(Interim::NONE_YET);
        self.seen.gate.open();
        let request = outbox.take();
        let request = request.expect("a request that was sent is not sent again");
        // Pinned where it is made, because it has room for the request.
        let sent = pin!(self.sender.try_send_request(request));
        let outcome = self.wire.deadline.within(timeout, sent).await;
        self.wire.owed_within.set(None);
        let mut error = match outcome {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => error,
            Err(Elapsed) => return Err(SendError::Elapsed),
        };
        *outbox = error.take_message();
        let is_unsent = outbox.is_some();
        let error = error.into_error();
        Err(if is_unsent {
            SendError::Unsent(error)
        } else {
            SendError::Broken(error)
        })
    }
}

impl Connection {
    /// Whether it is open and has neither a request to send nor a response to read.
    ///
    /// The driver reads on after a response: bytes that no request asked for end it.
    pub(super) fn is_idle(&self) -> bool {
        self.sender.is_ready() && !self.seen.is_deaf.get()
    }

    /// Polls whether the origin has owed bytes of its response for `timeout`; pending if not.
    pub(super) fn poll_overdue(&self, timeout: Duration, cx: &Context<'_>) -> Poll<()> {
        let Wire {
            deadline,
            owed_within,
            ..
        } = &*self.wire;
        if owed_within.replace(Some(timeout)).is_none() {
            deadline.arm(timeout);
        } else if deadline.is_over() {
            return Poll::Ready(());
        }
        deadline.register(cx);
        Poll::Pending
    }

    /// Says that the rest of the response is about to be taken: if the driver has finished with it,
    /// it need not be woken for that.
    pub(super) fn taking(&self) {
        if self.sender.is_ready() {
            self.seen.gate.shut();
        }
    }

    /// Notes that the origin has sent something.
    pub(super) fn paid(&self) {
        if self.wire.owed_within.take().is_some() {
            self.wire.deadline.disarm();
        }
    }

    /// Takes the error that ended the driver, if one did.
    pub(super) fn failure(&self) -> Option<hyper::Error> {
        self.wire.failure.take()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Upload {
    pub(super) fn new(body: impl UploadBody) -> Self {
        if body.is_end_stream() {
            return Self(None);
        }
        let body = body.map_err(Into::into);
        Self(Some(Box::new(Uploading { wire: None, body })))
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(uploading) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let mut polled = Pin::new(&mut uploading.body).poll_frame(cx);
        if let Some(wire) = &uploading.wire {
            match wire.owed_within.get() {
                // It is the origin's turn again, and it has its whole time.
                Some(timeout) if polled.is_ready() => wire.deadline.arm(timeout),
                _ => wire.deadline.disarm(),
            }
        }
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && let Some(trailers) = frame.trailers_mut()
        {
            hop_by_hop::strip_trailers(trailers);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let mut bodies = self.0.iter();
        bodies.all(|uploading| uploading.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let uploading = self.0.as_ref();
        uploading.map_or(SizeHint::with_exact(0), |it| it.body.size_hint())
    }
}

/// Most bytes of a response's head.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Most bytes that a connection buffers in each direction.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
