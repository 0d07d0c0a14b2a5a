//! What a limit means: pure functions from state, quota, cost and time to a decision.
//!
//! Nothing here does I/O, waits, or reads a clock. Each algorithm is one file and implements [`State`];
//! [`plan`] decides several quotas, all or nothing, over any [`plan::Ledger`]; [`adjustment`] says what
//! a client is told once a charge is settled. Where states live is the store's business.

mod any_state;
mod charged;
pub mod quota;
mod state;

pub mod calendar;
pub mod calendar_window;
pub mod credits;
pub mod fixed_window;
pub mod gcra;
pub mod in_flight;
pub mod penalty;
pub mod sliding_log;
pub mod sliding_window;

pub mod adjustment;
pub mod consistency;
pub mod partition_id;
pub mod plan;

pub use adjustment::Adjustment;
pub use any_state::AnyState;
pub use calendar::{AnchorDay, Calendar, CalendarShape, CalendarUnit};
pub use charged::Charged;
pub use consistency::{Consistency, Overshoot, SyncInterval};
pub use partition_id::PartitionId;
pub use plan::{Check, CheckResult, Plan, Verdict};
pub use quota::{Algorithm, Align, Count, Decision, OldestBucket, Quota, Retry};
pub use state::State;
