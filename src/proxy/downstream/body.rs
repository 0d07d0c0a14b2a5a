//! A client's body as it streams in: it has a bound, and waiting for it counts as the client's
//! delay.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body::{Body, Frame, SizeHint};

use super::body_error::RequestBodyError;
use super::capacity::HeldBytes;
use super::request::{IncomingBody, RequestState};
use crate::proxy::wire::deadline::Deadline;
use crate::request::claims;

/// The body of a client's request.
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: IncomingBody,
    client: RequestState,
    /// Bytes of the body that may still come.
    allowance: u64,
    /// Whether the answer to a refused request waits for the rest of the body. It does not if the client withholds the
    /// body until it is told to go on (100), or if the connection ends with this request.
    is_awaited: bool,
    /// Fields that decided the request, so its trailers may not have them, in addition to those that no trailers may
    /// have.
    decisive: Option<Arc<[HeaderName]>>,
    /// The part of the body that has been read ahead and comes before the rest.
    buffered: Option<Box<BufferedBody>>,
    /// Whether the body has been read ahead to its end.
    is_read: bool,
}

/// The part of a body that has been read before its request was decided.
#[derive(Debug, Default)]
struct BufferedBody {
    data: Bytes,
    /// The piece that did not fit with the others.
    last: Bytes,
    trailers: Option<HeaderMap>,
}

/// Memory for a buffered body, and the room that it takes up, which is freed with the memory.
#[derive(Debug)]
struct BodyBuffer {
    bytes: Vec<u8>,
    room: HeldBytes,
}

/// Why a body is not buffered to its end.
#[derive(Debug)]
pub(crate) enum BufferError {
    /// The listener already holds as many bytes as it may.
    Full,
    /// The body was not read in time.
    Late,
    /// The body broke off.
    Broken(RequestBodyError),
}

impl RequestBody {
    /// Wraps a client's body.
    pub(crate) fn new(incoming: IncomingBody, client: RequestState, is_awaited: bool) -> Self {
        if !incoming.is_end_stream() {
            client.expect_more();
        }
        Self {
            incoming,
            client,
            allowance: u64::MAX,
            is_awaited,
            decisive: None,
            buffered: None,
            is_read: false,
        }
    }

    /// Returns the body of a request that has none.
    pub(crate) fn empty(client: RequestState) -> Self {
        Self::new(IncomingBody::Empty, client, false)
    }

    /// Tells an HTTP/2 client that withholds the body to go on, before an answer that is made from it begins.
    pub(crate) fn ask_for(&mut self) {
        if let IncomingBody::Http2(body) = &mut self.incoming {
            body.ask_for();
        }
    }

    /// Keeps these fields out of the body's trailers, because they decided the request.
    pub(crate) fn keep_out(&mut self, decisive: &Arc<[HeaderName]>) {
        // Over HTTP/2, a body of announced length may have trailers.
        if self.client.is_http2() || self.size_hint().exact().is_none() {
            self.decisive = Some(Arc::clone(decisive));
        }
    }

    /// Lets at most `bytes_max` bytes through; a longer body breaks off.
    pub(crate) fn bound(&mut self, bytes_max: u64) {
        self.allowance = bytes_max;
    }

    /// Reads ahead to the end of the body, or until more than `buffered_max` bytes have come, within `timeout`; returns
    /// whether it ended. `read` sees each piece. Later reads of the body yield what has come first, even after an
    /// error.
    pub(crate) async fn buffer(
        &mut self,
        buffered_max: u64,
        room: HeldBytes,
        deadline: &Deadline,
        timeout: Duration,
        read: impl FnMut(&[u8]),
    ) -> Result<bool, BufferError> {
        // The read below asks the client for the body.
        self.is_awaited = true;
        let bytes = Vec::new();
        let (mut buffer, mut buffered) = (BodyBuffer { bytes, room }, BufferedBody::default());
        let filling = self.fill(&mut buffer, &mut buffered, buffered_max, read);
        let filled = deadline.within(timeout, filling).await;
        let is_whole = self.is_read && buffered.last.is_empty();
        if !buffer.bytes.is_empty() {
            buffered.data = Bytes::from_owner(buffer);
        }
        if buffered.length() > 0 || buffered.trailers.is_some() {
            self.buffered = Some(Box::new(buffered));
        }
        filled.unwrap_or(Err(BufferError::Late))?;
        Ok(is_whole)
    }

    /// Reads until the body ends or a piece does not fit.
    async fn fill(
        &mut self,
        buffer: &mut BodyBuffer,
        buffered: &mut BufferedBody,
        buffered_max: u64,
        mut read: impl FnMut(&[u8]),
    ) -> Result<(), BufferError> {
        let announced = self.incoming.size_hint().exact().unwrap_or(buffered_max);
        self.is_read = self.incoming.is_end_stream();
        while !self.is_read {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await;
            let Some(frame) = frame.transpose().map_err(BufferError::Broken)? else {
                self.is_read = true;
                break;
            };
            self.is_read = frame.is_trailers() || self.incoming.is_end_stream();
            match frame.into_data() {
                Ok(piece) => {
                    read(&piece);
                    let is_long = (buffer.bytes.len() + piece.len()) as u64 > buffered_max;
                    if is_long || !buffer.append(&piece, announced.min(buffered_max)) {
                        buffered.last = piece;
                        return if is_long {
                            Ok(())
                        } else {
                            Err(BufferError::Full)
                        };
                    }
                }
                Err(frame) => buffered.trailers = frame.into_trailers().ok(),
            }
        }
        Ok(())
    }

