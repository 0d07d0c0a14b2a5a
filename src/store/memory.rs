//! The memory store.

use smallvec::SmallVec;

use super::{Charge, Outcome, Series, Usage};
use crate::clock::Clock;
use crate::limit::plan::Slot;
use crate::limit::{Ask, Decision, Tag};

/// Counters in this process's memory, shared by its workers.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Clock,
}

impl MemoryStore {
    /// Makes an empty store that holds at most `bytes_max`.
    pub fn new(clock: Clock, bytes_max: u64) -> Self {
        let _ = bytes_max;
        Self { clock }
    }
    pub(super) fn decide(&self, plan: &[Ask<'_>]) -> Outcome {
        let _ = (plan, &self.clock);
        unimplemented!()
    }
    pub(super) fn look(&self, plan: &[Ask<'_>]) -> SmallVec<[Decision; 4]> {
        let _ = plan;
        unimplemented!()
    }
    pub(super) fn release(&self, charge: Charge, amount: u64) -> Charge {
        let _ = amount;
        charge
    }
    pub(super) fn spend(&self, charge: &Charge, amount: u64) {
        let _ = (charge, amount);
    }
    pub(super) fn reset(&self, slot: Slot, tag: Tag) {
        let _ = (slot, tag);
    }
    pub(super) fn slot(&self, series: &Series) -> Slot {
        let _ = series;
        Slot(0)
    }
    pub(super) fn retain(&self, live: &[Slot]) {
        let _ = live;
    }
    /// Drops idle state and gives its memory back; called regularly, a shard at a time.
    pub fn sweep(&self) {}
    /// Says what the store holds.
    pub fn usage(&self) -> Usage {
        Usage::default()
    }
}
