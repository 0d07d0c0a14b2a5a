//! TLS to clients: the settings of one listener, and which of its certificates a host's name selects.
//!
//! A listener has one [`ServerTls`], so that the tickets by which clients resume sessions never cross
//! listeners. Early data (0-RTT) is off, because it could be replayed.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ProtocolVersion, ServerConfig, ServerConnection, SupportedProtocolVersion,
    version,
};
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::material::{TlsFault, authorities, digest_of, identity};
use super::x509::{Certificate, expiry};
use super::{ALPN_HTTP1, ClientCertificate};
use crate::fault::HandshakeFailure;

/// Material of a listener's TLS: texts of PEM files, and settings.
#[derive(Clone, Debug)]
pub struct ServerMaterial<'m> {
    /// Certificates, each followed by those that lead to an authority, with their keys; at least one.
    /// The first is the default.
    pub certificates: Vec<(&'m [u8], &'m [u8])>,
    /// Authorities of client certificates; if they are given, clients must have a certificate.
    pub client_ca: Option<&'m [u8]>,
    /// Oldest version that is accepted.
    pub min_version: TlsVersion,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl TlsVersion {
    /// Returns the version that a connection has agreed on; no listener accepts one older than 1.2.
    pub fn of(connection: &ServerConnection) -> Self {
        match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) | None => Self::Tls12,
            Some(_) => Self::Tls13,
        }
    }

    /// Returns the version's number.
    pub const fn number(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }
}

/// A part of a listener's material that cannot be used, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct ServerTlsFault {
    /// Index of the certificate that is at fault; `None` means `client_ca`.
    pub certificate: Option<usize>,
    /// What is wrong with that part.
    pub fault: TlsFault,
}

/// How connections of clients are encrypted.
///
/// Two are equal if they are made of the same certificates, keys and settings.
#[derive(Clone)]
pub struct ServerTls {
    /// Configuration for handshakes.
    pub config: Arc<ServerConfig>,
    /// Which certificate a host's name selects.
    pub names: Arc<CertificateNames>,
    /// Facts about each certificate, in the order of the material.
    pub certificates: Vec<CertificateInfo>,
    /// Digest of everything that this was made of.
    digest: blake3::Hash,
    /// Authorities of client certificates, if clients must have one.
    client_ca: Option<ClientAuthorities>,
}

/// A listener's `client_ca`: its digest, and a verifier of clients.
#[derive(Clone)]
struct ClientAuthorities {
    digest: blake3::Hash,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Facts about a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Name to call the certificate by: the first host name that it is for, or its subject.
    pub name: Box<str>,
    /// When the certificate expires, in seconds since 1970.
    pub expires_secs: i64,
    /// Whether the certificate names at least one host.
    pub has_names: bool,
}

/// Which of a listener's certificates a host's name selects.
#[derive(Debug, Default)]
pub struct CertificateNames {
    keys: Vec<Arc<CertifiedKey>>,
    /// First host name that the first certificate is for.
    default: Option<Box<str>>,
    /// Indices of the certificates for each name, in the order of the material.
    exact: HashMap<Box<str>, Vec<usize>>,
    /// Indices of the certificates for `*.` before each name, in the order of the material.
    wildcard: HashMap<Box<str>, Vec<usize>>,
}

