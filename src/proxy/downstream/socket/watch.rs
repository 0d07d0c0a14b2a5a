//! Notices a client that leaves while nobody reads what it sends.
//!
//! hyper notices that a client leaves only while it reads, and it does not read past a head while nobody asks for the
//! body: because the request is delayed, because the origin takes no more, or because the client waits for 100
//! (Continue). Nor does it read when bytes of a next request are there already. It could read on after a whole request
//! (`half_close(false)`), but would keep a buffer of its own for that; so code that waits for something other than the
//! client asks here.
//!
//! This sees what the gateway's kernel has been told. A FIN that waits in the client's own kernel, after more bytes
//! than the receive window takes, goes unnoticed until those bytes are read; a reset does not.

use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use tokio::io::Interest;

use super::Socket;

impl Socket {
    /// Polls whether the client has closed its side or reset the connection, whatever it has sent before. The task that
    /// reads may call it too.
    pub(in crate::proxy::downstream) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        if ready!(self.stream.poll_read_ready(cx)).is_err() {
            return Poll::Ready(());
        }
        // Bytes are waiting, or the end has come.
        self.end.poll(&self.stream, cx)
    }

    /// Returns what the runtime knows about what can be read, if there is anything.
    pub(super) fn readable(&self) -> Option<tokio::io::Ready> {
        let ready = self.stream.ready(Interest::READABLE).now_or_never();
        ready.and_then(Result::ok)
    }
}
