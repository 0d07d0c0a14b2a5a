//! The scripts of `lua/`: their texts and SHA-1 digests.

use std::sync::LazyLock;

/// A script of `lua/`, by its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Decides plans, each all or nothing, or peeks at them. A full server answers OOM and executes
    /// nothing.
    Decide,
    /// Gives units back, spends more, or resets. A full server answers OOM and executes nothing.
    Settle,
    /// Announces a node, and counts the nodes; a full server too.
    Announce,
    /// As `Decide`, for a full server: updates keys that exist and creates none.
    DecideExisting,
    /// As `Settle`, for a full server: updates keys that exist and creates none.
    SettleExisting,
}

impl Script {
    /// All scripts.
    pub const ALL: [Self; 5] = [
        Self::Decide,
        Self::Settle,
        Self::Announce,
        Self::DecideExisting,
        Self::SettleExisting,
    ];

    /// Returns the script that takes the same keys and arguments and that a full server executes, if
    /// that is another one.
    pub fn when_full(self) -> Option<Self> {
        match self {
            Self::Decide => Some(Self::DecideExisting),
            Self::Settle => Some(Self::SettleExisting),
            Self::Announce | Self::DecideExisting | Self::SettleExisting => None,
        }
    }

    /// Returns the text as it is loaded.
    pub fn source(self) -> &'static str {
        match self {
            Self::Decide => DECIDE,
            Self::Settle => SETTLE,
            Self::Announce => ANNOUNCE,
            Self::DecideExisting => DECIDE_EXISTING,
            Self::SettleExisting => SETTLE_EXISTING,
        }
    }

    /// Returns its SHA-1 in forty hex digits.
    pub fn sha(self) -> &'static str {
        static HASHED: LazyLock<[redis::Script; Script::ALL.len()]> =
            LazyLock::new(|| Script::ALL.map(|script| redis::Script::new(script.source())));
        HASHED[self as usize].get_hash()
    }
}

/// Concatenates a head, the algorithms and a driver.
macro_rules! script {
    ($head:ident, $driver:literal) => {
        concat!(
            $head!(),
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

/// The first lines of a script that may create keys, which a full server does not begin to execute.
macro_rules! creating {
    () => {
        "#!lua\nlocal CREATES_KEYS = true\n"
    };
}

/// The first lines of a script that a full server executes.
macro_rules! existing {
    () => {
        "#!lua flags=allow-oom\nlocal CREATES_KEYS = false\n"
    };
}

const DECIDE: &str = script!(creating, "../../../../lua/decide.lua");
const DECIDE_EXISTING: &str = script!(existing, "../../../../lua/decide.lua");
const SETTLE: &str = script!(creating, "../../../../lua/settle.lua");
const SETTLE_EXISTING: &str = script!(existing, "../../../../lua/settle.lua");
const ANNOUNCE: &str = include_str!("../../../../lua/announce.lua");
