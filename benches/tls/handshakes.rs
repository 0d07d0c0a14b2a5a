//! A client that makes TLS handshakes one after the other, full or resumed, and sends nothing else.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, version};

use super::servers::Material;

/// The kind of handshakes to make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Handshakes with the server's certificate and its signature.
    Full,
    /// Handshakes with a ticket from the connection before.
    Resumed,
}

/// Clients that make handshakes at the same time.
const CLIENTS: usize = 4;

/// Makes handshakes for this long, and returns how many.
pub fn make(port: u16, kind: Kind, material: &Material, seconds: u64) -> u64 {
    let end = Instant::now() + Duration::from_secs(seconds);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| client(port, kind, material, end)))
            .collect();
        let counts = clients.into_iter().map(thread::ScopedJoinHandle::join);
        counts.map(|count| count.expect("a client succeeds")).sum()
    })
}

fn client(port: u16, kind: Kind, material: &Material, end: Instant) -> u64 {
    let config = config(kind, material);
    let mut count = 0;
    while Instant::now() < end {
        let made = handshake(port, &config).expect("the gateway shakes hands");
        let expected = match kind {
            Kind::Resumed if count > 0 => HandshakeKind::Resumed,
            Kind::Full | Kind::Resumed => HandshakeKind::Full,
        };
        assert_eq!(made, expected, "port {port}");
        count += 1;
    }
    count
}

/// Connects, shakes hands, waits for the tickets and closes.
fn handshake(port: u16, config: &Arc<ClientConfig>) -> io::Result<HandshakeKind> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_nodelay(true)?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut tls = ClientConnection::new(Arc::clone(config), name).expect("a configuration");
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)?;
    }
    while tls.tls13_tickets_received() == 0 {
        tls.read_tls(&mut socket)?;
        tls.process_new_packets().map_err(io::Error::other)?;
    }
    let kind = tls.handshake_kind().expect("the handshake is complete");
    tls.send_close_notify();
    tls.complete_io(&mut socket)?;
    Ok(kind)
}

fn config(kind: Kind, material: &Material) -> Arc<ClientConfig> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
    // The only group that all gateways prefer.
    provider.kx_groups = vec![kx_group::X25519];
    let mut roots = RootCertStore::empty();
    roots
        .add(material.der.clone().into())
        .expect("a certificate");
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&version::TLS13])
        .expect("a suite of this version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    if kind == Kind::Full {
        config.resumption = Resumption::disabled();
    }
    Arc::new(config)
}
