//! The task that moves a connection's frames, and sees whether the origin is still there.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::Connection as Frames;
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{CLOSE_TIMEOUT, PING_AFTER, PING_AGAIN, PING_TIMEOUT, RESETS_MAX};
use crate::fault::TlsFailure;
use crate::proxy::wire::deadline::Deadline;
use crate::proxy::wire::forward_writes;

/// What is known of a connection by those who use it and by its task.
#[derive(Debug)]
pub(super) struct Life {
    /// When the task has to look at the connection.
    deadline: Rc<Deadline>,
    /// How many streams there are.
    pub(super) streams: Cell<u32>,
    /// How many streams have been reset.
    resets: Cell<u32>,
    /// Whether it takes no more streams.
    pub(super) is_closed: Cell<bool>,
    /// Whether it was given up because nothing came.
    pub(super) is_lost: Cell<bool>,
    /// Whether a request has been told that it ended.
    pub(super) has_failed: Cell<bool>,
    /// Whether anything has come since this was last looked at.
    has_heard: Cell<bool>,
    phase: Cell<StreamPhase>,
    /// What broke TLS, if that ended the connection.
    pub(super) tls_failure: Cell<Option<TlsFailure>>,
}

/// What the task waits for, besides frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamPhase {
    /// To ask if nothing comes; disarmed while there are no streams.
    Listening,
    /// The answer to a PING.
    Asked,
    /// For the time in which a connection is not asked again.
    Resting,
    /// To be closed.
    Closing,
}

impl Life {
    pub(super) fn new(deadline: Rc<Deadline>) -> Self {
        Self {
            deadline,
            streams: Cell::new(0),
            resets: Cell::new(0),
            is_closed: Cell::new(false),
            is_lost: Cell::new(false),
            has_failed: Cell::new(false),
            has_heard: Cell::new(false),
            phase: Cell::new(StreamPhase::Listening),
            tls_failure: Cell::new(None),
        }
    }

    /// Notes a stream more.
    pub(super) fn opened(&self) {
        let before = self.streams.replace(self.streams.get() + 1);
        if before == 0 && self.phase.get() == StreamPhase::Listening {
            self.enter(StreamPhase::Listening);
        }
    }

    /// Notes a stream less.
    pub(super) fn closed(&self) {
        self.streams.set(self.streams.get() - 1);
    }

    /// Notes that a stream was reset.
    pub(super) fn note_reset(&self) {
        self.resets.set(self.resets.get() + 1);
        if self.resets.get() >= RESETS_MAX {
            self.is_closed.set(true);
        }
    }

    /// Lets the task end soon.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.enter(StreamPhase::Closing);
    }

    fn enter(&self, phase: StreamPhase) {
        self.phase.set(phase);
        self.has_heard.set(false);
        self.deadline.arm(match phase {
            StreamPhase::Listening => PING_AFTER,
            StreamPhase::Asked => PING_TIMEOUT,
            StreamPhase::Resting => PING_AGAIN,
            StreamPhase::Closing => CLOSE_TIMEOUT,
        });
    }

    /// Does what is due; ready if the connection is given up.
    fn poll(&self, pings: &mut PingPong, cx: &mut Context<'_>) -> Poll<()> {
        if self.phase.get() == StreamPhase::Asked && pings.poll_pong(cx).is_ready() {
            self.enter(StreamPhase::Resting);
        }
        if self.deadline.is_over() {
            match self.phase.get() {
                StreamPhase::Closing => return Poll::Ready(()),
                StreamPhase::Listening | StreamPhase::Resting if self.streams.get() == 0 => {
                    self.phase.set(StreamPhase::Listening);
                    self.deadline.disarm();
                }
                StreamPhase::Listening | StreamPhase::Resting if self.has_heard.get() => {
                    self.enter(StreamPhase::Listening);
                }
                StreamPhase::Asked if self.has_heard.get() => self.enter(StreamPhase::Asked),
                StreamPhase::Asked => {
                    self.is_lost.set(true);
                    return Poll::Ready(());
                }
                StreamPhase::Listening | StreamPhase::Resting => {
                    if pings.send_ping(Ping::opaque()).is_ok() {
                        self.enter(StreamPhase::Asked);
                    }
                }
            }
        }
        self.deadline.register(cx);
        Poll::Pending
    }
}

/// The task's part of a connection.
pub(super) struct Http2Driver<T: AsyncRead + AsyncWrite + Unpin> {
    frames: Frames<Observed<T>, Bytes>,
    pings: PingPong,
    life: Rc<Life>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Http2Driver<T> {
    pub(super) fn new(mut frames: Frames<Observed<T>, Bytes>, life: Rc<Life>) -> Self {
        let pings = frames.ping_pong().expect("they are taken once");
        Self {
            frames,
            pings,
            life,
        }
    }

    /// Moves frames; ready when the connection has ended.
    pub(super) fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        Pin::new(&mut self.frames).poll(cx)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Future for Http2Driver<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = self.get_mut();
        let has_ended = driver.poll_frames(cx).is_ready();
        if !has_ended {
            ready!(driver.life.poll(&mut driver.pings, cx));
        }
        driver.life.is_closed.set(true);
        Poll::Ready(())
    }
}

/// What carries a connection's bytes; notes when some come.
#[derive(Debug)]
pub(super) struct Observed<T> {
    transport: T,
    life: Rc<Life>,
}

impl<T> Observed<T> {
    pub(super) fn new(transport: T, life: Rc<Life>) -> Self {
        Self { transport, life }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Observed<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let observed = self.get_mut();
        let read = ready!(Pin::new(&mut observed.transport).poll_read(cx, buffer));
        observed.life.has_heard.set(true);
        if let Err(error) = &read {
            let failure = error
                .get_ref()
                .and_then(|get_ref| get_ref.downcast_ref().copied());
            observed.life.tls_failure.set(failure);
        }
        Poll::Ready(read)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Observed<T> {
    forward_writes!(transport);
}
