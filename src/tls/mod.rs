//! TLS: read and checked once, when the file is compiled.
//!
//! Nothing here opens a file or a connection. [`material`] is what PEM files hold. [`client`] is
//! for connections to Redis and to origins, [`server`] for those of clients, whose own
//! [`certificate`]s name them.

pub mod certificate;
pub mod client;
pub mod material;
pub mod server;

pub use certificate::ClientCertificate;
pub use client::ClientTls;
pub use material::{TlsFault, TlsMaterial};
pub use server::{ServerMaterial, ServerTls, ServerTlsFault, TlsVersion};
