//! Names the scripts of `lua/` by their tasks.

use std::sync::LazyLock;

use super::checks::is_long;
use super::parts::{
    CALENDAR, CREATING, EXISTING, FIXED_WINDOW, GCRA, IN_FLIGHT, LOG_FUNCTIONS, SHORT_WINDOW,
    SLIDING_LOG, SLIDING_WINDOW, lua, of_all, of_one, with,
};
use crate::limit::{Algorithm, Check};

/// A script of `lua/`, by its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Decides plans, each all or nothing, or peeks at them. A full server answers OOM and executes
    /// nothing.
    Decide,
    /// As `Decide`, for a plan of one check of a fixed window; this takes the server half as long.
    CheckFixedWindow,
    /// As `Decide`, for a plan of one check of a calendar.
    CheckCalendar,
    /// As `Decide`, for a plan of one check of a sliding window.
    CheckSlidingWindow,
    /// As `Decide`, for a plan of one check of a sliding log.
    CheckSlidingLog,
    /// As `Decide`, for a plan of one check of gcra or leaky-bucket.
    CheckGcra,
    /// As `Decide`, for a plan of one check of units in flight.
    CheckInFlight,
    /// Gives units back, spends more, or resets. A full server answers OOM and executes nothing.
    Settle,
    /// Announces a node, and counts the nodes; on a full server too.
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
    pub const ALL: [Self; 12] = [
        Self::Decide,
        Self::CheckFixedWindow,
        Self::CheckCalendar,
        Self::CheckSlidingWindow,
        Self::CheckSlidingLog,
        Self::CheckGcra,
        Self::CheckInFlight,
        Self::Settle,
        Self::Announce,
        Self::Directives,
        Self::DecideExisting,
        Self::SettleExisting,
    ];

    /// Returns the cheapest script that decides a plan in a call of its own.
    pub fn for_plan(plan: &[Check<'_>]) -> Self {
        let [check] = plan else {
            return Self::Decide;
        };
        match check.quota.algorithm {
            Algorithm::FixedWindow => Self::CheckFixedWindow,
            Algorithm::Calendar(_) => Self::CheckCalendar,
            Algorithm::SlidingWindow { buckets, .. } if is_long(buckets) => Self::Decide,
            Algorithm::Credits { .. } | Algorithm::Penalty { .. } => Self::Decide,
            Algorithm::InFlight => Self::CheckInFlight,
            Algorithm::SlidingWindow { .. } => Self::CheckSlidingWindow,
            Algorithm::SlidingLog => Self::CheckSlidingLog,
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => Self::CheckGcra,
        }
    }

    /// Returns the script to call instead on a full server, with the same keys and arguments; none if this
    /// script has no such form.
    pub fn when_full(self) -> Option<Self> {
        match self {
            Self::Decide
            | Self::CheckFixedWindow
            | Self::CheckCalendar
            | Self::CheckSlidingWindow
            | Self::CheckSlidingLog
            | Self::CheckGcra
            | Self::CheckInFlight => Some(Self::DecideExisting),
            Self::Settle => Some(Self::SettleExisting),
            Self::Announce | Self::Directives | Self::DecideExisting | Self::SettleExisting => None,
        }
    }

    /// Returns the script's text, as the server hashes it.
    pub fn source(self) -> &'static str {
        &LOADED[self as usize].0
    }

    /// Returns the SHA-1 of the script's text in forty hex digits.
    pub fn sha(self) -> &'static str {
        LOADED[self as usize].1.get_hash()
    }
}

/// The text of each script, and its hash.
static LOADED: LazyLock<[(String, redis::Script); Script::ALL.len()]> = LazyLock::new(|| {
    Script::ALL.map(|script| {
        let source = text(script);
        let hashed = redis::Script::new(&source);
        (source, hashed)
    })
});

fn text(script: Script) -> String {
    match script {
        Script::Decide => of_all(CREATING, lua!("decide")),
        Script::CheckFixedWindow => of_one("", &FIXED_WINDOW),
        Script::CheckCalendar => of_one("\nlocal OUTSIDE = nil\n", &CALENDAR),
        Script::CheckSlidingWindow => with(SHORT_WINDOW, &of_one("", &SLIDING_WINDOW)),
        Script::CheckSlidingLog => of_one(LOG_FUNCTIONS, &SLIDING_LOG),
        Script::CheckGcra => of_one("", &GCRA),
        Script::CheckInFlight => of_one("", &IN_FLIGHT),
        Script::Settle => of_all(CREATING, lua!("settle")),
        Script::Announce => lua!("announce").to_owned(),
        Script::Directives => lua!("directives").to_owned(),
        Script::DecideExisting => of_all(EXISTING, lua!("decide")),
        Script::SettleExisting => of_all(EXISTING, lua!("settle")),
    }
}
