//! A configuration's path: `gateway.toml` → [`mod@file`] (shape, spans) → [`mod@compile`] → `Snapshot` | [`report`].
//!
//! Parsed, not validated: the mirror ([`mod@file`]) records how the file spells things and where; the snapshot
//! cannot be wrong. All mistakes of a file are collected in one run. Everything that is known about a key is in
//! one place, the tables of [`options`].

pub mod file;
mod fingerprint;
pub mod options;
pub mod read;
pub mod value;

pub mod compile;
mod given;
mod load;
mod pieces;
mod read_paths;
pub mod report;
pub mod schema;
mod secrets;
pub mod sizing;
mod text;

pub mod changes;
mod describe;
pub mod display;
pub mod guarantee;
pub mod overshoot;

pub use describe::describe;
pub use load::{Loaded, environment, load, load_admin, reload};
pub use read::matching;
pub use read_paths::ReadPaths;
pub use text::{ConfigText, MissingValues};
