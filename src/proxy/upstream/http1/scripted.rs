//! An origin in memory, for tests.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Transport;

/// A connection to an origin that answers in given pieces as soon as it has been written to. Each
/// piece comes by itself.
#[derive(Debug)]
pub struct Scripted {
    pieces: VecDeque<Vec<u8>>,
    end: StreamEnd,
    /// Whether the next piece has to wait for a turn.
    is_read_paused: bool,
    seen: Rc<Seen>,
}

/// What comes after the last piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Nothing, and the connection stays open.
    Open,
    /// The origin closes its side.
    Fin,
    /// The connection breaks.
    Reset,
}

/// What the origin has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// What was written to it.
    pub written: RefCell<Vec<u8>>,
    /// How much was read of what it says.
    pub read: Cell<usize>,
}

impl Scripted {
    /// An origin that says `pieces`.
    pub fn new(mut pieces: VecDeque<Vec<u8>>, end: StreamEnd) -> Self {
        // A read of nothing would be the end.
        pieces.retain(|piece| !piece.is_empty());
        Self {
            pieces,
            end,
            is_read_paused: false,
            seen: Rc::default(),
        }
    }

    /// What the origin sees; held by nobody else when the connection is closed.
    pub fn seen(&self) -> Rc<Seen> {
        Rc::clone(&self.seen)
    }
}

impl Transport for Scripted {
    fn seems_quiet(&self) -> bool {
        self.is_quiet()
    }

    fn is_quiet(&self) -> bool {
        self.pieces.is_empty() && self.end == StreamEnd::Open
    }
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.seen.written.borrow().is_empty() {
            return Poll::Pending;
        }
        if std::mem::take(&mut self.is_read_paused) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(mut piece) = self.pieces.pop_front() else {
            return match self.end {
                StreamEnd::Open => Poll::Pending,
                StreamEnd::Fin => Poll::Ready(Ok(())),
                StreamEnd::Reset => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
            };
        };
        let rest = piece.split_off(piece.len().min(buf.remaining()));
        if !rest.is_empty() {
            self.pieces.push_front(rest);
        }
        self.is_read_paused = true;
        self.seen.read.set(self.seen.read.get() + piece.len());
        buf.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Whoever waits for the answer can go on.
        cx.waker().wake_by_ref();
        self.seen.written.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
