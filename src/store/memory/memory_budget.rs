//! How many bytes the store holds, and whether it may take more.
//!
//! It is one number for the whole process. It changes only when a table or a state's heap grows or
//! shrinks, and not with each decision, so workers do not contend for its cache line.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts the bytes of tables and of what their states hold on the heap.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
    /// Charges that made a state coarser, because there was no memory for more.
    coarsened: AtomicU64,
}

impl MemoryBudget {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(bytes_max),
            coarsened: AtomicU64::new(0),
        }
    }

    /// Changes the bound. Memory that is held beyond a smaller bound stays until it is idle.
    pub(super) fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub(super) fn coarsened(&self) -> u64 {
        self.coarsened.load(Relaxed)
    }

    pub(super) fn note_coarsened(&self) {
        self.coarsened.fetch_add(1, Relaxed);
    }

    /// Says whether `more` bytes for a newcomer would stay within what newcomers may fill.
    pub(super) fn fits_newcomer(&self, more: usize) -> bool {
        self.bytes().saturating_add(more as u64) <= self.newcomers_max()
    }

    /// Takes `more` bytes for a newcomer if they stay within what newcomers may fill, and says
    /// whether it did.
    pub(super) fn try_take_for_newcomer(&self, more: usize) -> bool {
        self.try_take_within(self.newcomers_max(), more)
    }

    /// Takes `more` bytes for a known client if they stay within the bound, and says whether it did.
    pub(super) fn try_take_for_known(&self, more: usize) -> bool {
        self.try_take_within(self.bytes_max.load(Relaxed), more)
    }

    /// Returns the bytes that newcomers may fill. The rest is kept for the logs and windows of known clients.
    fn newcomers_max(&self) -> u64 {
        let bytes_max = self.bytes_max.load(Relaxed);
        bytes_max - bytes_max / KNOWN_SHARE
    }

    fn try_take_within(&self, bytes_max: u64, more: usize) -> bool {
        let taken = |bytes: u64| {
            let sum = bytes.saturating_add(more as u64);
            (sum <= bytes_max).then_some(sum)
        };
        self.bytes.fetch_update(Relaxed, Relaxed, taken).is_ok()
    }

    /// Notes that something grew or shrank from `before` to `after` bytes, whatever the bound.
    pub(super) fn note(&self, before: usize, after: usize) {
        if after >= before {
            self.bytes.fetch_add((after - before) as u64, Relaxed);
        } else {
            self.bytes.fetch_sub((before - after) as u64, Relaxed);
        }
    }
}

/// One part in this many of the bound is kept for known clients.
const KNOWN_SHARE: u64 = 8;
