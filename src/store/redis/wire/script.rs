//! The scripts of `lua/`: their texts and SHA-1 digests.

use std::sync::LazyLock;

/// A script of `lua/`, by its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Decides plans, each all or nothing, or peeks at them.
    Decide,
    /// Gives units back, spends more, or resets.
    Settle,
    /// Announces a node, and counts the nodes.
    Announce,
}

impl Script {
    /// All scripts: they are loaded before a connection is used.
    pub const ALL: [Self; 3] = [Self::Decide, Self::Settle, Self::Announce];

    /// Returns the text as it is loaded.
    pub fn source(self) -> &'static str {
        match self {
            Self::Decide => DECIDE,
            Self::Settle => SETTLE,
            Self::Announce => ANNOUNCE,
        }
    }

    /// Returns its SHA-1 in forty hex digits.
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
