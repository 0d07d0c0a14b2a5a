//! Takes the header of the PROXY protocol off the beginning of a connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use tokio::io::AsyncReadExt as _;

use super::socket::{Socket, SocketIo};
use crate::proxy::wire::deadline::Elapsed;
use crate::proxy::wire::proxy_header::{self, BadProxyHeader, HeaderProgress};
use crate::request::is_trusted_peer;
use crate::snapshot::Listener;

/// Why a connection of a listener with `proxy_protocol` has no PROXY header that can be trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProxyHeaderError {
    /// The peer is not a trusted proxy, so it may not say whose connection it is.
    #[error("the peer is not among the trusted proxies")]
    Untrusted,
    /// The connection begins with something else, or with a header that is malformed.
    #[error(transparent)]
    Bad(#[from] BadProxyHeader),
    /// The header was not complete within `header_timeout`.
    #[error("its PROXY header was not complete within header_timeout")]
    TimedOut,
    /// The connection ended before the header was complete.
    #[error("it was closed before its PROXY header was complete")]
    Ended,
    /// The system's error.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// Reads the header that a connection must begin with, and no byte after it. Returns the client's address; `None` if
/// the header gives no address.
pub(super) async fn read(
    socket: &Rc<Socket>,
    peer: Option<IpAddr>,
    listener: &Listener,
) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    if !is_trusted_peer(peer, &listener.identity) {
        return Err(ProxyHeaderError::Untrusted);
    }
    let reading = read_header(socket.io());
    match socket.read.within(listener.header_timeout, reading).await {
        Ok(read) => read,
        Err(Elapsed) => Err(ProxyHeaderError::TimedOut),
    }
}

async fn read_header(mut io: SocketIo) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    let mut bytes = Vec::new();
    loop {
        let more = match proxy_header::read(&bytes)? {
            HeaderProgress::Done(client) => return Ok(client),
            HeaderProgress::More(more) => more,
        };
        let before = bytes.len();
        bytes.resize(before + more, 0);
        let taken = io.read(&mut bytes[before..]).await?;
        if taken == 0 {
            return Err(ProxyHeaderError::Ended);
        }
        bytes.truncate(before + taken);
    }
}
