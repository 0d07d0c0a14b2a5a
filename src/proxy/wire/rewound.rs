//! A connection some of whose bytes have been read already, by whatever served the connection
//! before.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::forward_writes;
use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection some of whose bytes have been read already.
#[derive(Debug)]
pub struct Rewound<T> {
    /// What is read first.
    pub unread: Bytes,
    /// The connection.
    pub io: T,
}

impl<T: AsyncRead + Unpin> AsyncRead for Rewound<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let bytes = self.unread.len().min(buf.remaining());
        buf.put_slice(&self.unread[..bytes]);
        self.unread.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Rewound<T> {
    forward_writes!(io);
}
