//! The upstream side against origins whose every byte a test writes.

mod early;
mod harness;
mod http2;
mod names;
mod pooling;
mod sequences;
mod streaming;
pub mod tls;
