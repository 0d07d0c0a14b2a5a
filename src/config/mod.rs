//! The configuration's journey: `gateway.toml` → [`mod@file`] (exact shape, spans) → [`mod@compile`] → `Snapshot` | [`report`].
//!
//! Parsed, not validated: the mirror knows how the file spells things and where, the snapshot
//! cannot be wrong. Every mistake of a file is collected in one run. What is known of a key stands in
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
