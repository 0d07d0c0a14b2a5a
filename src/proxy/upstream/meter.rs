//! Where an upstream's requests are counted.

use crate::metrics::{UpstreamMetrics, WorkerIndex};

/// Where an upstream's requests are counted.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamMeter<'m> {
    /// The upstream's counters.
    pub metrics: &'m UpstreamMetrics,
    /// The worker that counts.
    pub worker: WorkerIndex,
}
