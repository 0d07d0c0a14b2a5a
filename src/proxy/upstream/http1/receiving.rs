//! The body of a response as it comes, and the rest of an upload that goes on beside it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::super::body_error::{BrokenBody, UpstreamBodyError};
use super::super::upload::Upload;
use super::body::BodyReader;
use super::connection::{Http1Connection, Transport, Wire, Written};
use super::head::ResponseHead;
use super::sending::{SendError, poll_send};
use crate::proxy::wire::body::UploadBody;
use crate::proxy::wire::encoding::Http1Encoding;

/// The body of a response as it comes on its connection, which is closed when this is dropped.
#[derive(Debug)]
pub struct Http1Receiving<T> {
    /// The connection, until the body has ended or broken off.
    connection: Option<Http1Connection<T>>,
    reader: BodyReader,
    /// Bytes that have been read and not been passed on.
    unread: Bytes,
    /// Whether no byte of the body has come yet, and none has been waited for.
    is_unbegun: bool,
    /// The rest of the request, if the response began before it was sent.
    upload: Option<Upload>,
    /// Whether the connection can carry no further request.
    is_last: bool,
    keep_alive: Option<Duration>,
}

impl<T: Transport> Http1Receiving<T> {
    /// Begins the body of the response with this head; `unread` came after the head. Trailers have at
    /// most `trailer_bytes_max`.
    pub(super) fn new(
        connection: Http1Connection<T>,
        head: &ResponseHead,
        (unread, trailer_bytes_max): (Bytes, usize),
        upload: Option<Upload>,
    ) -> Self {
        Self {
            connection: Some(connection),
            reader: BodyReader::new(head.framing, trailer_bytes_max),
            is_unbegun: unread.is_empty(),
            unread,
            upload,
            is_last: head.is_last,
            keep_alive: head.keep_alive,
        }
    }

    /// Returns the transport of a 101, which no longer carries HTTP, and the bytes that came after its head.
    pub fn into_switched(mut self) -> Option<(T, Bytes)> {
        let transport = self.connection.take()?.into_transport()?;
        Some((transport, std::mem::take(&mut self.unread)))
    }

    /// Returns how long the origin keeps the connection when it is idle, if it said so.
    pub fn keep_alive(&self) -> Option<Duration> {
        self.keep_alive
    }

    /// Whether the body has ended.
    pub fn is_end(&self) -> bool {
        self.reader.is_end()
    }

    /// Whether something other than the connection's end ends the body.
    pub fn has_known_end(&self) -> bool {
        self.reader.has_known_end()
    }

    /// Returns how much is still to come.
    pub fn size_hint(&self) -> SizeHint {
        self.reader.size_hint()
    }

    /// Polls the next data or the trailers, and fails if the origin sends nothing for `timeout`; no
    /// limit if none. After an error, the connection is closed.
    pub fn poll_frame(
        &mut self,
        timeout: Option<Duration>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        let polled = self.poll_next(timeout, cx);
        if matches!(polled, Poll::Ready(Some(Err(_)))) {
            self.connection = None;
            self.upload = None;
        }
        polled
    }

    fn poll_next(
        &mut self,
        timeout: Option<Duration>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        let Some(Http1Connection(wire)) = &self.connection else {
            return Poll::Ready(None);
        };
        let broken = |error: BrokenBody| Poll::Ready(Some(Err(UpstreamBodyError::Broken(error))));
        loop {
            match self.reader.read(&mut self.unread) {
                Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                Ok(None) if self.reader.is_end() => return Poll::Ready(None),
                Ok(None) => {}
                Err(bad) => return broken(bad.into()),
            }
            if let Some(upload) = &mut self.upload
                && let Poll::Ready(ended) = upload.poll(cx)
            {
                self.upload = None;
                if let Err(error) = ended {
                    return Poll::Ready(Some(Err(UpstreamBodyError::Request(error))));
                }
            }
            match wire.poll_read(cx) {
                Poll::Ready(Ok(bytes)) if bytes.is_empty() => {
                    return match self.reader.close() {
                        Ok(()) => Poll::Ready(None),
                        Err(bad) => broken(bad.into()),
                    };
                }
                Poll::Ready(Ok(bytes)) => {
                    wire.due.progressed();
                    self.is_unbegun = false;
                    self.unread = bytes;
                }
                Poll::Ready(Err(error)) => return broken(error.into()),
                Poll::Pending => {
                    if std::mem::take(&mut self.is_unbegun) {
                        // Under Nagle's algorithm (RFC 9293, section 3.7.4), an origin that wrote its
                        // head by itself keeps a short body back until the head is acknowledged. The
                        // system delays that while the gateway has nothing to send (3.8.6.3).
                        wire.acknowledge();
                    }
                    let overdue = wire.due.poll_over(timeout, cx);
                    return overdue.map(|()| Some(Err(UpstreamBodyError::Timeout)));
                }
            }
        }
    }

