//! What every algorithm can do with the state of one partition.

use super::charged::Charged;
use super::quota::{Decision, Quota};
use crate::clock::Timestamp;

/// What one partition has spent of one quota, and the arithmetic of the algorithm that keeps it.
///
/// The caller first calls [`arrive`](State::arrive) with the store's time, shifted by the partition's
/// [`phase`](Quota::phase), and passes the time it returns to the rest. A default state is a whole quota.
pub trait State: Default {
    /// Brings the state to `now`, and returns the time to decide at.
    ///
    /// That is `now`, or the newest time for which the state holds units if that is ahead by at most a
    /// window ("time stands still"). State from further ahead is rewritten as if it were written now.
    fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp;

    /// Says whether `cost` fits at `at`.
    fn admits(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool;

    /// Spends `cost` at `at`, whether it fits or not. Returns what a release needs to know.
    fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged;

    /// Describes the state after the step, for a request of `cost`; `admit` says whether this quota admitted it.
    ///
    /// `wait` of the result is left at zero: the plan knows whether a wait counts.
    fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision;

    /// Gives back `amount` units of a charge made at `charged.at`, of which `charged.amount` units are
    /// still spent; `amount` is at most that.
    ///
    /// The quota never gets more than it would have if the units had not been spent. If the charge has
    /// aged out, nothing comes back.
    fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, at: Timestamp);

    /// Describes the newest charge that counts at `at`: what an operator gives back is taken from it.
    fn newest(&self, quota: &Quota, at: Timestamp) -> Charged;

    /// Spends `amount` whether it fits or not, for a cost that is known only after the response.
    fn spend(&mut self, quota: &Quota, amount: u64, at: Timestamp) {
        self.charge(quota, amount, at);
    }

    /// Spends `amount` whether it fits or not, in the window or bucket of the charge `then`, if that still counts.
    /// States that do not tell times apart count it at `at`.
    fn spend_then(&mut self, quota: &Quota, amount: u64, _then: Charged, at: Timestamp) {
        self.spend(quota, amount, at);
    }

    /// Says whether the quota is whole again at `at`, so that the state may be dropped.
    fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool;

    /// Returns the bytes that the state holds on the heap; most hold none.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Returns the bytes of the heap memory to which the state would have to move if units were spent at
    /// `at`; 0 if they fit in place.
    fn growth_bytes(&self, _quota: &Quota, _at: Timestamp) -> usize {
        0
    }

    /// Spends `amount` at `at` as `charge` does, but takes no more memory.
    ///
    /// A state that would have to grow gets coarser instead: units count as spent later than they were,
    /// up to `at`, so that the client may be refused for longer and is never admitted sooner. Units that
    /// were moved like this can no longer be given back.
    fn charge_in_place(&mut self, quota: &Quota, amount: u64, at: Timestamp) -> Charged {
        self.charge(quota, amount, at)
    }
}
