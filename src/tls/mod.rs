//! TLS: read and checked once, when the file is compiled.
//!
//! Nothing here opens a file or a connection. [`material`] is what PEM files hold. [`client`] is
//! for connections to Redis and to origins, [`server`] for those of clients, whose own
//! [`certificate`]s name them.

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

/// What HTTP/1.1 is called in a handshake (RFC 7301, section 6).
pub const ALPN_HTTP1: &[u8] = b"http/1.1";
