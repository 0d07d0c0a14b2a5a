//! The wrapper around every socket to an origin: it bounds interim answers (1xx), and still reads
//! from an origin that has stopped reading.
//!
//! hyper drops interim answers, however many come before the real one, so an origin that sends
//! nothing else would keep a worker busy until `response_timeout`. The bytes are looked at only
//! until the real head begins: ten of them for nearly every response.
//!
//! An origin may answer before it has read a request's body, and close with bytes unread. That
//! resets the connection while the gateway still sends. The answer has arrived by then, but hyper
//! would stop at the failed write and never read it. So a write that the origin no longer takes is
//! thrown away, and what can be read decides how the exchange ends.
//!
//! hyper wakes its task for every piece of a body that is taken, even for the last one, when there
//! is nothing left to do. A [`Gate`] saves that turn of the task per request: while it is shut,
//! only the socket wakes the task.

use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::proxy::gather::{Gathered, gather};

/// An origin's socket as hyper reads and writes it.
pub(super) struct UpstreamIo {
    stream: TcpStream,
    seen: Rc<Observed>,
}

/// What the socket has seen of its origin.
pub(super) struct Observed {
    /// Set to [`Interim::NONE_YET`] with each request.
    pub(super) interim: Cell<Interim>,
    /// Whether the origin no longer takes bytes.
    pub(super) is_deaf: Cell<bool>,
    /// Stands between the task that drives the connection and whatever wakes it.
    pub(super) gate: Arc<Gate>,
}

/// Passes wakes on to a task while it is open; the socket's wakes do not need it.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Wakes the task, which stays the same.
    task: OnceLock<Waker>,
    is_shut: AtomicBool,
}

/// How much has been seen of the heads before a response's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interim {
    place: HeadPlace,
    /// Interim answers that have begun since the request was sent.
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadPlace {
    /// At the beginning of a head, of which this many bytes look like an interim one.
    Begin(usize),
    /// Within an interim head, after this many line ends in a row.
    Within(u8),
    /// Past the beginning of a head that is not interim.
    Beyond,
}

/// Most interim answers to one request; clients of the gateway see none of them.
pub(super) const INTERIM_MAX: u32 = 64;

/// How an interim answer begins, whatever its minor version.
const INTERIM: &[u8; 10] = b"HTTP/1.? 1";

impl Interim {
    /// A request was sent, and nothing of its answer has been seen.
    pub(super) const NONE_YET: Self = Self {
        place: HeadPlace::Begin(0),
        count: 0,
    };

    /// Looks at what the origin sent next.
    fn see(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.place = match self.place {
                HeadPlace::Beyond => return,
                // Empty lines before a head belong to none.
                HeadPlace::Begin(0) if matches!(byte, b'\r' | b'\n') => HeadPlace::Begin(0),
                HeadPlace::Begin(seen) if byte != INTERIM[seen] && INTERIM[seen] != b'?' => {
                    HeadPlace::Beyond
                }
                HeadPlace::Begin(seen) if seen + 1 < INTERIM.len() => HeadPlace::Begin(seen + 1),
                HeadPlace::Begin(_) => {
                    self.count += 1;
                    HeadPlace::Within(0)
                }
                HeadPlace::Within(1) if byte == b'\n' => HeadPlace::Begin(0),
                HeadPlace::Within(_) if byte == b'\n' => HeadPlace::Within(1),
                HeadPlace::Within(ends) if byte == b'\r' => HeadPlace::Within(ends),
                HeadPlace::Within(_) => HeadPlace::Within(0),
            };
        }
    }
}

impl Observed {
    /// Has seen nothing yet.
    pub(super) fn nothing() -> Self {
        Self {
            interim: Cell::new(Interim::NONE_YET),
            is_deaf: Cell::new(false),
            gate: Arc::default(),
        }
    }
}

impl Gate {
    /// Lets every wake through.
    pub(super) fn open(&self) {
        self.is_shut.store(false, Relaxed);
    }

    /// Lets no wake through until it is opened, or the task runs.
    pub(super) fn shut(&self) {
        self.is_shut.store(true, Relaxed);
    }

    /// Lets every wake through to `task`, which is running.
    pub(super) fn open_for(&self, task: &Waker) {
        self.open();
        self.task.get_or_init(|| task.clone());
    }

