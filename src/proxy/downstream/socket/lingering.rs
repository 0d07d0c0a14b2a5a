//! Closing: at once between two requests, and lingering where the client may be sending still.
//!
//! A socket that is closed with bytes unread, or that gets more, resets the connection, and with
//! it goes what the client has not read yet. So after the gateway has closed its side it reads on
//! and throws away what comes, until the client closes too or a bound is reached.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::ReadBuf;

use super::Socket;

/// How long after an early answer what the client still sends is read and thrown away.
const LINGER_MAX: Duration = Duration::from_secs(30);
/// How long it may be silent meanwhile.
const LINGER_IDLE_MAX: Duration = Duration::from_secs(5);

impl Socket {
    /// Whether the gateway has closed its side.
    pub(in crate::proxy::downstream) fn is_write_closed(&self) -> bool {
        self.is_write_closed.get()
    }

    /// Whether bytes that nobody has read are here, or what else the client sends.
    pub(in crate::proxy::downstream) fn has_unread(&self) -> bool {
        self.readable().is_some_and(|ready| !ready.is_read_closed())
    }

    /// Reads and throws away what the client still sends, until it closes its side.
    pub(in crate::proxy::downstream) async fn lingering_close(&self) {
        self.read.arm(LINGER_IDLE_MAX);
        // Nothing is written any more, so this deadline is free to bound the whole of it.
        self.write.arm(LINGER_MAX);
        poll_fn(|cx| self.poll_discard(cx)).await;
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
