//! What is counted of an upstream over all workers and all reloads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::budget::RetryBudget;
use super::upstream::UpstreamState;
use crate::clock::Timestamp;

/// The counts of one upstream, by its name.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Requests under way, while `max_requests` bounds them.
    requests: AtomicUsize,
    budget: Mutex<RetryBudget>,
    /// What is in force under this name.
    current: Mutex<Weak<UpstreamState>>,
    /// Held while an endpoint is ejected, so that two workers do not eject the last two.
    pub(super) ejecting: Mutex<()>,
}

/// A request's place among those that an upstream may have at once.
#[derive(Debug)]
pub(crate) struct RequestPermit(Arc<Counts>);

impl Counts {
    /// Returns what is in force under this name, if anything is.
    pub(super) fn current(&self) -> Option<Arc<UpstreamState>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.upgrade().filter(|it| it.is_in_force())
    }

    /// Notes what is in force under this name.
    pub(super) fn set_current(&self, upstream: &Arc<UpstreamState>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::downgrade(upstream);
    }

    /// Takes a place, if fewer than `max` are taken.
    pub(super) fn admit(self: &Arc<Self>, max: usize) -> Option<RequestPermit> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        let admitted = self.requests.fetch_update(Relaxed, Relaxed, more);
        admitted.is_ok().then(|| RequestPermit(Arc::clone(self)))
    }

    /// Counts requests that a worker has begun.
    pub(super) fn add_requests(&self, requests: u64, now: Timestamp) {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.add_requests(requests, now);
    }

    /// Takes a retry of the budget, if there is one.
    pub(super) fn take_retry(&self, share: f64, now: Timestamp) -> bool {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.take(share, now)
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Relaxed);
    }
}
