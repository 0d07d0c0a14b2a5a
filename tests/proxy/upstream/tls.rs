//! Origins over TLS: who is spoken to, in which protocol, and what a failure is called.

mod handshakes;
pub mod origin;
mod quiet;
mod reloads;