impl ServerTls {
    /// Makes a listener's TLS of its material.
    ///
    /// # Errors
    /// Every part of the material that cannot be used.
    pub fn new(material: &ServerMaterial<'_>) -> Result<Self, Vec<ServerTlsFault>> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let (mut names, mut certificates) = (CertificateNames::default(), Vec::new());
        let mut faults = Vec::new();
        for (index, (certificate, key)) in material.certificates.iter().enumerate() {
            let added =
                identity(certificate, key, &provider).and_then(|identity| names.add(identity));
            let certificate = Some(index);
            match added {
                Ok(info) => certificates.push(info),
                Err(fault) => faults.push(ServerTlsFault { certificate, fault }),
            }
        }
        let client_ca = match material
            .client_ca
            .map(|pem| ClientAuthorities::new(pem, &provider))
            .transpose()
        {
            Ok(client_ca) => client_ca,
            Err(fault) => {
                let certificate = None;
                faults.push(ServerTlsFault { certificate, fault });
                return Err(faults);
            }
        };
        if !faults.is_empty() {
            return Err(faults);
        }
        let versions = match material.min_version {
            TlsVersion::Tls12 => ALL_VERSIONS,
            TlsVersion::Tls13 => &[&version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("the provider has suites of both versions");
        let names = Arc::new(names);
        let verifier = client_ca
            .as_ref()
            .map(|client_ca| Arc::clone(&client_ca.verifier));
        let verifier = verifier.unwrap_or_else(WebPkiClientVerifier::no_client_auth);
        let mut config = builder
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::clone(&names) as Arc<_>);
        config.ticketer = tickets();
        let http2 = material.http2.then_some(ALPN_HTTP2);
        let protocols = http2.into_iter().chain([ALPN_HTTP1, ALPN_HTTP10]);
        config.alpn_protocols = protocols.map(<[u8]>::to_vec).collect();
        Ok(Self {
            config: Arc::new(config),
            names,
            certificates,
            digest: material.digest(),
            client_ca,
        })
    }

    /// Whether clients must have a certificate.
    pub fn wants_clients_certificates(&self) -> bool {
        self.client_ca.is_some()
    }

    /// Returns the digest of `client_ca`, if clients must have a certificate.
    pub fn client_ca(&self) -> Option<&blake3::Hash> {
        self.client_ca.as_ref().map(|client_ca| &client_ca.digest)
    }

    /// Whether a handshake would let in a client with this certificate.
    pub fn lets_in(&self, certificate: Option<&ClientCertificate>) -> bool {
        let Some(ClientAuthorities { verifier, .. }) = &self.client_ca else {
            return true;
        };
        let chain = certificate.and_then(|certificate| certificate.chain.split_first());
        let now = self.config.time_provider.current_time();
        (chain.zip(now))
            .is_some_and(|((leaf, rest), now)| verifier.verify_client_cert(leaf, rest, now).is_ok())
    }

    /// Continues `old` after a reload: clients can resume their sessions, unless `client_ca` has changed.
    pub fn succeed(&mut self, old: &Self) {
        if self == old {
            self.clone_from(old);
        } else if self.client_ca() == old.client_ca() {
            let mut config = ServerConfig::clone(&self.config);
            config.ticketer = Arc::clone(&old.config.ticketer);
            self.config = Arc::new(config);
        }
    }
}

/// Name of HTTP/2 in a handshake (RFC 9113, section 3.2).
pub const ALPN_HTTP2: &[u8] = b"h2";

/// Name of HTTP/1.0 in a handshake: a client that speaks nothing newer offers it alone.
const ALPN_HTTP10: &[u8] = b"http/1.0";

const ALL_VERSIONS: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];

/// Makes the encrypter of session tickets, with keys that change every few hours.
fn tickets() -> Arc<dyn ProducesTickets> {
    aws_lc_rs::Ticketer::new().expect("the system has random numbers")
}

/// Returns why a client's handshake failed.
pub fn handshake_failure(error: &io::Error) -> HandshakeFailure {
    let error = error.get_ref().and_then(|get_ref| get_ref.downcast_ref());
    match error {
        // The connection failed below TLS.
        None => HandshakeFailure::Closed,
        Some(rustls::Error::NoCertificatesPresented) => HandshakeFailure::NoCertificate,
        Some(rustls::Error::InvalidCertificate(bad)) => match bad {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                HandshakeFailure::Expired
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                HandshakeFailure::NotYetValid
            }
            CertificateError::UnknownIssuer => HandshakeFailure::UnknownIssuer,
            _ => HandshakeFailure::BadCertificate,
        },
        Some(rustls::Error::AlertReceived(_)) => HandshakeFailure::Refused,
        Some(rustls::Error::PeerIncompatible(_) | rustls::Error::NoApplicationProtocol) => {
            HandshakeFailure::Incompatible
        }
        Some(_) => HandshakeFailure::Malformed,
    }
}

