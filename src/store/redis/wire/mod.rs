//! Turns plans into arguments of the scripts in `lua/`, and their replies into answers.
//!
//! A script decides, commits, and replies the state after the step. This side reads it into the state
//! that the memory store keeps too, which computes remaining, next, reset and retry. The scripts
//! describe at their tops what they take and what they reply. Nothing here does I/O.

mod bad_reply;
mod checks;
mod decide;
mod directives;
mod message;
mod names;
mod parts;
mod script;
mod settle;
mod state_reply;

pub use bad_reply::BadReply;
pub use decide::{
    AskingGateway, Intent, RefusedState, holders, pack, peeks, refused, states, verdict,
};
pub use directives::{DirectiveAction, directive_count, directive_set, directives};
pub use message::{Packed, PlanError, Replies, Reply, time_argument};
pub use names::KeyNames;
pub use script::Script;
pub use settle::{
    AnnouncementReply, Call, Settlement, SettlementStep, announce, announcement_reply, nodes,
    outside_at, settle, settled_at, settled_state,
};
