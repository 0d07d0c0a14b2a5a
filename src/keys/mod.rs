//! What operators order for single clients: an override for a time, a block, a reset, units given back or
//! spent. And how they ask what a client has left.
//!
//! A [`Directive`] is what is in force for a time. It names its client by digests, and the store keeps it
//! for the whole fleet. `apply` puts directives into a snapshot, so that a request pays nothing for what
//! nobody ordered; [`command`] is what `tollgate keys` asks for.

mod active_sources;
mod apply;
mod client;
pub mod command;
mod context;
pub mod directive;
mod error;
mod get;
pub mod report;

pub use active_sources::{ActiveSources, ConfigSources};
pub use apply::reset_states;
pub use context::Keys;
pub use directive::{Directive, hex};
pub use error::KeysError;
