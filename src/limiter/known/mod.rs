//! Clients that this gateway remembers, so that an operator can ask what another file would do to them now.
//!
//! Planning a request notes its client ([`SeenClients`]); the notes are kept for all workers
//! ([`KnownClients`]), and judged when an operator asks ([`judge()`]).

mod judge;
mod seen;
mod table;

pub use judge::{Judged, JudgedPolicy, judge};
pub use seen::SeenClients;
pub use table::KnownClients;
