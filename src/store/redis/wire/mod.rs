//! Plans as arguments of the scripts in `lua/`, and their replies as answers.
//!
//! A script decides and commits; what it replies is the state after the step, of which this side
//! makes the same state as the memory store keeps, and asks that for remaining, next, reset and
//! retry. What is sent and what comes back is described on top of the scripts. Nothing here does I/O.

mod decide;
mod names;
mod settle;
mod state_reply;

use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::clock::Timestamp;

pub use decide::{Intent, pack, peeks, verdict};
pub use names::KeyNames;
pub use settle::{Call, Settlement, SettlementStep, announce, nodes, settle, settled};

/// A script of `lua/`, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Decides plans, each all or nothing, or looks at them.
    Decide,
    /// Gives back, spends more, or forgets.
    Settle,
    /// Notes that this node is alive, and counts those that are.
    Announce,
}

/// A plan, or the part of one that is kept on one server, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// One key per check.
    pub keys: SmallVec<[Box<[u8]>; 2]>,
    /// What the script is told of it.
    pub argument: Vec<u8>,
}

/// What the decide script says to one [`Packed`]: bytes that [`verdict`] and [`peeks`] read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(pub Vec<u8>);

/// The reply is nothing that the script says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reply that no script of this version gives")]
pub struct BadReply;

impl Script {
    /// All of them: each is loaded before a connection is used.
    pub const ALL: [Self; 3] = [Self::Decide, Self::Settle, Self::Announce];

    /// The text as it is loaded.
    pub fn source(self) -> &'static str {
        match self {
            Self::Decide => DECIDE,
            Self::Settle => SETTLE,
            Self::Announce => ANNOUNCE,
        }
    }

    /// Forty hex digits of its SHA-1.
    pub fn sha(self) -> &'static str {
        static HASHED: LazyLock<[redis::Script; 3]> =
            LazyLock::new(|| Script::ALL.map(|script| redis::Script::new(script.source())));
        HASHED[self as usize].get_hash()
    }
}

/// Renders the first argument of decide and settle: the time to decide at, or that the server's counts.
pub fn time_argument(at: Option<Timestamp>) -> Vec<u8> {
    at.map_or_else(Vec::new, |at| at.0.to_string().into_bytes())
}

/// Concatenates the algorithms and a driver.
macro_rules! script {
    ($driver:literal) => {
        concat!(
            include_str!("../../../../lua/prelude.lua"),
            include_str!("../../../../lua/fixed_window.lua"),
            include_str!("../../../../lua/sliding_window.lua"),
            include_str!("../../../../lua/sliding_log.lua"),
            include_str!("../../../../lua/gcra.lua"),
            include_str!("../../../../lua/algorithms.lua"),
            include_str!($driver),
        )
    };
}

const DECIDE: &str = script!("../../../../lua/decide.lua");
const SETTLE: &str = script!("../../../../lua/settle.lua");
const ANNOUNCE: &str = include_str!("../../../../lua/announce.lua");