    /// Removes the fields that decided the request from its trailers.
    fn strip(&self, frame: &mut Frame<Bytes>) {
        if let (Some(trailers), Some(decisive)) = (frame.trailers_mut(), &self.decisive) {
            claims::strip_decisive(trailers, decisive);
        }
    }

    /// Takes the next frame that has been read ahead.
    fn take_buffered(&mut self) -> Option<Frame<Bytes>> {
        let buffered = self.buffered.as_mut()?;
        let data = if buffered.data.is_empty() {
            &mut buffered.last
        } else {
            &mut buffered.data
        };
        let frame = if data.is_empty() {
            buffered.trailers.take().map(Frame::trailers)
        } else {
            let piece = data.len().min(BUFFERED_PIECE_BYTES);
            Some(Frame::data(data.split_to(piece)))
        };
        if buffered.length() == 0 && buffered.trailers.is_none() {
            self.buffered = None;
        }
        frame
    }

    /// Reads the rest of the body and throws it away, so that the connection can be used again after an early answer.
    /// It does so only if the rest is announced, short and on its way, and the connection may go on: reading a body
    /// that the client withholds would ask for it.
    ///
    /// Over HTTP/2, the answer could be sent first. But the stream would then be reset, and some clients (curl until 8)
    /// take that for a failure and show no answer.
    pub(crate) async fn drain(mut self) {
        self.buffered = None;
        let bytes = self.size_hint().exact();
        let is_short = bytes.is_some_and(|bytes| bytes <= DRAIN_BYTES_MAX);
        if self.is_end_stream() || !self.is_awaited || !is_short {
            return;
        }
        let reading = async {
            while !self.is_end_stream() {
                let frame = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await;
                if !matches!(frame, Some(Ok(_))) {
                    return;
                }
            }
        };
        // What does not come in time is left unread, and the connection closes after the answer.
        drop(tokio::time::timeout(DRAIN_TIMEOUT, reading).await);
    }
}

impl BodyBuffer {
    /// Appends a copy of a piece if there is room, and returns whether there was: the piece itself would keep alive
    /// everything that was read with it. At most `bytes_max` bytes are expected in total.
    fn append(&mut self, piece: &[u8], bytes_max: u64) -> bool {
        let needed = self.bytes.len() + piece.len();
        if needed > self.bytes.capacity() {
            let expected = usize::try_from(bytes_max).unwrap_or(usize::MAX);
            let doubled = (2 * self.bytes.capacity()).min(expected).max(needed);
            let capacities = [doubled, needed];
            let has_room = |capacity: &usize| self.room.grow_to(*capacity);
            let Some(capacity) = capacities.into_iter().find(has_room) else {
                return false;
            };
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        true
    }
}

impl BufferedBody {
    fn length(&self) -> usize {
        self.data.len() + self.last.len()
    }
}

impl AsRef<[u8]> for BodyBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A buffered body is passed on in pieces of at most this size, which are no larger than those that a connection
/// yields.
const BUFFERED_PIECE_BYTES: usize = 64 * 1024;
/// A refused request's body that is announced to be no longer than this is read to its end.
const DRAIN_BYTES_MAX: u64 = 64 * 1024;
/// How long the answer to a refused request waits for such a short body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        if let Some(mut frame) = self.take_buffered() {
            self.strip(&mut frame);
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.is_read {
            return Poll::Ready(None);
        }
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            let overdue = self.client.poll_overdue_body(cx);
            return overdue.map(|()| Some(Err(RequestBodyError::TimedOut)));
        };
        // A read that failed because of the deadline can be told from one that failed by itself only while the deadline
        // is still armed.
        let is_overdue = self.client.is_overdue();
        self.client.body_progressed();
        Poll::Ready(match frame {
            None => {
                self.client.expect_no_more();
                None
            }
            Some(Err(_)) if is_overdue => Some(Err(RequestBodyError::TimedOut)),
            Some(Err(error)) => Some(Err(error)),
            Some(Ok(mut frame)) => {
                self.strip(&mut frame);
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.client.body_received(bytes);
                match self.allowance.checked_sub(bytes) {
                    None => Some(Err(RequestBodyError::TooLarge)),
                    Some(rest) => {
                        self.allowance = rest;
                        // The body is not polled again after this frame.
                        if frame.is_trailers() || self.incoming.is_end_stream() {
                            self.client.expect_no_more();
                        }
                        Some(Ok(frame))
                    }
                }
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.buffered.is_none() && (self.is_read || self.incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let rest = if self.is_read {
            SizeHint::with_exact(0)
        } else {
            self.incoming.size_hint()
        };
        let Some(buffered) = &self.buffered else {
            return rest;
        };
        match rest.exact() {
            // A body with trailers is not framed by its length.
            Some(rest) if buffered.trailers.is_none() => {
                SizeHint::with_exact(rest + buffered.length() as u64)
            }
            _ => SizeHint::default(),
        }
    }
}
