//! The transport below HTTP: the bytes of a socket, or TLS over them.

use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::socket::SocketIo;

/// A client's connection as HTTP reads and writes it; `Right` is TLS.
pub(crate) type ClientIo = Either<SocketIo, Box<TlsStream<SocketIo>>>;
