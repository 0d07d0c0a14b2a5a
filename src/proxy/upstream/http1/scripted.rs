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
/// piece comes by itself, and has to be waited for if the origin is not prompt.
#[derive(Debug)]
pub struct Scripted {
    pieces: VecDeque<Vec<u8>>,
    end: StreamEnd,
    /// Most bytes that one write takes.
    write_bytes_max: usize,
    /// Whether a write that fails may have sent some of its bytes, as over TLS.
    may_send_part: bool,
    next_piece: NextPiece,
    /// Whether the next write has to wait for a turn.
    is_write_paused: bool,
    seen: Rc<Seen>,
}

/// When the next piece can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextPiece {
    /// Now, and so can all others.
    Prompt,
    /// Now, and the one after it in another turn.
    Due,
    /// In another turn.
    Paused,
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
    /// How many of its bytes have been read.
    pub read: Cell<usize>,
    /// How many times its bytes were acknowledged at once.
    pub acknowledged: Cell<usize>,
}

impl Scripted {
    /// Makes an origin that sends `pieces`, and then ends as `end` says.
    pub fn new(mut pieces: VecDeque<Vec<u8>>, end: StreamEnd) -> Self {
        // An empty read would mean the end of the connection.
        pieces.retain(|piece| !piece.is_empty());
        Self {
            pieces,
            end,
            write_bytes_max: usize::MAX,
            may_send_part: false,
            next_piece: NextPiece::Due,
            is_write_paused: false,
            seen: Rc::default(),
        }
    }

    /// Makes the connection like one over TLS, where a write that fails may have sent some of its bytes.
    pub fn encrypted(self) -> Self {
        Self {
            may_send_part: true,
            ..self
        }
    }

    /// Makes every piece readable at once.
    pub fn prompt(self) -> Self {
        Self {
            next_piece: NextPiece::Prompt,
            ..self
        }
    }

    /// Makes an origin that takes at most `write_bytes_max` bytes at a time, and sends nothing.
    pub fn silent(write_bytes_max: usize) -> Self {
        Self {
            write_bytes_max,
            ..Self::new(VecDeque::new(), StreamEnd::Open)
        }
    }

    /// Returns what the origin sees; nothing else holds that once the connection is closed.
    pub fn seen(&self) -> Rc<Seen> {
        Rc::clone(&self.seen)
    }
}

impl Transport for Scripted {
    fn seems_quiet(&mut self) -> bool {
        self.is_quiet()
    }

    fn is_quiet(&mut self) -> bool {
        self.pieces.is_empty() && self.end == StreamEnd::Open
    }

    fn may_send_part(&self) -> bool {
        self.may_send_part
    }

    fn acknowledge(&self) {
        self.seen.acknowledged.update(|times| times + 1);
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
        if self.next_piece == NextPiece::Paused {
            self.next_piece = NextPiece::Due;
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
        if self.next_piece == NextPiece::Due {
            self.next_piece = NextPiece::Paused;
        }
        self.seen.read.set(self.seen.read.get() + piece.len());
        buf.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The task can go on, whether it waits for the answer or to write.
        cx.waker().wake_by_ref();
        if std::mem::take(&mut self.is_write_paused) {
            return Poll::Pending;
        }
        self.is_write_paused = self.write_bytes_max < usize::MAX;
        let taken = &bytes[..bytes.len().min(self.write_bytes_max)];
        self.seen.written.borrow_mut().extend_from_slice(taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
