//! The sockets that queue connections for a listener: a port, or a Unix socket.
//!
//! Both yield streams of one type, because the same system calls read, write and shut down streams of TCP and of Unix
//! sockets. The only difference is that the peer of a Unix socket has no address.

use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::socket_file::{self, BindError, SocketFile};
use crate::snapshot::ListenAddress;

/// A listening socket, at an address.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    /// The address, with the port that the system has chosen if none was asked for.
    pub(crate) address: ListenAddress,
    /// The file of a Unix socket, if a gateway made the socket.
    pub(super) file: Option<SocketFile>,
    pub(super) queue: ConnectionQueue,
}

/// Connections that wait to be accepted.
#[derive(Debug)]
pub(super) enum ConnectionQueue {
    Tcp(net::TcpListener),
    Unix(unix::net::UnixListener),
}

/// A [`ConnectionQueue`] that the runtime polls.
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
/// Most connections that the kernel queues for a listener.
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

/// Takes over a socket that already listens at `address`. If a gateway made it (`is_own`) and it is a Unix socket, a
/// gateway is to remove its file.
///
/// # Errors
/// Returns the operating system's error.
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

    /// Whether it is a Unix socket whose file a gateway made and is to remove. It never is for a port.
    pub(crate) fn is_own(&self) -> bool {
        self.file.is_some()
    }
}

/// Opens a port.
///
/// # Errors
/// Returns the operating system's error, for example if the address is taken or not ours.
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
    // Accepted sockets inherit this from the listening one.
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl ConnectionQueue {
    /// Registers the queue with the runtime, which polls it.
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
    /// Waits for a connection, and leaves it to the worker's runtime to poll.
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

    /// Deregisters the queue from the runtime.
    pub(super) fn unpolled(self) -> io::Result<ConnectionQueue> {
        Ok(match self {
            Self::Tcp(listener) => ConnectionQueue::Tcp(listener.into_std()?),
            Self::Unix(listener) => ConnectionQueue::Unix(listener.into_std()?),
        })
    }
}
