//! Certificates and keys: the files that the configuration names, with their content.

use std::fmt;
use std::path::PathBuf;

use rustls::pki_types::ServerName;

use super::Spanned;
use crate::tls::{ServerProof, TlsVersion};

/// A `tls` table for connections to servers, with the content of the files that it names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawTls {
    /// `ca`
    pub ca: Option<Pem>,
    /// `certificate`
    pub certificate: Option<Pem>,
    /// `key`
    pub key: Option<Pem>,
    /// `server_name`; if absent, the host of the server's address.
    pub server_name: Option<ServerName<'static>>,
    /// `verify`
    pub proof: ServerProof,
}

/// A file of keys or certificates, with its content.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// Path of the file.
    pub path: PathBuf,
    /// Content of the file, which may be a private key.
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
    /// `certificates`; if empty, the listener has no TLS.
    pub certificates: Vec<Spanned<RawCertificate>>,
    /// `min_version`
    pub min_version: TlsVersion,
    /// `client_ca`
    pub client_ca: Option<Pem>,
}

/// One item of `certificates`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawCertificate {
    /// `certificate`
    pub certificate: Option<Spanned<Pem>>,
    /// `key`
    pub key: Option<Spanned<Pem>>,
}
