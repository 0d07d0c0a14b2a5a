//! What is counted per route: requests by the class of their status, and where their durations are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use http::StatusCode;

use super::shard::{Sharded, SharedSeries, WorkerIndex, add};

/// What is counted per route.
#[derive(Clone, Debug)]
pub struct RouteMetrics {
    pub(super) shards: Sharded<RouteShard>,
    pub(super) ranking: Arc<RouteRanking>,
}

/// Which histogram counts the durations of a route, and what decides that.
#[derive(Debug)]
pub(super) struct RouteRanking {
    /// The route's place among the histograms.
    pub(super) place: AtomicUsize,
    /// Requests that the route had had at the latest ranking.
    pub(super) ranked_requests: AtomicU64,
}

impl SharedSeries for RouteMetrics {
    fn has_other_holders(&self) -> bool {
        self.shards.has_other_holders()
    }
}

#[derive(Debug, Default)]
pub(super) struct RouteShard {
    pub(super) classes: [AtomicU64; STATUS_CLASSES.len()],
    /// Requests that a limit refused; `refused_5xx` has those of them that were answered with a 5xx.
    pub(super) refused: AtomicU64,
    refused_5xx: AtomicU64,
}

impl RouteMetrics {
    pub(super) fn new(shards: usize, place: usize) -> Self {
        Self {
            shards: Sharded::new(shards),
            ranking: Arc::new(RouteRanking {
                place: AtomicUsize::new(place),
                ranked_requests: AtomicU64::new(0),
            }),
        }
    }

    /// Counts a request that was answered with `status`, whoever answered.
    pub fn answered(&self, worker: WorkerIndex, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        let counters = &self.shards.of(worker).classes;
        add(counters.get(class).unwrap_or(&counters[0]), 1);
    }

    /// Counts a request whose client left before it was answered.
    pub fn unanswered(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).classes[0], 1);
    }

    /// Counts a request that a limit refused.
    pub fn refused(&self, worker: WorkerIndex, status: StatusCode) {
        let shard = self.shards.of(worker);
        add(&shard.refused, 1);
        if status.is_server_error() {
            add(&shard.refused_5xx, 1);
        }
    }

    /// Returns how many requests there were, how many of them a limit refused, and how many others were answered with a
    /// 5xx.
    pub fn totals(&self) -> [u64; 3] {
        let of_class = |class: usize| self.shards.sum(|shard| &shard.classes[class]);
        let requests = (0..STATUS_CLASSES.len()).map(of_class).sum();
        // Read first, so that a request that is being counted cannot make the difference negative.
        let refused_5xx = self.shards.sum(|shard| &shard.refused_5xx);
        let failed = of_class(STATUS_CLASSES.len() - 1).saturating_sub(refused_5xx);
        [requests, self.refused_total(), failed]
    }

    pub(super) fn refused_total(&self) -> u64 {
        self.shards.sum(|shard| &shard.refused)
    }
}

/// Labels of the status classes; the first is a request that was never answered.
pub(super) const STATUS_CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Most routes that have a histogram of their own.
pub(super) const ROUTES_MAX: usize = 50;

/// The place of all routes that have no histogram of their own.
pub(super) const OTHERS: usize = ROUTES_MAX;

/// The place of requests that no route took.
pub(super) const UNROUTED: usize = ROUTES_MAX + 1;

/// Label of requests that no route took.
pub const UNROUTED_NAME: &str = "none";

/// Number of histograms.
pub(super) const PLACES: usize = ROUTES_MAX + 2;
