//! What operators order for single clients: temporary overrides, blocks, resets, and units given back or spent. Also
//! how they ask what a client has left.
//!
//! A [`Directive`] is an order that is in force until some time. It names its client by digests, and the store keeps it
//! for the whole fleet. `apply` puts directives into a snapshot, so that requests are not slower while there are none;
//! [`command`] executes what `tollgate keys` asks for.

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
