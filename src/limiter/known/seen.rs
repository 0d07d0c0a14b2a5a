//! The clients that a worker has noted, so that each policy of a request takes only one look-up.

use std::cell::Cell;
use std::sync::Arc;

use super::table::{KnownClient, KnownClients};
use crate::clock::{Micros, Timestamp};
use crate::index::PolicyIndex;
use crate::limit::PartitionId;
use crate::metrics::WorkerIndex;
use crate::request::{ClientValues, Facts};
use crate::snapshot::Policy;

/// The clients that a worker has noted in the last minute, by their digests; it lives on the worker's thread.
#[derive(Debug)]
pub struct SeenClients {
    known: Arc<KnownClients>,
    worker: WorkerIndex,
    /// When the last tick was.
    now: Cell<Timestamp>,
    slots: Box<[Cell<u64>; SLOTS]>,
    /// How many more clients may be noted until the next tick.
    left: Cell<u32>,
    /// When all clients are noted again, because [`KnownClients`] forgets them in the order in which they were noted.
    again_at: Cell<Timestamp>,
}

impl SeenClients {
    /// Begins without clients at `now`; what the worker notes goes to `known`.
    pub fn new(known: Arc<KnownClients>, worker: WorkerIndex, now: Timestamp) -> Self {
        let slots = vec![Cell::new(0); SLOTS].into_boxed_slice();
        Self {
            known,
            worker,
            now: Cell::new(now),
            slots: slots.try_into().expect("it is as long"),
            left: Cell::new(NOTES_PER_TICK),
            again_at: Cell::default(),
        }
    }

    /// Updates the time, and lets more clients be noted. To be called a few times a second.
    pub fn tick(&self, now: Timestamp) {
        self.now.set(now);
        self.left.set(NOTES_PER_TICK);
        if now >= self.again_at.get() {
            self.again_at.set(now + AGAIN_AFTER);
            self.slots.iter().for_each(|slot| slot.set(0));
        }
    }

    /// Returns the worker that notes these clients.
    pub(in crate::limiter) fn worker(&self) -> WorkerIndex {
        self.worker
    }

    /// Returns the time of the last tick, a moment ago at most.
    pub(in crate::limiter) fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// Notes the client of a policy whose request has this partition, unless it has been noted lately.
    pub(in crate::limiter) fn note(
        &self,
        index: PolicyIndex,
        policy: &Policy,
        partition_id: PartitionId,
        facts: &Facts<'_>,
    ) {
        // Policies with the same partition have the same ids, so the policy's index tells them apart.
        let digest = partition_id.low().wrapping_add(usize::from(index) as u64);
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let slot = &self.slots[digest as usize % SLOTS];
        if slot.get() != digest {
            self.note_new(slot, digest, (policy, partition_id, facts));
        }
    }

    #[cold]
    fn note_new(
        &self,
        slot: &Cell<u64>,
        digest: u64,
        (policy, partition_id, facts): (&Policy, PartitionId, &Facts<'_>),
    ) {
        let Some(left) = self.left.get().checked_sub(1) else {
            return;
        };
        self.left.set(left);
        slot.set(digest);
        let Some(values) = ClientValues::of(&policy.partition, facts, VALUES_LEN_MAX) else {
            return;
        };
        let by = policy.overrides.as_ref().and_then(|of| of.by.as_ref());
        self.known.insert(KnownClient {
            policy: Arc::clone(&policy.name),
            partition_id,
            values,
            by: by.and_then(|by| ClientValues::of(by, facts, VALUES_LEN_MAX)),
        });
    }
}

/// Digests that a worker remembers: 64 KiB.
const SLOTS: usize = 1 << 13;
/// Most clients that a worker notes between two ticks; others are noted later.
const NOTES_PER_TICK: u32 = 256;
const AGAIN_AFTER: Micros = Micros::from_secs(60);
/// Most bytes of values that are kept of a client; one with more is not remembered.
const VALUES_LEN_MAX: usize = 512;