    /// Takes the connection of a body that has ended, if it can carry another request; otherwise
    /// closes it.
    pub fn take_connection(&mut self) -> Option<Http1Connection<T>> {
        let connection = self.connection.take_if(|_| self.reader.is_end())?;
        self.upload = None;
        let is_reusable = !self.is_last
            && self.unread.is_empty()
            && connection.0.written() == Written::Everything;
        is_reusable.then_some(connection)
    }
}

/// Goes on sending a request whose response has begun.
pub(super) fn upload<T: Transport, B: UploadBody>(
    wire: &Rc<Wire<T>>,
    rest: Http1Encoding<B>,
) -> Upload {
    let (wire, mut rest) = (Rc::clone(wire), rest);
    Upload::spawn(async move {
        match poll_fn(|cx| poll_send(&mut rest, &wire, cx)).await {
            Err(SendError::Body(error)) => Err(error),
            // An origin that takes no more bytes may still be sending its response.
            Ok(()) | Err(SendError::Closed(_)) => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;

    use http::{HeaderValue, Method, Request};

    use super::super::Buffers;
    use super::super::scripted::{Scripted, StreamEnd};
    use super::*;
    use crate::clock::{Clock, Timestamp};
    use crate::proxy::differential::{every_cut, settle};
    use crate::proxy::wire::deadline::Sweep;
    use crate::proxy::wire::outgoing::Outgoing;
    use crate::proxy::wire::scripted_body::ScriptedBody;

    /// Reads a response, and returns how many times its bytes were acknowledged at once.
    fn acknowledged(method: &Method, origin: Scripted) -> usize {
        let seen = origin.seen();
        let deadline = Sweep::new(Clock::manual(Timestamp(1))).deadline();
        let connection = Http1Connection::new(origin, deadline, Rc::<Buffers>::default());
        let request = Request::builder().method(method).uri("/");
        let body = ScriptedBody::new(Some(0), &[]);
        let mut request = Outgoing::from(request.body(body).expect("a request"));
        let (host, is_sent) = (HeaderValue::from_static("a"), Cell::new(false));
        let minute = Duration::from_mins(1);
        let mut exchange = pin!(async {
            let response = connection.exchange(&mut request, &host, (minute, 32 << 10), &is_sent);
            let mut body = response.await.expect("a response").into_body();
            while let Some(frame) = poll_fn(|cx| body.poll_frame(Some(minute), cx)).await {
                frame.expect("a whole body");
            }
        });
        let mut is_over = false;
        settle(|cx| is_over = is_over || exchange.as_mut().poll(cx).is_ready());
        seen.acknowledged.get()
    }

    #[test]
    fn head_without_its_body_is_acknowledged_at_once_and_nothing_else_is() {
        const TWO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (method, pieces, times) in [
            (Method::GET, &[TWO, "ab"][..], 1),
            (Method::GET, &[TWO, "a", "b"], 1),
            (Method::GET, &[&TWO[..9], &TWO[9..], "ab"], 1),
            (Method::GET, &[CHUNKED, "1\r\na\r\n", "0\r\n\r\n"], 1),
            (Method::GET, &["HTTP/1.1 200 OK\r\n\r\n", "a"], 1),
            (
                Method::GET,
                &["HTTP/1.1 100 Continue\r\n\r\n", TWO, "ab"],
                1,
            ),
            (Method::GET, &[&format!("{TWO}ab")], 0),
            (Method::GET, &[&format!("{TWO}a"), "b"], 0),
            (Method::GET, &[&TWO[..9], &format!("{}ab", &TWO[9..])], 0),
            (
                Method::GET,
                &[&format!("{CHUNKED}1"), "\r\na\r\n", "0\r\n\r\n"],
                0,
            ),
            (
                Method::GET,
                &["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"],
                0,
            ),
            (Method::GET, &["HTTP/1.1 204 No Content\r\n\r\n"], 0),
            (
                Method::GET,
                &["HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n"],
                0,
            ),
            (Method::HEAD, &[TWO], 0),
        ] {
            let cut = pieces.iter().map(|piece| piece.as_bytes().to_vec());
            let origin = Scripted::new(cut.collect(), StreamEnd::Fin);
            assert_eq!(acknowledged(&method, origin), times, "{method} {pieces:?}");
        }
    }

    #[test]
    fn body_that_need_not_be_awaited_is_not_acknowledged_although_its_rest_is_awaited() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".to_vec();
        for (body, times) in [(&[][..], 1), (&[b"a".to_vec()], 0)] {
            let pieces = std::iter::once(&head).chain(body).cloned();
            let origin = Scripted::new(pieces.collect(), StreamEnd::Open).prompt();
            assert_eq!(acknowledged(&Method::GET, origin), times, "{body:?}");
        }
    }

    #[test]
    fn response_is_acknowledged_at_once_only_if_it_is_cut_behind_its_head() {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let whole = [&head[..], b"2\r\nab\r\n0\r\n\r\n"].concat();
        for pieces in every_cut(&whole) {
            let is_behind_head = pieces.len() == whole.len() || pieces[0].len() == head.len();
            let origin = Scripted::new(pieces.clone(), StreamEnd::Fin);
            let times = acknowledged(&Method::GET, origin);
            assert_eq!(times, usize::from(is_behind_head), "{pieces:?}");
        }
    }
}
