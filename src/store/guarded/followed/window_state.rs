//! The counts of a window quota: as Redis said them, with what was counted since.

use crate::clock::Timestamp;
use crate::limit::calendar_window::CalendarWindow;
use crate::limit::fixed_window::FixedWindow;
use crate::limit::sliding_window::SlidingWindow;
use crate::limit::{Charged, Decision, Quota, State};
use crate::store::redis::wire::StateReply;

/// The counts of a window quota.
#[derive(Clone, Debug)]
pub(super) enum WindowState {
    Fixed(FixedWindow),
    Calendar(CalendarWindow),
    Sliding(SlidingWindow),
}

/// Calls a method of whichever state there is.
macro_rules! state {
    ($window:expr, $state:ident => $call:expr) => {
        match $window {
            Self::Fixed($state) => $call,
            Self::Calendar($state) => $call,
            Self::Sliding($state) => $call,
        }
    };
}

impl WindowState {
    /// Takes what Redis replied; none if it is no window.
    pub(super) fn of(reply: StateReply) -> Option<Self> {
        match reply {
            StateReply::FixedWindow(state) => Some(Self::Fixed(state)),
            StateReply::CalendarWindow(state) => Some(Self::Calendar(state)),
            StateReply::SlidingWindow(state) => Some(Self::Sliding(state)),
            StateReply::SlidingLog(_)
            | StateReply::Gcra(_)
            | StateReply::Credits(_)
            | StateReply::Penalty(_)
            | StateReply::InFlight(_) => None,
        }
    }

    /// Makes counts of the same kind of which nothing is used.
    pub(super) fn whole(&self) -> Self {
        match self {
            Self::Fixed(_) => Self::Fixed(FixedWindow::default()),
            Self::Calendar(_) => Self::Calendar(CalendarWindow::default()),
            Self::Sliding(_) => Self::Sliding(SlidingWindow::default()),
        }
    }

    pub(super) fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        state!(self, state => state.arrive(quota, now))
    }

    pub(super) fn admits(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        state!(self, state => state.admits(quota, cost, at))
    }

    pub(super) fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        state!(self, state => state.charge(quota, cost, at))
    }

    pub(super) fn decision(
        &self,
        quota: &Quota,
        cost: u64,
        at: Timestamp,
        admit: bool,
    ) -> Decision {
        state!(self, state => state.decision(quota, cost, at, admit))
    }

    pub(super) fn spend_then(&mut self, quota: &Quota, amount: u64, then: Charged, at: Timestamp) {
        state!(self, state => state.spend_then(quota, amount, then, at));
    }

    pub(super) fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, at: Timestamp) {
        state!(self, state => state.release(quota, charged, amount, at));
    }

    pub(super) fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool {
        state!(self, state => state.is_whole(quota, at))
    }
}
