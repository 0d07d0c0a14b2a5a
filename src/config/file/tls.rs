//! What the file says of certificates and keys: the files that it names, read.

use std::fmt;
use std::path::PathBuf;

use rustls::pki_types::ServerName;

use super::Spanned;
use crate::tls::{ServerProof, TlsVersion};

/// A `tls` table towards servers; each file is read if it is named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawTls {
    /// `ca`
    pub ca: Option<Pem>,
    /// `certificate`
    pub certificate: Option<Pem>,
    /// `key`
    pub key: Option<Pem>,
    /// `server_name`; none: the host of the server's address.
    pub server_name: Option<ServerName<'static>>,
    /// `verify`
    pub proof: ServerProof,
}

/// A file of keys or certificates, read.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it; may be a private key.
    pub content: Vec<u8>,
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pem({})", self.path.display())
    }
}

/// `[listeners.NAME.tls]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawServerTls {
    /// `certificates`; none: the listener has no TLS.
    pub certificates: Vec<Spanned<RawCertificate>>,
    /// `min_version`
    pub min_version: TlsVersion,
    /// `client_ca`
    pub client_ca: Option<Pem>,
}

/// One of `certificates`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawCertificate {
    /// `certificate`
    pub certificate: Option<Spanned<Pem>>,
    /// `key`
    pub key: Option<Spanned<Pem>>,
}
