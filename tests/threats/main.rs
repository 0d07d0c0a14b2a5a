//! The threat model (`docs/security.md`) as tables of tests, with a row for each case.
//!
//! Every test goes over real sockets and through the whole gateway, to an origin that records bytes.

#[path = "../support/mod.rs"]
mod support;

mod advisories;
mod delayed;
mod early_answers;
mod framing;
mod identity;
mod paths;
mod resources;
mod responses;
mod shared_connections;
mod shared_resets;
