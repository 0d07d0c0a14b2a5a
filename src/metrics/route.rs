//! What is counted per route: requests by the class of their status, and where their durations are counted.

use std::sync::atomic::{AtomicU64, AtomicUsize};

use http::StatusCode;

use super::shard::{Sharded, WorkerIndex, add};

/// What is counted per route.
#[derive(Debug)]
pub struct RouteMetrics {
    pub(super) classes: Sharded<[AtomicU64; STATUS_CLASSES.len()]>,
    /// Its place among the histograms of durations.
    pub(super) place: AtomicUsize,
    /// How many requests it had had when routes were ranked last.
    pub(super) ranked_requests: AtomicU64,
}

impl RouteMetrics {
    pub(super) fn new(shards: usize, place: usize) -> Self {
        Self {
            classes: Sharded::new(shards),
            place: AtomicUsize::new(place),
            ranked_requests: AtomicU64::new(0),
        }
    }

    /// Counts a request that was answered with `status`, whoever answered.
    pub fn answered(&self, worker: WorkerIndex, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        let counters = self.classes.of(worker);
        add(counters.get(class).unwrap_or(&counters[0]));
    }

    /// Counts a request whose client left before it was answered.
    pub fn unanswered(&self, worker: WorkerIndex) {
        add(&self.classes.of(worker)[0]);
    }
}

/// Labels of the status classes; the first is a request that was never answered.
pub(super) const STATUS_CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Most routes that have a histogram of their own.
pub(super) const ROUTES_MAX: usize = 50;

/// The place of routes that have none of their own.
pub(super) const OTHERS: usize = ROUTES_MAX;

/// The place of requests that no route took.
pub(super) const UNROUTED: usize = ROUTES_MAX + 1;

/// How many histograms there are.
pub(super) const PLACES: usize = ROUTES_MAX + 2;