    /// Returns a context that wakes the task, whether the gate is open or not.
    fn context<'a>(&'a self, cx: &'a Context<'_>) -> Context<'a> {
        Context::from_waker(self.task.get().unwrap_or(cx.waker()))
    }
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_shut.load(Relaxed)
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }
}

impl UpstreamIo {
    /// Wraps a fresh connection.
    pub(super) fn new(stream: TcpStream, seen: Rc<Observed>) -> Self {
        Self { stream, seen }
    }

    /// Treats `bytes` as written if the origin will never take them.
    fn written(
        &self,
        written: Poll<io::Result<usize>>,
        bytes: impl FnOnce() -> usize,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Err(error)) if is_closed(&error) => {
                self.seen.is_deaf.set(true);
                Poll::Ready(Ok(bytes()))
            }
            written => written,
        }
    }
}

/// Whether the origin has closed its side, and not the gateway failed.
fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
    )
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let UpstreamIo { stream, seen } = &mut *self;
        ready!(Pin::new(stream).poll_read(&mut seen.gate.context(cx), buf))?;
        let mut interim = self.seen.interim.get();
        if interim.place != HeadPlace::Beyond {
            interim.see(&buf.filled()[before..]);
            self.seen.interim.set(interim);
            if interim.count > INTERIM_MAX {
                return Poll::Ready(Err(io::Error::other("too many interim answers")));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.seen.is_deaf.get() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let UpstreamIo { stream, seen } = &mut *self;
        let written = Pin::new(stream).poll_write(&mut seen.gate.context(cx), bytes);
        self.written(written, || bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(bytes) = gather(slices, &mut Gathered::new()) {
            return self.poll_write(cx, bytes);
        }
        let bytes = || slices.iter().map(|slice| slice.len()).sum();
        if self.seen.is_deaf.get() {
            return Poll::Ready(Ok(bytes()));
        }
        let UpstreamIo { stream, seen } = &mut *self;
        let written = Pin::new(stream).poll_write_vectored(&mut seen.gate.context(cx), slices);
        self.written(written, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// Counts interim answers in pieces of every size: no border between pieces hides one.
    fn count(text: &str) -> u32 {
        let counts: Vec<u32> = (1..=text.len())
            .map(|size| {
                let mut interim = Interim::NONE_YET;
                text.as_bytes()
                    .chunks(size)
                    .for_each(|piece| interim.see(piece));
                interim.count
            })
            .collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        counts[0]
    }

    #[test]
    fn shut_gate_lets_no_wake_through_until_it_opens_or_the_task_runs() {
        struct WakeCount(AtomicUsize);
        impl Wake for WakeCount {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let task = Arc::new(WakeCount(AtomicUsize::new(0)));
        let gate = Arc::new(Gate::default());
        let (to_task, through) = (Arc::clone(&task).into(), Waker::from(Arc::clone(&gate)));
        let wakes = |change: &dyn Fn()| {
            change();
            through.wake_by_ref();
            task.0.swap(0, Relaxed)
        };
        assert_eq!(wakes(&|| gate.open_for(&to_task)), 1);
        assert_eq!(wakes(&|| gate.shut()), 0);
        assert_eq!(wakes(&|| gate.open()), 1);
        gate.shut();
        assert_eq!(wakes(&|| gate.open_for(&to_task)), 1);
        gate.shut();
        let cx = Context::from_waker(Waker::noop());
        gate.context(&cx).waker().wake_by_ref();
        assert_eq!(task.0.load(Relaxed), 1, "the socket needs no gate");
    }

    #[test]
    fn interim_answers_are_counted_up_to_the_real_one() {
        let hint = "HTTP/1.1 103 Early Hints\r\nlink: HTTP/1.1 1\r\n\r\n";
        let ok = "HTTP/1.1 200 OK\r\n\r\n";
        assert_eq!(count(ok), 0);
        assert_eq!(count(&format!("{hint}{hint}{ok}{hint}")), 2);
        assert_eq!(
            count(&format!("\r\n{hint}\nHTTP/1.0 100 Continue\n\n{ok}")),
            2
        );
        assert_eq!(
            count("SSH-2.0-OpenSSH\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"),
            0
        );
    }
}
