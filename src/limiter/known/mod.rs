//! Clients that this gateway remembers, so that an operator can ask what another file would do to them now.
//!
//! Whoever plans a request notes its client ([`SeenClients`]); what is noted is kept for all workers
//! ([`KnownClients`]), and judged when somebody asks ([`judge()`]).

mod judge;
mod seen;
mod table;

pub use judge::{Judged, JudgedPolicy, judge};
pub use seen::SeenClients;
pub use table::KnownClients;
