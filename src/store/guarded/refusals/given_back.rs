//! Partitions to which units came back recently, so that a refusal that was asked for before is not remembered.

use crate::clock::Timestamp;

/// The latest returns of units, by partition; of older ones only the time.
#[derive(Debug, Default)]
pub(super) struct GivenBack {
    /// Hashes of series and partition, with the times: a ring.
    last: [(u64, Timestamp); RETURNS],
    /// Index of the oldest entry of the ring.
    oldest: usize,
    /// Time of the latest return that has left the ring.
    older: Timestamp,
}

impl GivenBack {
    /// Notes that units of a partition came back by `now`.
    pub(super) fn note(&mut self, hash: u64, now: Timestamp) {
        let (_, left) = std::mem::replace(&mut self.last[self.oldest], (hash, now));
        self.older = self.older.max(left);
        self.oldest = (self.oldest + 1) % RETURNS;
    }

    /// Says whether units of a partition may have come back after `sent`.
    pub(super) fn is_after(&self, hash: u64, sent: Timestamp) -> bool {
        sent < self.older || (self.last.iter()).any(|&(of, at)| of == hash && sent < at)
    }
}

/// Returns that a ring holds. There is one in each shard, and it need only cover the time that a call takes.
pub(super) const RETURNS: usize = 16;
