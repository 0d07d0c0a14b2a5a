//! The request's journey: from a client's bytes to an origin's and back.

pub mod identify;
pub mod path;
pub mod route;
