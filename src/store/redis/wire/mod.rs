//! Plans as arguments of the scripts in `lua/`, and their replies as answers.
//!
//! A script decides and commits; what it replies is the state after the step, of which this side
//! makes the same state as the memory store keeps, and asks that for remaining, next, reset and
//! retry. What is sent and what comes back is described on top of the scripts. Nothing here does I/O.

mod decide;
mod message;
mod names;
mod script;
mod settle;
mod state_reply;

pub use decide::{Intent, pack, peeks, verdict};
pub use message::{BadReply, Packed, Reply, time_argument};
pub use names::KeyNames;
pub use script::Script;
pub use settle::{Call, Settlement, SettlementStep, announce, nodes, settle};
