//! A connection that carries bytes to an origin: TCP, or TLS over it.

use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustls::pki_types::ServerName;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::http1::Transport;
use crate::fault::TlsFailure;
use crate::metrics::{EndpointMetrics, WorkerIndex};
use crate::proxy::wire::sockets::SocketPermit;
use crate::tls::{ALPN_HTTP2, ClientTls, failure_of};

/// A connection to an origin. Dropping it sends a close_notify if it is encrypted.
#[derive(Debug)]
pub struct Stream {
    /// TCP on the left, TLS on the right.
    io: Either<TcpStream, Box<TlsStream<TcpStream>>>,
    _open: OpenConnection,
}

/// A new TCP connection to an origin, on which nothing has been sent.
#[derive(Debug)]
pub(super) struct TcpConnection {
    tcp: TcpStream,
    open: OpenConnection,
}

/// Counts a connection, and holds its socket permit, as long as it is open.
#[derive(Debug)]
pub(super) struct OpenConnection {
    metrics: Arc<EndpointMetrics>,
    worker: WorkerIndex,
    _room: SocketPermit,
}

/// Most reads in a check of an idle TLS connection; an origin that has sent more is not quiet.
const QUIET_READS_MAX: usize = 16;

impl OpenConnection {
    pub(super) fn new(
        metrics: &Arc<EndpointMetrics>,
        worker: WorkerIndex,
        room: SocketPermit,
    ) -> Self {
        metrics.connection_opened(worker);
        Self {
            metrics: Arc::clone(metrics),
            worker,
            _room: room,
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.metrics.connection_closed(self.worker);
    }
}

impl TcpConnection {
    pub(super) fn new(tcp: TcpStream, open: OpenConnection) -> Self {
        Self { tcp, open }
    }
}

impl Stream {
    /// Uses a TCP connection without TLS.
    pub(super) fn plain(TcpConnection { tcp, open }: TcpConnection) -> Self {
        Self {
            io: Either::Left(tcp),
            _open: open,
        }
    }

    /// Performs the TLS handshake over `tcp` with the server called `name`.
    pub(super) async fn secure(
        TcpConnection { tcp, open }: TcpConnection,
        tls: &ClientTls,
        name: ServerName<'static>,
    ) -> Result<Self, TlsFailure> {
        let connector = TlsConnector::from(tls.config.clone());
        let shaken = connector.connect(name, tcp).await;
        // A reset tells no more than a FIN, so both count as `Closed`.
        let stream = shaken.map_err(|error| failure_of(&error).unwrap_or(TlsFailure::Closed))?;
        Ok(Self {
            io: Either::Right(Box::new(stream)),
            _open: open,
        })
    }

    /// Whether the handshake has chosen HTTP/2.
    pub(super) fn has_chosen_http2(&self) -> bool {
        match &self.io {
            Either::Left(_) => false,
            Either::Right(tls) => tls.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Either::Right(tls) = &mut self.io {
            let (tcp, session) = tls.get_mut();
            session.send_close_notify();
            // If the socket takes no more bytes, it is closed without the alert.
            let _ = session.write_tls(&mut &*SockRef::from(&*tcp));
        }
    }
}

impl Transport for Stream {
    fn seems_quiet(&mut self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        match &mut self.io {
            Either::Left(tcp) => tcp.poll_read_ready(cx).is_pending() || is_quiet(tcp),
            Either::Right(tls) => {
                let is_pending = tls.get_ref().0.poll_read_ready(cx).is_pending();
                (is_pending && !has_unread(tls)) || is_quiet_tls(tls)
            }
        }
    }

    fn is_quiet(&mut self) -> bool {
        match &mut self.io {
            Either::Left(tcp) => is_quiet(tcp),
            Either::Right(tls) => is_quiet_tls(tls),
        }
    }

    fn may_send_part(&self) -> bool {
        matches!(self.io, Either::Right(_))
    }

    #[cfg(target_os = "linux")]
    fn acknowledge(&self) {
        let tcp = match &self.io {
            Either::Left(tcp) => tcp,
            Either::Right(tls) => tls.get_ref().0,
        };
        // If the option cannot be set, the system acknowledges in its own time.
        let _ = SockRef::from(tcp).set_tcp_quickack(true);
    }
}

/// Whether nothing has come on a socket, and the origin has not closed it.
fn is_quiet(tcp: &TcpStream) -> bool {
    let peeked = SockRef::from(tcp).peek(&mut [MaybeUninit::uninit()]);
    peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Whether the origin has sent only records that concern TLS itself, such as tickets.
fn is_quiet_tls(tls: &mut TlsStream<TcpStream>) -> bool {
    let (tcp, session) = tls.get_mut();
    // The system is asked, because the runtime may not have noticed yet what has come.
    let socket = SockRef::from(&*tcp);
    for _ in 0..QUIET_READS_MAX {
        match session.process_new_packets() {
            Ok(state) if state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed() => {}
            _ => return false,
        }
        match session.read_tls(&mut &*socket) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
    false
}

fn has_unread(tls: &mut TlsStream<TcpStream>) -> bool {
    let state = tls.get_mut().1.process_new_packets();
    !state.is_ok_and(|state| state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed())
}

/// Replaces an error by its TLS failure, if it is one.
fn plain(error: io::Error) -> io::Error {
    match failure_of(&error) {
        Some(failure) => io::Error::new(error.kind(), failure),
        None => error,
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer).map_err(plain)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes).map_err(plain)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx).map_err(plain)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io)
            .poll_write_vectored(cx, pieces)
            .map_err(plain)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
