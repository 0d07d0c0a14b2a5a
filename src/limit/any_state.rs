//! A state of whichever algorithm a quota has.

use super::calendar_window::CalendarWindow;
use super::credits::Credits;
use super::fixed_window::FixedWindow;
use super::gcra::Gcra;
use super::in_flight::InFlight;
use super::penalty::Penalty;
use super::sliding_log::SlidingLog;
use super::sliding_window::SlidingWindow;
use super::{Algorithm, Charged, Decision, Quota, State};
use crate::clock::Timestamp;

/// The state of any algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is its algorithm's")]
pub enum AnyState {
    FixedWindow(FixedWindow),
    CalendarWindow(CalendarWindow),
    SlidingWindow(SlidingWindow),
    SlidingLog(SlidingLog),
    Gcra(Gcra),
    Credits(Credits),
    Penalty(Penalty),
    InFlight(InFlight),
}

/// Calls a method of whichever state there is.
macro_rules! state {
    ($any:expr, $state:ident => $call:expr) => {
        match $any {
            Self::FixedWindow($state) => $call,
            Self::CalendarWindow($state) => $call,
            Self::SlidingWindow($state) => $call,
            Self::SlidingLog($state) => $call,
            Self::Gcra($state) => $call,
            Self::Credits($state) => $call,
            Self::Penalty($state) => $call,
            Self::InFlight($state) => $call,
        }
    };
}

impl AnyState {
    /// Makes the state of an unused quota.
    pub fn new(quota: &Quota) -> Self {
        match quota.algorithm {
            Algorithm::FixedWindow => Self::FixedWindow(FixedWindow::default()),
            Algorithm::Calendar(_) => Self::CalendarWindow(CalendarWindow::default()),
            Algorithm::SlidingWindow { .. } => Self::SlidingWindow(SlidingWindow::default()),
            Algorithm::SlidingLog => Self::SlidingLog(SlidingLog::default()),
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => Self::Gcra(Gcra::default()),
            Algorithm::Credits { .. } => Self::Credits(Credits::default()),
            Algorithm::Penalty { .. } => Self::Penalty(Penalty::default()),
            Algorithm::InFlight => Self::InFlight(InFlight::default()),
        }
    }

    /// Brings the state to a time, and returns the time to decide at.
    pub fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        state!(self, state => state.arrive(quota, now))
    }

    /// Describes the state for a request of `cost`; `admit` says whether it was admitted.
    pub fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        state!(self, state => state.decision(quota, cost, at, admit))
    }

    /// Says whether `cost` fits at `at`, to which the state was brought.
    pub fn admits(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        state!(self, state => state.admits(quota, cost, at))
    }

    /// Says whether `cost` fits at `at`, which is no earlier than the time of the state.
    pub fn admits_later(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        match self {
            // Their `admits` ignores the time.
            Self::FixedWindow(window) => admits_later(window, quota, cost, at),
            Self::CalendarWindow(window) => admits_later(window, quota, cost, at),
            other => other.admits(quota, cost, at),
        }
    }

    /// Spends `cost` at `at`, whether it fits or not.
    pub fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        state!(self, state => state.charge(quota, cost, at))
    }

    /// Spends `amount` whether it fits or not, in the window or the bucket of the charge `then`.
    pub fn spend_then(&mut self, quota: &Quota, amount: u64, then: Charged, at: Timestamp) {
        state!(self, state => state.spend_then(quota, amount, then, at));
    }

    /// Spends `amount` whether it fits or not.
    pub fn spend(&mut self, quota: &Quota, amount: u64, at: Timestamp) {
        state!(self, state => state.spend(quota, amount, at));
    }

    /// Describes the newest charge that counts at `at`.
    pub fn newest(&self, quota: &Quota, at: Timestamp) -> Charged {
        state!(self, state => state.newest(quota, at))
    }

    /// Gives back `amount` units of a charge.
    pub fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, at: Timestamp) {
        state!(self, state => state.release(quota, charged, amount, at));
    }

    /// Says whether the quota is whole at `at`.
    pub fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool {
        state!(self, state => state.is_whole(quota, at))
    }

    /// Describes the charge of `cost` that was just made.
    pub(crate) fn latest_charge(&self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        match self {
            Self::FixedWindow(window) => window.latest_charge(quota, cost, at),
            Self::CalendarWindow(window) => window.latest_charge(cost, at),
            Self::Gcra(gcra) => gcra.latest_charge(quota, cost, at),
            Self::SlidingWindow(_)
            | Self::SlidingLog(_)
            | Self::Credits(_)
            | Self::Penalty(_)
            | Self::InFlight(_) => Charged::plain(at, cost),
        }
    }
}

/// Says whether `cost` fits once a state has been brought to `at`.
fn admits_later<S: State + Clone>(state: &S, quota: &Quota, cost: u64, at: Timestamp) -> bool {
    let mut state = state.clone();
    let at = state.arrive(quota, at);
    state.admits(quota, cost, at)
}
