//! Closing: at once between two requests, and lingering if the client may still be sending.
//!
//! A socket that is closed with bytes unread, or that receives more afterwards, resets the connection, and what the
//! client has not read yet is lost. So after the gateway has closed its side, it reads on and throws away what comes,
//! until the client closes too or a bound is reached.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::ReadBuf;

use super::Socket;

/// How long the gateway reads and throws away what a client still sends after an early answer.
const LINGER_MAX: Duration = Duration::from_secs(30);
/// How long the gateway does so while it drains.
const LINGER_DRAINING_MAX: Duration = Duration::from_millis(500);
/// How long the client may be silent while the gateway lingers.
const LINGER_IDLE_MAX: Duration = Duration::from_secs(5);

impl Socket {
    /// Whether the gateway has closed its side.
    pub(in crate::proxy::downstream) fn is_write_closed(&self) -> bool {
        self.is_write_closed.get()
    }

    /// Whether there is something to read from a client that has not closed its side.
    pub(in crate::proxy::downstream) fn has_unread(&self) -> bool {
        self.readable().is_some_and(|ready| !ready.is_read_closed())
    }

    /// Reads and throws away what the client still sends, until it closes its side. That takes less
    /// time while the gateway drains.
    pub(in crate::proxy::downstream) async fn lingering_close(&self, is_draining: bool) {
        self.read.arm(LINGER_IDLE_MAX);
        // Nothing is written any more, so this deadline is free to bound the whole.
        self.write.arm(if is_draining {
            LINGER_DRAINING_MAX
        } else {
            LINGER_MAX
        });
        poll_fn(|cx| self.poll_discard(cx)).await;
    }

    /// Leaves a client that is still sending only a little more time, because the gateway drains.
    pub(in crate::proxy::downstream) fn hasten_close(&self) {
        self.write.arm(LINGER_DRAINING_MAX);
    }

    fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<()> {
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
        Poll::Ready(())
    }
}
