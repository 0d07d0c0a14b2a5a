//! Origins over TLS: which certificates are accepted, which protocol is spoken, and how failures are named.

mod handshakes;
pub mod origin;
mod quiet;
mod reloads;
