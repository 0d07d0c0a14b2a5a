//! Opens a connection: what comes before HTTP.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::linger;
use super::io::ClientIo;
use super::per_client::{ClientConnections, ClientPermit, TooMany};
use super::proxy_protocol::{self, ProxyHeaderError};
use super::registry::{ConnectionState, Registration};
use super::socket::{Socket, SocketIo};
use crate::fault::HandshakeFailure;
use crate::proxy::wire::deadline::{Elapsed, Sweep};
use crate::snapshot::Listener;
use crate::tls::server::{ALPN_HTTP2, CertificateNames, ServerTls, handshake_failure};
use crate::tls::{ClientCertificate, TlsVersion};

/// A connection on which HTTP can be spoken.
pub(crate) struct Opened {
    pub(crate) socket: Rc<Socket>,
    pub(crate) io: ClientIo,
    /// Whether HTTP/2 was agreed on (ALPN).
    pub(crate) is_http2: bool,
    /// Whether it is known whose connection it is: not if its PROXY header gives no address.
    pub(crate) is_client_known: bool,
    /// What was agreed with the client, if the connection is encrypted.
    pub(crate) tls: Option<TlsSession>,
    /// The connection's place among its client's, if these are bounded.
    pub(crate) permit: Option<ClientPermit>,
}

/// What the TLS handshake has revealed about a client.
#[derive(Debug)]
pub(crate) struct TlsSession {
    names: Arc<CertificateNames>,
    /// The host that the client asked for in its handshake (SNI).
    server_name: Option<Box<str>>,
    /// The client's certificate, if the listener asks for one.
    pub(crate) certificate: Option<ClientCertificate>,
    /// The version of TLS.
    pub(crate) version: TlsVersion,
}

/// Why a connection could not be opened.
pub(crate) enum OpenError {
    /// The system's error, because of which the socket cannot be used.
    Socket(io::Error),
    /// The client left without sending anything: it only wanted to know whether the port is open.
    Silent,
    /// The TLS handshake failed.
    Handshake {
        socket: Rc<Socket>,
        failure: HandshakeFailure,
    },
    /// The connection does not begin with a PROXY header from a trusted proxy.
    Unproxied(ProxyHeaderError),
    /// The client has too many connections.
    TooMany(TooMany),
}

/// Opens a connection that a listener has accepted. If a PROXY header gives the client's address, `peer` becomes that
/// address. A peer without an address has connected by a Unix socket.
pub(crate) async fn open(
    stream: std::net::TcpStream,
    peer: &mut Option<IpAddr>,
    clients: &Arc<ClientConnections>,
    listener: &Listener,
    sweep: &Sweep,
    registration: &Registration,
) -> Result<Opened, OpenError> {
    if peer.is_some() {
        stream.set_nodelay(true).map_err(OpenError::Socket)?;
    }
    let stream = TcpStream::from_std(stream).map_err(OpenError::Socket)?;
    let socket = Socket::new(stream, sweep, listener.body_timeout);
    let mut is_client_known = true;
    if listener.proxy_protocol {
        let opening = ConnectionState::Opening {
            socket: Rc::clone(&socket),
            timeout: listener.header_timeout,
        };
        registration.begins(opening).await;
        let client = Box::pin(proxy_protocol::read(&socket, *peer, listener)).await;
        match client.map_err(OpenError::Unproxied)? {
            Some(client) => *peer = Some(client.ip().to_canonical()),
            None => is_client_known = false,
        }
    }
    let permit = clients.admit(*peer, listener);
    let permit = permit.map_err(OpenError::TooMany)?;
    let Some(tls) = &listener.tls else {
        return Ok(Opened {
            permit,
            io: ClientIo::Left(socket.io()),
            socket,
            is_http2: false,
            is_client_known,
            tls: None,
        });
    };
    let opening = ConnectionState::Opening {
        socket: Rc::clone(&socket),
        timeout: listener.handshake_timeout,
    };
    registration.begins(opening).await;
    // Boxed, because the future is large and soon over.
    let stream = Box::pin(shake_hands(&socket, tls, listener)).await?;
    let (_, agreed) = stream.get_ref();
    Ok(Opened {
        permit,
        socket,
        is_client_known,
        is_http2: agreed.alpn_protocol() == Some(ALPN_HTTP2),
        tls: Some(TlsSession {
            names: Arc::clone(&tls.names),
            server_name: agreed.server_name().map(Into::into),
            certificate: agreed.peer_certificates().and_then(ClientCertificate::of),
            version: TlsVersion::of(agreed),
        }),
        io: ClientIo::Right(Box::new(stream)),
    })
}

/// Performs the TLS handshake with a client.
async fn shake_hands(
    socket: &Rc<Socket>,
    tls: &ServerTls,
    listener: &Listener,
) -> Result<TlsStream<SocketIo>, OpenError> {
    let failed = |failure| OpenError::Handshake {
        socket: Rc::clone(socket),
        failure,
    };
    let accepting = async {
        if socket
            .peek_byte()
            .await
            .is_some_and(|byte| byte.is_ascii_uppercase())
        {
            return Err(None);
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
        acceptor.accept(socket.io()).await.map_err(Some)
    };
    let accepted = socket.read.within(listener.handshake_timeout, accepting);
    match accepted.await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(None)) => {
            refuse_plain_http(socket).await;
            Err(failed(HandshakeFailure::PlainHttp))
        }
        Ok(Err(Some(_))) if !socket.has_received() => Err(OpenError::Silent),
        Ok(Err(Some(error))) => Err(failed(handshake_failure(&error))),
        Err(Elapsed) => Err(failed(HandshakeFailure::Timeout)),
    }
}

/// Answers a client that speaks HTTP without TLS: its first byte is the first letter of a method, and no TLS record
/// begins with a letter.
async fn refuse_plain_http(socket: &Rc<Socket>) {
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        PLAIN_HTTP.len()
    );
    // A client that takes no answer gets none.
    let _ = socket
        .io()
        .write_all([head.as_bytes(), PLAIN_HTTP].concat().as_slice())
        .await;
}

/// The body of the answer to a client that speaks HTTP without TLS.
const PLAIN_HTTP: &[u8] = br#"{"type":"about:blank","title":"This port speaks HTTPS: begin the URL with https://","status":400}
"#;

impl OpenError {
    /// Closes the connection in such a way that the client can read why.
    pub(crate) async fn lingering_close(self, registration: &Registration, sweep: &Sweep) {
        // After a timeout, nothing was sent that the client could read.
        if let Self::Handshake { socket, failure } = self
            && failure != HandshakeFailure::Timeout
            && socket.close_write().is_ok()
        {
            linger(&socket, registration, sweep).await;
        }
    }
}

impl TlsSession {
    /// Whether the listener has another certificate for `host` than the client was given, so that a request for it
    /// belongs on another connection (RFC 9110, section 15.5.20).
    pub(crate) fn is_misdirected(&self, host: &str) -> bool {
        let asked = self.server_name.as_deref();
        asked.is_some_and(|asked| !self.names.are_alike(asked, host))
    }
}
