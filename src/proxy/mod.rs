//! The request's journey: from a client's bytes to an origin's and back.

pub mod annotate;
pub mod path;
pub mod refusal;
pub mod route;
pub mod sweep;

pub mod builtin;
pub mod forward;
pub mod forwarded;
pub mod headers;
pub mod pool;
pub mod upstream;
pub mod upstream_body;
