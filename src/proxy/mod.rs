//! The request's journey: from a client's bytes to an origin's and back.
//!
//! [`downstream`] accepts connections and reads requests off them, each request takes the
//! [`journey`], one line per phase, and [`upstream`] sends it to an origin. A [`worker`] is the
//! thread on which all of that happens.

pub mod shared;

pub(crate) mod worker;

pub(crate) mod downstream;

pub(crate) mod journey;

pub(crate) mod hold;
pub(crate) mod plan;

pub(crate) mod body;
pub mod forwarded;
pub mod upstream;
pub mod via;

pub mod annotate;
pub(crate) mod record;
pub mod refusal;

pub mod deadline;
mod gather;
