//! The body of a response as it comes, and the rest of an upload that goes on beside it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::super::error::{BrokenBody, UpstreamBodyError};
use super::super::upload::Upload;
use super::UploadBody;
use super::body::BodyReader;
use super::connection::{Connection, Transport, Wire, Written};
use super::head::ResponseHead;
use super::sending::{SendError, Sending};

/// The body of a response as it comes on its connection, which is closed when this is dropped.
#[derive(Debug)]
pub struct Receiving<T> {
    /// The connection, until the body has ended or broken off.
    connection: Option<Connection<T>>,
    reader: BodyReader,
    /// What has been read of it and not been passed on.
    unread: Bytes,
    /// The rest of the request, if the response began before it was sent.
    upload: Option<Upload>,
    /// Whether the connection can carry no further request.
    is_last: bool,
    keep_alive: Option<Duration>,
}

impl<T: Transport> Receiving<T> {
    /// Begins the body of the response with this head; `unread` came with it.
    pub(super) fn new(
        connection: Connection<T>,
        head: &ResponseHead,
        unread: Bytes,
        upload: Option<Upload>,
    ) -> Self {
        Self {
            connection: Some(connection),
            reader: BodyReader::new(head.framing),
            unread,
            upload,
            is_last: head.is_last,
            keep_alive: head.keep_alive,
        }
    }

    /// Returns the connection of a 101, which speaks HTTP no more, and what came behind its head.
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

    /// Returns how much is still to come.
    pub fn size_hint(&self) -> SizeHint {
        self.reader.size_hint()
    }

    /// Polls the next data or the trailers, for which the origin has `timeout` if it has sent nothing
    /// before; none: any time. After an error, the connection is closed.
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
        let Some(Connection(wire)) = &self.connection else {
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
                    self.unread = bytes;
                }
                Poll::Ready(Err(error)) => return broken(error.into()),
                Poll::Pending => {
                    let overdue = wire.due.poll_over(timeout, cx);
                    return overdue.map(|()| Some(Err(UpstreamBodyError::Timeout)));
                }
            }
        }
    }

    /// Takes the connection of a body that has ended, if it can carry another request; otherwise
    /// closes it.
    pub fn take_connection(&mut self) -> Option<Connection<T>> {
        let connection = self.connection.take_if(|_| self.reader.is_end())?;
        self.upload = None;
        let is_reusable = !self.is_last
            && self.unread.is_empty()
            && connection.0.written() == Written::Everything;
        is_reusable.then_some(connection)
    }
}

/// Goes on sending a request whose response has begun.
pub(super) fn upload<T: Transport, B: UploadBody>(wire: &Rc<Wire<T>>, rest: Sending<B>) -> Upload {
    let (wire, mut rest) = (Rc::clone(wire), rest);
    Upload::spawn(async move {
        match poll_fn(|cx| rest.poll(&wire, cx)).await {
            Err(SendError::Body(error)) => Err(error),
            // An origin that takes no more may still be sending its response.
            Ok(()) | Err(SendError::Closed(_)) => Ok(()),
        }
    })
}
