//! The scripts of `lua/`: their texts and SHA-1 digests.

use std::sync::LazyLock;

use super::checks::is_long;
use crate::limit::{Algorithm, Check};

/// A script of `lua/`, by its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Decides plans, each all or nothing, or peeks at them. A full server answers OOM and executes
    /// nothing.
    Decide,
    /// As `Decide`, for a plan of one check of a fixed window; it takes the server half as long.
    CheckFixedWindow,
    /// As `Decide`, for a plan of one check of a calendar.
    CheckCalendar,
    /// As `Decide`, for a plan of one check of a sliding window.
    CheckSlidingWindow,
    /// As `Decide`, for a plan of one check of a sliding log.
    CheckSlidingLog,
    /// As `Decide`, for a plan of one check of gcra or leaky-bucket.
    CheckGcra,
    /// Gives units back, spends more, or resets. A full server answers OOM and executes nothing.
    Settle,
    /// Announces a node, and counts the nodes; a full server too.
    Announce,
    /// Keeps directives, and returns them; on a full server too.
    Directives,
    /// As `Decide`, for a full server: updates keys that exist and creates none.
    DecideExisting,
    /// As `Settle`, for a full server: updates keys that exist and creates none.
    SettleExisting,
}

impl Script {
    /// All scripts.
    pub const ALL: [Self; 11] = [
        Self::Decide,
        Self::CheckFixedWindow,
        Self::CheckCalendar,
        Self::CheckSlidingWindow,
        Self::CheckSlidingLog,
        Self::CheckGcra,
        Self::Settle,
        Self::Announce,
        Self::Directives,
        Self::DecideExisting,
        Self::SettleExisting,
    ];

    /// Returns the cheapest script that decides a plan which has a call of its own.
    pub fn for_plan(plan: &[Check<'_>]) -> Self {
        let [check] = plan else {
            return Self::Decide;
        };
        match check.quota.algorithm {
            Algorithm::FixedWindow => Self::CheckFixedWindow,
            Algorithm::Calendar(_) => Self::CheckCalendar,
            Algorithm::SlidingWindow { buckets, .. } if is_long(buckets) => Self::Decide,
            Algorithm::SlidingWindow { .. } => Self::CheckSlidingWindow,
            Algorithm::SlidingLog => Self::CheckSlidingLog,
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => Self::CheckGcra,
        }
    }

    /// Returns the script that takes the same keys and arguments and that a full server executes, if
    /// that is another one.
    pub fn when_full(self) -> Option<Self> {
        match self {
            Self::Decide
            | Self::CheckFixedWindow
            | Self::CheckCalendar
            | Self::CheckSlidingWindow
            | Self::CheckSlidingLog
            | Self::CheckGcra => Some(Self::DecideExisting),
            Self::Settle => Some(Self::SettleExisting),
            Self::Announce | Self::Directives | Self::DecideExisting | Self::SettleExisting => None,
        }
    }

    /// Returns the text as it is loaded.
    pub fn source(self) -> &'static str {
        match self {
            Self::Decide => DECIDE,
            Self::CheckFixedWindow => CHECK_FIXED_WINDOW,
            Self::CheckCalendar => CHECK_CALENDAR,
            Self::CheckSlidingWindow => CHECK_SLIDING_WINDOW,
            Self::CheckSlidingLog => CHECK_SLIDING_LOG,
            Self::CheckGcra => CHECK_GCRA,
            Self::Settle => SETTLE,
            Self::Announce => ANNOUNCE,
            Self::Directives => DIRECTIVES,
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

/// Reads a file of `lua/`.
macro_rules! lua {
    ($($name:literal),+) => {
        include_str!(concat!("../../../../lua/", $($name,)+ ".lua"))
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

/// Makes the functions of an algorithm when they are first needed; its peek finds this state.
macro_rules! maker {
    ($name:literal, $functions:expr, $state:literal) => {
        maker!($name, $name, $functions, $state)
    };
    ($function:literal, $name:literal, $functions:expr, $state:literal) => {
        concat!(
            "\nlocal function ",
            $function,
            "()\n",
            $functions,
            "\nlocal function peek(key, room, x, y, number, plan)\n",
            lua!($name, "/peek"),
            "return fits, is_known, ",
            $state,
            "\nend\n\nlocal function commit(key, cost, room, x, y, flags, ",
            $state,
            ")\n",
            lua!($name, "/commit"),
            "return facts\nend\n",
            lua!($name, "/release"),
            "return peek, commit, release\nend\n",
        )
    };
}

/// How a sliding window of fewer than 128 buckets is stored.
macro_rules! short_window {
    () => {
        "
local WEIGHTED, DROPPED, INDEX_BYTES, INDEXES, PHASE, VALUE = 2, 4, 1, 256, 128, \">BI7I7BI4\"
local BUCKET_OF_4, BUCKET_OF_7 = \">BI4\", \">BI7\"
local VALUE_OF_4, VALUE_OF_7 = \">BI7I7c0BI4\", \">BI7I7c0BI7\"
"
    };
}

/// How one of more buckets is stored.
macro_rules! long_window {
    () => {
        "
local WEIGHTED, DROPPED, INDEX_BYTES, INDEXES, PHASE, VALUE = 9, 11, 2, 65536, 512, \">BI7I7I2I4\"
local BUCKET_OF_4, BUCKET_OF_7 = \">I2I4\", \">I2I7\"
local VALUE_OF_4, VALUE_OF_7 = \">BI7I7c0I2I4\", \">BI7I7c0I2I7\"
"
    };
}

/// Concatenates a head, all algorithms and a driver.
macro_rules! of_all {
    ($head:ident, $driver:literal) => {
        concat!(
            $head!(),
            lua!("prelude"),
            maker!("fixed_window", "", "value, start, used, is_new, is_changed"),
            maker!(
                "sliding_window",
                short_window!(),
                "index, value, first_at, bytes, newest, total, gathered"
            ),
            maker!(
                "long_window",
                "sliding_window",
                long_window!(),
                "index, value, first_at, bytes, newest, total, gathered"
            ),
            maker!("sliding_log", lua!("sliding_log/functions"), "view"),
            maker!("gcra", "", "tat, begun, given, reach, is_changed"),
            "\nlocal OUTSIDE = \"OUTSIDE \"\n",
            maker!(
                "calendar",
                "",
                "value, current, used, ends, is_new, is_changed"
            ),
            lua!("algorithms"),
            lua!($driver),
        )
    };
}

/// Concatenates a script for one check.
macro_rules! of_one {
    ($name:literal, $functions:expr) => {
        concat!(
            creating!(),
            lua!("prelude"),
            $functions,
            lua!("check/begin"),
            lua!($name, "/peek"),
            lua!("check/cost"),
            lua!($name, "/commit"),
            lua!("check/reply"),
        )
    };
}

const DECIDE: &str = of_all!(creating, "decide");
const DECIDE_EXISTING: &str = of_all!(existing, "decide");
const CHECK_FIXED_WINDOW: &str = of_one!("fixed_window", "");
const CHECK_CALENDAR: &str = of_one!("calendar", "\nlocal OUTSIDE = nil\n");
const CHECK_SLIDING_WINDOW: &str = of_one!("sliding_window", short_window!());
const CHECK_SLIDING_LOG: &str = of_one!("sliding_log", lua!("sliding_log/functions"));
const CHECK_GCRA: &str = of_one!("gcra", "");
const SETTLE: &str = of_all!(creating, "settle");
const SETTLE_EXISTING: &str = of_all!(existing, "settle");
const ANNOUNCE: &str = lua!("announce");
const DIRECTIVES: &str = lua!("directives");
