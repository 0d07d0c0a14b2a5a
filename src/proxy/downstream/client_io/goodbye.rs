//! Closing: at once between two requests, and lingering where the client may be sending still.
//!
//! A socket that is closed with bytes unread, or that gets more, resets the connection, and with
//! it goes what the client has not read yet. So the gateway says that it will send no more, reads
//! on and throws away what comes, until the client closes too or a bound is reached.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::ReadBuf;

use super::{Awaited, ClientSocket};

/// How long after an early answer what the client still sends is read and thrown away.
const LINGER_MAX: Duration = Duration::from_secs(30);
/// How long it may be silent meanwhile.
const LINGER_IDLE_MAX: Duration = Duration::from_secs(5);

impl ClientSocket {
    /// Says goodbye if that is due: if hyper ended the connection behind an answer, or the gateway
    /// did behind one of its own.
    ///
    /// That takes time that hyper need not wait for: what it has to say of the connection is known
    /// before.
    pub(crate) async fn say_goodbye(&self) {
        if self.is_goodbye_due.load(Relaxed) {
            // Nobody is left to be told of a failure.
            drop(poll_fn(|cx| self.poll_goodbye(cx)).await);
        }
    }

    /// Ends the gateway's side and lingers if the client may be sending still.
    fn poll_goodbye(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.awaited() != Awaited::Close {
            SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)?;
            if !self.is_client_at_it() {
                return Poll::Ready(Ok(()));
            }
            self.await_next(Awaited::Close);
            self.read.arm(LINGER_IDLE_MAX);
            // Nothing is written any more, so this deadline is free to bound the whole goodbye.
            self.write.arm(LINGER_MAX);
        }
        let mut scrap = [0; 16 * 1024];
        while !self.read.is_over() && !self.write.is_over() {
            match self.poll_receive(cx, &mut ReadBuf::new(&mut scrap)) {
                Poll::Ready(Ok(bytes)) if bytes > 0 => self.read.arm(LINGER_IDLE_MAX),
                Poll::Ready(_) => break,
                Poll::Pending => {
                    self.read.register(cx);
                    self.write.register(cx);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether the client has sent what nobody has read, or may be about to.
    fn is_client_at_it(&self) -> bool {
        let is_between_requests =
            matches!(self.awaited(), Awaited::NextRequest | Awaited::FirstByte);
        !is_between_requests
            || self.is_more_expected.load(Relaxed)
            || self.readable().is_some_and(|ready| !ready.is_read_closed())
    }
}
