//! The configuration's journey: `gateway.toml` → [`mod@file`] (exact shape, spans) → [`mod@compile`] → `Snapshot` | [`report`].
//!
//! Parsed, not validated: the mirror knows how the file spells things and where, the snapshot
//! cannot be wrong. Every mistake of a file is collected in one run.

pub mod file;
pub mod read;
pub mod value;

pub mod compile;
mod load;
pub mod report;
mod secrets;

pub mod changes;
pub mod promise;
pub mod words;

pub use load::{Loaded, environment, load};
