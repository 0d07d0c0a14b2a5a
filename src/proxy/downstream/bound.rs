//! What queues connections for a listener: a port, or a Unix socket.
//!
//! Both give streams of one type. A stream of a Unix socket is read, written and shut by the same calls of the
//! system as one of TCP; what differs is that its peer has no address.

use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::socket_file::{self, BindError, SocketFile};
use crate::snapshot::ListenAddress;

/// An address that connections are queued for.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    /// The address, with the port that the system has chosen if none was asked for.
    pub(crate) address: ListenAddress,
    /// By which a Unix socket is found.
    pub(super) file: Option<SocketFile>,
    pub(super) queue: ConnectionQueue,
}

/// Connections that wait to be accepted.
#[derive(Debug)]
pub(super) enum ConnectionQueue {
    Tcp(net::TcpListener),
    Unix(unix::net::UnixListener),
}

/// The same, polled by the runtime.
#[derive(Debug)]
pub(super) enum PolledQueue {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// An accepted connection and its peer's address, if the peer has one.
pub(super) type Connection = (net::TcpStream, Option<IpAddr>);

/// A client's socket takes no more bytes while this many are unsent, until half of them have gone.
/// So what a slow reader takes shows as progress, however much the kernel would buffer.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;
/// Connections the kernel queues for a listener.
const BACKLOG: i32 = 4096;

/// Opens a port, or a Unix socket.
///
/// # Errors
/// If the address is taken or not ours: the gateway does not start.
pub(crate) fn bind(address: &ListenAddress) -> Result<BoundSocket, BindError> {
    Ok(match address {
        ListenAddress::Tcp(address) => {
            let listener = bind_tcp(*address)?;
            BoundSocket {
                address: ListenAddress::Tcp(listener.local_addr()?),
                file: None,
                queue: ConnectionQueue::Tcp(listener),
            }
        }
        ListenAddress::Unix(path) => {
            let (listener, file) = socket_file::bind(path, BACKLOG)?;
            BoundSocket {
                address: address.clone(),
                file: Some(file),
                queue: ConnectionQueue::Unix(listener),
            }
        }
    })
}

/// Takes a socket that listens already, at `address`; `is_own` if a gateway made it, which is to remove the file of a
/// Unix socket.
///
/// # Errors
/// The operating system's.
pub(crate) fn adopt(
    address: ListenAddress,
    descriptor: OwnedFd,
    is_own: bool,
) -> io::Result<BoundSocket> {
    let socket = Socket::from(descriptor);
    socket.set_nonblocking(true)?;
    let (file, queue) = match &address {
        ListenAddress::Tcp(_) => {
            socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
            (None, ConnectionQueue::Tcp(socket.into()))
        }
        ListenAddress::Unix(path) => {
            let file = is_own.then(|| SocketFile::adopt(path)).transpose()?;
            (file, ConnectionQueue::Unix(socket.into()))
        }
    };
    Ok(BoundSocket {
        address,
        file,
        queue,
    })
}

impl BoundSocket {
    /// Returns another descriptor of the socket, for another process.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(match &self.queue {
            ConnectionQueue::Tcp(listener) => listener.try_clone()?.into(),
            ConnectionQueue::Unix(listener) => listener.try_clone()?.into(),
        })
    }

    /// Whether a gateway made it.
    pub(crate) fn is_own(&self) -> bool {
        self.file.is_some()
    }
}

/// Opens a port.
///
/// # Errors
/// The operating system's, if the address is taken or not ours.
pub(crate) fn bind_tcp(address: SocketAddr) -> io::Result<net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        // `[::]:P` can be open beside `0.0.0.0:P`, whatever the system's default is.
        socket.set_only_v6(true)?;
    }
    // Accepted sockets inherit it from this one.
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl ConnectionQueue {
    /// Has the runtime poll it.
    pub(super) fn polled(self) -> io::Result<PolledQueue> {
        Ok(match self {
            Self::Tcp(listener) => PolledQueue::Tcp(TcpListener::from_std(listener)?),
            Self::Unix(listener) => PolledQueue::Unix(UnixListener::from_std(listener)?),
        })
    }

    /// Accepts without waiting.
    pub(super) fn accept(&self) -> io::Result<Connection> {
        let (stream, peer) = match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                (stream, Some(peer.ip()))
            }
            Self::Unix(listener) => (OwnedFd::from(listener.accept()?.0).into(), None),
        };
        stream.set_nonblocking(true)?;
        Ok((stream, peer))
    }
}

impl PolledQueue {
    /// Waits for a connection. The worker's runtime will watch it, not this one.
    pub(super) async fn accept(&self) -> io::Result<Connection> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                (stream.into_std()?, Some(peer.ip()))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                (OwnedFd::from(stream.into_std()?).into(), None)
            }
        })
    }

    /// Has the runtime poll it no longer.
    pub(super) fn unpolled(self) -> io::Result<ConnectionQueue> {
        Ok(match self {
            Self::Tcp(listener) => ConnectionQueue::Tcp(listener.into_std()?),
            Self::Unix(listener) => ConnectionQueue::Unix(listener.into_std()?),
        })
    }
}
