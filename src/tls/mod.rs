//! TLS: read and checked once, when the file is compiled.
//!
//! Nothing here opens a file or a connection. [`material`] is what PEM files hold. [`client`] is
//! for connections to Redis and to origins, [`server`] for those of clients.

pub mod client;
pub mod material;
pub mod server;

pub use client::ClientTls;
pub use material::{TlsFault, TlsMaterial};
pub use server::{ServerMaterial, ServerTls, ServerTlsFault, TlsVersion};
