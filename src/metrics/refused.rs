//! Refusals by the gateway itself, counted by status and reason.

use std::fmt::Error;
use std::sync::atomic::AtomicU64;

use http::StatusCode;
use prometheus_client::encoding::DescriptorEncoder;

use super::shard::{Sharded, WorkerIndex, add};
use super::text::{count, counters};
use crate::fault::Reason;

/// Counts of the process's refusals. Their memory is constant, because statuses and reasons are from fixed sets.
#[derive(Debug)]
pub(super) struct Refused(Sharded<RefusedShard>);

#[derive(Debug)]
struct RefusedShard {
    /// Refusals by reason, then by the index of the status in [`STATUSES`].
    by_reason: Box<[[AtomicU64; STATUSES.len()]]>,
    /// Refusals by used-up quotas, whose status the file may choose, by status minus the lowest in [`OVER_QUOTA`].
    over_quota: Box<[AtomicU64]>,
}

/// Statuses of refusals, except those that the file chooses.
const STATUSES: [u16; 16] = [
    400, 401, 403, 404, 408, 413, 414, 417, 421, 429, 431, 501, 502, 503, 504, 508,
];

/// The statuses that a policy may choose for its refusals.
const OVER_QUOTA: std::ops::RangeInclusive<u16> = 400..=599;

impl Refused {
    pub(super) fn new(shards: usize) -> Self {
        Self(Sharded::new(shards))
    }

    /// Counts a refusal.
    #[inline]
    pub(super) fn count(&self, worker: WorkerIndex, status: StatusCode, reason: Reason) {
        if let Some(counter) = self.0.of(worker).counter(status.as_u16(), reason) {
            add(counter, 1);
        }
    }

    /// Renders the refusals that have occurred, and the usual one.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Responses of the gateway itself that refuse a request, by status and reason.";
        let mut family = counters(encoder, "refusals", help)?;
        for reason in Reason::ALL {
            for status in statuses(reason) {
                let sum = self.0.sum(|shard| {
                    let counter = shard.counter(status, reason);
                    counter.expect("each of its statuses has a counter")
                });
                // Most pairs cannot occur. The usual refusal is there from the start, so that its first
                // increase is seen.
                if sum > 0 || (status, reason) == USUAL {
                    let mut digits = itoa::Buffer::new();
                    let labels = [("status", digits.format(status)), ("reason", reason.word())];
                    count(&mut family, &labels, sum)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether there is a counter for refusals with this status and reason.
#[cfg(test)]
pub(crate) fn is_counted(status: StatusCode, reason: Reason) -> bool {
    let shard = RefusedShard::default();
    shard.counter(status.as_u16(), reason).is_some()
}

impl RefusedShard {
    fn counter(&self, status: u16, reason: Reason) -> Option<&AtomicU64> {
        if reason == Reason::QuotaExceeded {
            return self
                .over_quota
                .get(usize::from(status.checked_sub(*OVER_QUOTA.start())?));
        }
        let place = STATUSES.iter().position(|one| *one == status)?;
        Some(&self.by_reason[reason.index()][place])
    }
}

impl Default for RefusedShard {
    fn default() -> Self {
        Self {
            by_reason: (Reason::ALL.iter().map(|_| Default::default())).collect(),
            over_quota: OVER_QUOTA.map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

/// Returns the statuses that a reason may have.
fn statuses(reason: Reason) -> Vec<u16> {
    if reason == Reason::QuotaExceeded {
        OVER_QUOTA.collect()
    } else {
        STATUSES.to_vec()
    }
}

/// The usual refusal of a gateway that limits rates.
const USUAL: (u16, Reason) = (429, Reason::QuotaExceeded);
