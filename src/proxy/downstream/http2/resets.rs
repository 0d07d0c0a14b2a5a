//! How many streams a client may reset before they are answered.
//!
//! Such streams cost work for nothing. [`RESETS_MAX`] may be reset at once, and one more after each [`RESET_INTERVAL`]
//! and each answer: this bounds the rate, and not how many calls a long connection may cancel in total.

use std::cell::Cell;

use crate::clock::{Micros, Timestamp};

/// The resets of a connection.
#[derive(Debug, Default)]
pub(super) struct Resets {
    /// When no reset counts any more. Each reset puts this off by [`RESET_INTERVAL`], and each answer brings it as much
    /// nearer.
    calm_at: Cell<Timestamp>,
    are_too_many: Cell<bool>,
}

/// Most streams that may be reset at once, in addition to one for each answer.
pub(super) const RESETS_MAX: usize = 200;
/// How long it takes until one more stream may be reset: 200 a second.
const RESET_INTERVAL: Micros = Micros(5_000);
/// How far in the future `calm_at` may be before there are too many resets.
const UNREST_MAX: Micros = Micros(RESET_INTERVAL.0 * RESETS_MAX as u64);

impl Resets {
    /// Notes that a stream was reset at `now` before it was answered; returns whether there have been too many.
    pub(super) fn note(&self, now: Timestamp) -> bool {
        let calm_at = self.calm_at.get().max(now) + RESET_INTERVAL;
        self.calm_at.set(calm_at);
        if calm_at.since(now) > UNREST_MAX {
            self.are_too_many.set(true);
        }
        self.are_too_many()
    }

    /// Notes that a stream was answered.
    pub(super) fn note_answer(&self) {
        self.calm_at.set(self.calm_at.get() - RESET_INTERVAL);
    }

    /// Whether there have ever been too many resets.
    pub(super) fn are_too_many(&self) -> bool {
        self.are_too_many.get()
    }
}
