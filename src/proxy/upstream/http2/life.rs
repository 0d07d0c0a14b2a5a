//! The task that moves a connection's frames, and checks whether the origin still responds.

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

/// State of a connection that its users and its task share.
#[derive(Debug)]
pub(super) struct Life {
    /// When the task next has to check the connection.
    deadline: Rc<Deadline>,
    /// How many streams are open.
    pub(super) streams: Cell<u32>,
    /// How many streams this side has reset.
    resets: Cell<u32>,
    /// Whether the connection takes no more streams.
    pub(super) is_closed: Cell<bool>,
    /// Whether the connection was given up because nothing came.
    pub(super) is_lost: Cell<bool>,
    /// Whether a request has already reported that the connection ended.
    pub(super) has_failed: Cell<bool>,
    /// Whether anything has come since the current phase began.
    has_heard: Cell<bool>,
    phase: Cell<LivenessPhase>,
    /// The TLS failure that ended the connection, if one did.
    pub(super) tls_failure: Cell<Option<TlsFailure>>,
}

/// What the task waits for, apart from frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LivenessPhase {
    /// The time to send a PING if nothing comes; disarmed while there are no streams.
    Listening,
    /// The answer to a PING.
    Asked,
    /// The time from which another PING may be sent.
    Resting,
    /// The connection's end.
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
            phase: Cell::new(LivenessPhase::Listening),
            tls_failure: Cell::new(None),
        }
    }

    /// Counts a new stream.
    pub(super) fn opened(&self) {
        let before = self.streams.replace(self.streams.get() + 1);
        if before == 0 && self.phase.get() == LivenessPhase::Listening {
            self.enter(LivenessPhase::Listening);
        }
    }

    /// Counts the end of a stream.
    pub(super) fn closed(&self) {
        self.streams.set(self.streams.get() - 1);
    }

    /// Counts a reset stream.
    pub(super) fn note_reset(&self) {
        self.resets.set(self.resets.get() + 1);
        if self.resets.get() >= RESETS_MAX {
            self.is_closed.set(true);
        }
    }

    /// Makes the task end within [`CLOSE_TIMEOUT`].
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.enter(LivenessPhase::Closing);
    }

    fn enter(&self, phase: LivenessPhase) {
        self.phase.set(phase);
        self.has_heard.set(false);
        self.deadline.arm(match phase {
            LivenessPhase::Listening => PING_AFTER,
            LivenessPhase::Asked => PING_TIMEOUT,
            LivenessPhase::Resting => PING_AGAIN,
            LivenessPhase::Closing => CLOSE_TIMEOUT,
        });
    }

    /// Checks the deadline, and sends a PING if one is due; ready if the connection is given up.
    fn poll(&self, pings: &mut PingPong, cx: &mut Context<'_>) -> Poll<()> {
        if self.phase.get() == LivenessPhase::Asked && pings.poll_pong(cx).is_ready() {
            self.enter(LivenessPhase::Resting);
        }
        if self.deadline.is_over() {
            match self.phase.get() {
                LivenessPhase::Closing => return Poll::Ready(()),
                LivenessPhase::Listening | LivenessPhase::Resting if self.streams.get() == 0 => {
                    self.phase.set(LivenessPhase::Listening);
                    self.deadline.disarm();
                }
                LivenessPhase::Listening | LivenessPhase::Resting if self.has_heard.get() => {
                    self.enter(LivenessPhase::Listening);
                }
                LivenessPhase::Asked if self.has_heard.get() => self.enter(LivenessPhase::Asked),
                LivenessPhase::Asked => {
                    self.is_lost.set(true);
                    return Poll::Ready(());
                }
                LivenessPhase::Listening | LivenessPhase::Resting => {
                    if pings.send_ping(Ping::opaque()).is_ok() {
                        self.enter(LivenessPhase::Asked);
                    }
                }
            }
        }
        self.deadline.register(cx);
        Poll::Pending
    }
}

/// The task that drives a connection.
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

/// A connection's transport, which notes when bytes come.
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