impl ClientAuthorities {
    fn new(pem: &[u8], provider: &Arc<CryptoProvider>) -> Result<Self, TlsFault> {
        let roots = Arc::new(authorities(pem)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        Ok(Self {
            digest: blake3::hash(pem),
            verifier: (verifier.build()).map_err(|_| TlsFault::Ca("holds no certificate"))?,
        })
    }
}

impl ServerMaterial<'_> {
    fn digest(&self) -> blake3::Hash {
        let pairs = self.certificates.iter();
        let parts = pairs.flat_map(|(certificate, key)| [Some(*certificate), Some(*key)]);
        let settings = [self.min_version as u8, u8::from(self.http2)];
        digest_of(parts.chain([self.client_ca, Some(&settings)]))
    }
}

impl CertificateNames {
    /// Adds a certificate under the names that it is for.
    fn add(&mut self, identity: CertifiedKey) -> Result<CertificateInfo, TlsFault> {
        let unreadable = TlsFault::Certificate("holds a certificate that cannot be read");
        let leaf = identity.end_entity_cert().map_err(|_| unreadable)?;
        let leaf = Certificate::from_der(leaf).map_err(|_| unreadable)?;
        let alternatives = leaf.tbs_certificate().get_extension::<SubjectAltName>();
        let alternatives = alternatives.map_err(|_| unreadable)?;
        let alternatives = alternatives.into_iter().flat_map(|(_, names)| names.0);
        let names = alternatives.filter_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
            _ => None,
        });
        let names: Vec<String> = names.collect();
        for name in &names {
            let (map, name) = match name.strip_prefix("*.") {
                Some(suffix) => (&mut self.wildcard, suffix),
                None => (&mut self.exact, &**name),
            };
            map.entry(name.into()).or_default().push(self.keys.len());
        }
        if self.keys.is_empty() {
            self.default = names.first().map(|name| name.as_str().into());
        }
        let info = CertificateInfo {
            name: match names.first() {
                Some(first) => first.as_str().into(),
                None => leaf.tbs_certificate().subject().to_string().into(),
            },
            expires_secs: expiry(&leaf),
            has_names: !names.is_empty(),
        };
        self.keys.push(Arc::new(identity));
        Ok(info)
    }

    /// Whether two hosts select the same certificates.
    pub fn are_alike(&self, one: &str, other: &str) -> bool {
        one == other || self.select(one) == self.select(other)
    }

    /// Returns the indices of the certificates that `name` selects. A name that no certificate is for
    /// selects the same ones as the first name of the first certificate.
    fn select(&self, name: &str) -> &[usize] {
        let found = self.find(&name.to_ascii_lowercase());
        let found = found.or_else(|| self.find(self.default.as_ref()?));
        found.map_or(&[0], Vec::as_slice)
    }

    /// Finds the certificates for a name in lower case. A wildcard matches one label.
    fn find(&self, name: &str) -> Option<&Vec<usize>> {
        self.exact.get(name).or_else(|| {
            let (_, suffix) = name.split_once('.')?;
            self.wildcard.get(suffix)
        })
    }
}

impl ResolvesServerCert for CertificateNames {
    /// Returns the first certificate that the client's name selects and the client can verify, or otherwise the first.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let selected = self.select(hello.server_name().unwrap_or_default());
        let mut keys = selected.iter().map(|&index| &self.keys[index]);
        let is_verifiable =
            |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let first = keys.clone().next();
        keys.find(is_verifiable).or(first).cloned()
    }
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for ServerTls {}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls")
    }
}

#[cfg(test)]
mod tests;
