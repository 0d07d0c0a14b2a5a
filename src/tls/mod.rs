//! TLS settings, read and checked once, when the file is compiled.
//!
//! Nothing here opens a file or a connection. [`material`] reads the texts of PEM files. [`client`] is
//! for connections to Redis and to origins, [`server`] for those of clients, and [`certificate`] for
//! the certificates by which clients identify themselves.

pub mod certificate;
pub mod client;
#[cfg(test)]
mod in_memory;
pub mod material;
pub mod server;
mod verifier;
mod x509;

pub use certificate::ClientCertificate;
pub use client::{ClientTls, failure_of};
pub use material::{TlsFault, TlsMaterial};
pub use server::{ALPN_HTTP2, ServerMaterial, ServerTls, ServerTlsFault, TlsVersion};
pub use verifier::ServerProof;

/// Name of HTTP/1.1 in a handshake (RFC 7301, section 6).
pub const ALPN_HTTP1: &[u8] = b"http/1.1";
