//! Origins over TLS whose handshakes the test decides, and the gateway's side of them.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tollgate::snapshot::{HttpUpstream, Scheme};
use tollgate::tls::{ALPN_HTTP1, ALPN_HTTP2, ClientTls, TlsMaterial};

use crate::upstream::harness::{Gateway, OK, Origin, Wire, worker};

/// The authority that has signed [`SERVER`] and [`GATEWAY`].
pub const CA: &[u8] = include_bytes!("../../../config/tls/redis-ca.pem");
/// An authority that has signed neither of them.
pub const OTHER_CA: &[u8] = include_bytes!("../../../config/tls/other-ca.pem");
/// The certificate of `localhost` and `127.0.0.1`.
pub const SERVER: (&[u8], &[u8]) = (
    include_bytes!("../../../config/tls/server.pem"),
    include_bytes!("../../../config/tls/server.key"),
);
/// The certificate of a gateway.
pub const GATEWAY: (&[u8], &[u8]) = (
    include_bytes!("../../../config/tls/gateway.pem"),
    include_bytes!("../../../config/tls/gateway.key"),
);

/// How an origin does its handshakes.
pub struct Server {
    pub identity: (Vec<u8>, Vec<u8>),
    pub versions: Vec<&'static SupportedProtocolVersion>,
    pub protocols: Vec<&'static [u8]>,
    /// Whether a client must have a certificate signed by [`CA`].
    pub asks_for_certificate: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            identity: (SERVER.0.to_vec(), SERVER.1.to_vec()),
            versions: vec![&version::TLS13, &version::TLS12],
            protocols: Vec::new(),
            asks_for_certificate: false,
        }
    }
}

impl Server {
    pub fn config(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&self.versions)
            .expect("known versions");
        let builder = if self.asks_for_certificate {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(chain(CA));
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            builder.with_client_cert_verifier(verifier.build().expect("an authority"))
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from_pem_slice(&self.identity.1).expect("a key");
        let config = builder.with_single_cert(chain(&self.identity.0), key);
        let mut config = config.expect("a certificate and its key");
        config.alpn_protocols = self.protocols.iter().map(|name| name.to_vec()).collect();
        config.ticketer = aws_lc_rs::Ticketer::new().expect("random numbers");
        Arc::new(config)
    }
}

fn chain(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    read.expect("certificates")
}

/// An origin over TLS.
pub struct SecureOrigin {
    pub tcp: Origin,
    acceptor: TlsAcceptor,
}

/// The origin's end of a connection.
pub type SecureWire = Wire<TlsStream<TcpStream>>;

impl SecureOrigin {
    pub async fn new(server: &Server) -> Self {
        Self {
            tcp: Origin::new().await,
            acceptor: server.config().into(),
        }
    }

    /// Returns an origin with the usual handshake, and a gateway that trusts it.
    pub async fn with_gateway() -> (Self, Gateway) {
        let origin = Self::new(&Server::default()).await;
        let gateway = trusting(&origin);
        (origin, gateway)
    }

    /// Changes the handshake from now on.
    pub fn restart(self, server: &Server) -> Self {
        Self {
            acceptor: server.config().into(),
            ..self
        }
    }

    /// Accepts a connection, and completes the handshake.
    pub async fn accept(&self) -> SecureWire {
        let tcp = self.tcp.accept().await.0;
        Wire(self.acceptor.accept(tcp).await.expect("a handshake"))
    }

    /// Like [`accept`](Self::accept), but returns `None` if the handshake fails.
    pub async fn try_accept(&self) -> Option<SecureWire> {
        let tcp = self.tcp.accept().await.0;
        self.acceptor.accept(tcp).await.ok().map(Wire)
    }

    /// Accepts a connection, reads a request without a body and answers it.
    pub async fn answer(&self, answer: &str) -> SecureWire {
        let mut wire = self.accept().await;
        wire.answer(answer).await;
        wire
    }
}

/// Runs an origin that answers every request as long as the test process lives; returns its address.
pub fn serve(server: Server) -> SocketAddr {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        worker(async {
            let origin = SecureOrigin::new(&server).await;
            tell.send(origin.tcp.address).expect("somebody asks");
            loop {
                let Some(mut wire) = origin.try_accept().await else {
                    continue;
                };
                tokio::task::spawn_local(async move {
                    while wire.try_head().await.is_some() {
                        wire.say(OK).await;
                    }
                });
            }
        });
    });
    told.recv().expect("a port")
}

/// Returns the gateway's side of TLS: the authority that it trusts, and its own certificate and key.
pub fn tls(ca: &[u8], identity: Option<(&[u8], &[u8])>) -> ClientTls {
    let material = TlsMaterial {
        ca: Some(ca),
        identity,
        ..TlsMaterial::default()
    };
    let client = ClientTls::new(material).expect("good material");
    client.offering(&[ALPN_HTTP2, ALPN_HTTP1])
}

/// Has the gateway speak TLS to the endpoints of an upstream.
pub fn encrypt(http: &mut HttpUpstream, tls: ClientTls) {
    for endpoint in &mut http.endpoints {
        endpoint.scheme = Scheme::Https;
    }
    http.tls = Some(tls);
}

/// Returns a gateway that trusts the origin.
pub fn trusting(origin: &SecureOrigin) -> Gateway {
    Gateway::with(&[origin.tcp.address], |http| encrypt(http, tls(CA, None)))
}
