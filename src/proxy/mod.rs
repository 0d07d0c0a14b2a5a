//! The request's journey: from a client's bytes to an origin's and back.
//!
//! A connection comes in by [`listener`], stays with one [`worker`], and is served by
//! [`connection`] over [`client_io`], held to the letter by [`strict`]; each request takes the
//! [`journey`], one line per phase.

pub mod shared;

pub(crate) mod client_io;
pub(crate) mod connection;
mod gather;
pub(crate) mod listener;
pub(crate) mod registry;
pub(crate) mod strict;
pub mod sweep;
pub(crate) mod worker;

pub(crate) mod journey;

pub mod identify;
pub mod path;
pub mod route;
pub(crate) mod target;

pub(crate) mod hold;
pub(crate) mod plan;

pub(crate) mod body;
pub mod builtin;
pub mod forward;
pub mod forwarded;
pub mod headers;
pub mod pool;
pub mod upstream;
pub mod upstream_body;
mod upstream_io;
pub mod via;

pub mod annotate;
pub(crate) mod record;
pub mod refusal;
