//! A TLS client that shows the result of its handshake, and speaks HTTP/1.1 after it.

use std::io::Result;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, IpAddr, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::support::redis::{Authority, Certificate};
use crate::support::wire::Wire;
use crate::support::{Client, PATIENCE};

/// A connection after its handshake.
#[derive(Debug)]
pub struct Secure {
    pub client: Client<StreamOwned<ClientConnection, TcpStream>>,
}

/// Returns a listener's `tls` table with those certificates, and with `more` keys.
pub fn tls(certificates: &[&Certificate], more: &str) -> String {
    let listed = certificates.iter().map(|certificate| {
        let (file, key) = (certificate.file.display(), certificate.key.display());
        format!("{{ certificate = '{file}', key = '{key}' }}")
    });
    let listed: Vec<_> = listed.collect();
    format!("tls = {{ certificates = [{}]{more} }}", listed.join(", "))
}

/// Returns the configuration of a client that trusts this authority, with a certificate of its own if given.
pub fn trusting(authority: &Authority, own: Option<&Certificate>) -> ClientConfig {
    with_versions(authority, own, rustls::ALL_VERSIONS)
}

/// The same for only these versions.
pub fn with_versions(
    authority: &Authority,
    own: Option<&Certificate>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_file(authority.file()).expect("a certificate");
    roots.add(root).expect("an authority");
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("suites of these versions")
        .with_root_certificates(roots);
    match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_file(&own.file).expect("a certificate")];
            let key = PrivateKeyDer::from_pem_file(&own.key).expect("a key");
            builder.with_client_auth_cert(chain, key).expect("a pair")
        }
    }
}

/// Begins a handshake for that host (`None` sends no SNI), without sending anything yet.
pub fn begin(config: &Arc<ClientConfig>, host: Option<&str>) -> ClientConnection {
    // A client sends no SNI for an address.
    let name = host.map_or(
        ServerName::IpAddress(IpAddr::V4([127, 0, 0, 1].into())),
        |host| ServerName::try_from(host.to_owned()).expect("a name"),
    );
    ClientConnection::new(Arc::clone(config), name).expect("a configuration that fits")
}

impl Secure {
    /// Connects and completes the handshake.
    pub fn connect(
        address: SocketAddr,
        config: &Arc<ClientConfig>,
        host: Option<&str>,
    ) -> Result<Self> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_nodelay(true)?;
        let mut tls = begin(config, host);
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Self::over(tls, socket))
    }

    /// Wraps a connection whose handshake is complete.
    pub fn over(tls: ClientConnection, socket: TcpStream) -> Self {
        let wire = Wire::over(StreamOwned::new(tls, socket));
        Self {
            client: Client { wire },
        }
    }

    /// Returns the TLS connection, which knows the result of the handshake.
    pub fn tls(&self) -> &ClientConnection {
        &self.client.wire.stream.conn
    }

    /// Returns the leaf certificate that the gateway sent.
    pub fn certificate(&self) -> CertificateDer<'static> {
        let chain = self.tls().peer_certificates();
        chain.expect("a chain")[0].clone().into_owned()
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.client.wire.write(bytes.as_ref())
    }

    /// Sends a request for `/` of that host on the open connection, and returns status and body.
    pub fn get(&mut self, host: &str) -> Result<(u16, String)> {
        self.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))?;
        self.answer()
    }

    /// Reads an answer, and returns status and body.
    pub fn answer(&mut self) -> Result<(u16, String)> {
        let answer = self.client.try_answer()?;
        Ok((answer.status, answer.text()))
    }

    /// Reads until `text` has arrived.
    pub fn until(&mut self, text: &str) -> Result<()> {
        self.client.wire.read_until(text.as_bytes()).map(drop)
    }

    /// Reads to the end, which must be `close_notify`; returns the bytes before it.
    pub fn rest(&mut self) -> Result<Vec<u8>> {
        self.client.wire.read_to_fin()
    }
}
