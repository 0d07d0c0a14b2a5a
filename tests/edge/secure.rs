//! A TLS client that shows what the handshake came to, and speaks HTTP/1.1 over it.

use std::io::{Error, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, IpAddr, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::support::PATIENCE;
use crate::support::redis::{Authority, Certificate};

/// A connection after its handshake.
#[derive(Debug)]
pub struct Secure {
    pub stream: StreamOwned<ClientConnection, TcpStream>,
}

/// A listener's `tls` with those certificates and more keys.
pub fn tls(certificates: &[&Certificate], more: &str) -> String {
    let listed = certificates.iter().map(|certificate| {
        let (file, key) = (certificate.file.display(), certificate.key.display());
        format!("{{ certificate = '{file}', key = '{key}' }}")
    });
    let listed: Vec<_> = listed.collect();
    format!("tls = {{ certificates = [{}]{more} }}", listed.join(", "))
}

/// How a client shakes hands that trusts this authority.
pub fn trusting(authority: &Authority, own: Option<&Certificate>) -> ClientConfig {
    with_versions(authority, own, rustls::ALL_VERSIONS)
}

/// The same with these versions alone.
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

/// Begins a handshake for that host (none: no SNI), which is not sent yet.
pub fn begin(config: &Arc<ClientConfig>, host: Option<&str>) -> ClientConnection {
    // A client sends no SNI for an address.
    let name = host.map_or(
        ServerName::IpAddress(IpAddr::V4([127, 0, 0, 1].into())),
        |host| ServerName::try_from(host.to_owned()).expect("a name"),
    );
    ClientConnection::new(Arc::clone(config), name).expect("a configuration that fits")
}

impl Secure {
    /// Connects and shakes hands.
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
        Ok(Self {
            stream: StreamOwned::new(tls, socket),
        })
    }

    /// Returns the leaf that the gateway showed.
    pub fn certificate(&self) -> CertificateDer<'static> {
        let chain = self.stream.conn.peer_certificates();
        chain.expect("a chain")[0].clone().into_owned()
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Asks for `/` of that host over a connection that goes on, and returns status and body.
    pub fn get(&mut self, host: &str) -> Result<(u16, String)> {
        self.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))?;
        self.answer()
    }

    /// Reads an answer with `Content-Length`.
    pub fn answer(&mut self) -> Result<(u16, String)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).map_err(Error::other)?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let mut body = vec![0; length.expect("an answer with a length")];
        self.stream.read_exact(&mut body)?;
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let body = String::from_utf8(body).map_err(Error::other)?;
        Ok((status.expect("a status"), body))
    }

    /// Reads on until that text has come.
    pub fn until(&mut self, text: &str) -> Result<()> {
        let mut read = Vec::new();
        while !read.ends_with(text.as_bytes()) {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            read.push(byte[0]);
        }
        Ok(())
    }

    /// Reads to the end, which must be close_notify; returns what came before it.
    pub fn rest(&mut self) -> Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }
}
