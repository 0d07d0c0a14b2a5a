//! The scripts of `lua/`, whole and by their SHA.

use std::sync::LazyLock;

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
