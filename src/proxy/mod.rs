//! Proxying: from a client's bytes to an origin's and back.
//!
//! A worker [`run`]s connections: [`downstream`] reads requests off them, each request takes the
//! [`journey`], one line per phase, and [`upstream`] sends it to an origin. The journey's answers are
//! a [`refusal`]'s or an origin's, get their limit fields in [`annotate`], and stream out as a
//! [`body`], with which the [`exchange`] ends and its [`record`] is written.

pub mod shared;

pub(crate) mod run;

pub(crate) mod journey;

pub mod annotate;
mod body;
mod check;
mod client;
mod exchange;
pub mod forwarded;
mod hold;
mod record;
pub mod refusal;
mod worker;

pub(crate) mod downstream;
pub mod upstream;

pub mod deadline;
mod gather;
