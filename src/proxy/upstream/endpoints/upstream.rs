//! An upstream of origins as one configuration has it, and where its requests can go.

use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Notify;

use super::budget::RetryBudget;
use super::state::{EndpointState, Failure};
use crate::clock::Timestamp;
use crate::metrics::WorkerIndex;
use crate::snapshot::{HttpUpstream, Upstream, UpstreamKind};

/// An upstream of origins, and its endpoints as far as they are known.
#[derive(Debug)]
pub struct UpstreamState {
    pub(super) upstream: Arc<Upstream>,
    counts: Arc<Counts>,
    members: ArcSwap<Members>,
    /// Counts the changes of `members`.
    version: AtomicU64,
    /// Wakes the requests that wait for the first endpoint.
    changed: Notify,
    is_in_force: AtomicBool,
}

/// What is counted of one upstream, by its name, over all workers and all reloads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Requests under way, while `max_requests` bounds them.
    requests: AtomicUsize,
    budget: Mutex<RetryBudget>,
    /// What is in force under this name.
    current: Mutex<Weak<UpstreamState>>,
    /// Held while an endpoint is ejected, so that two workers do not eject the last two.
    ejecting: Mutex<()>,
}

/// A request's place among those that an upstream may have at once.
#[derive(Debug)]
pub(crate) struct RequestPermit(Arc<Counts>);

/// The endpoints of an upstream.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) list: Box<[Member]>,
    /// A name that has no address; none if all have one.
    pub(crate) unresolved: Option<Unresolved>,
}

/// An endpoint of an upstream.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) state: Arc<EndpointState>,
    pub(crate) weight: u32,
}

/// A name without an address.
#[derive(Clone, Debug)]
pub(crate) struct Unresolved {
    /// The authority of its endpoint.
    pub(crate) endpoint: Box<str>,
    /// Why; none if its first look-up has not ended.
    pub(crate) error: Option<Arc<str>>,
}

impl UpstreamState {
    pub(super) fn new(upstream: Arc<Upstream>, counts: Arc<Counts>, members: Members) -> Self {
        Self {
            upstream,
            counts,
            members: ArcSwap::from_pointee(members),
            version: AtomicU64::new(0),
            changed: Notify::new(),
            is_in_force: AtomicBool::new(true),
        }
    }

    /// Whether new requests come here.
    pub(crate) fn is_in_force(&self) -> bool {
        self.is_in_force.load(Relaxed)
    }

    /// Returns what is in force under its name, if anything is.
    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        let current = &self.counts.current;
        let current = current.lock().unwrap_or_else(PoisonError::into_inner);
        current.upgrade().filter(|upgrade| upgrade.is_in_force())
    }

    /// Notes that it is in force under its name.
    pub(super) fn succeed(self: &Arc<Self>) {
        let current = &self.counts.current;
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::downgrade(self);
    }

    /// Notes that the configuration in force has another in its place, or none.
    pub(super) fn retire(&self) {
        self.is_in_force.store(false, Relaxed);
    }

    /// Returns what the file says of it.
    pub(crate) fn http(&self) -> &HttpUpstream {
        match &self.upstream.kind {
            UpstreamKind::Http(http) => http,
            _ => unreachable!("only upstreams of origins have endpoints"),
        }
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.upstream.name
    }

    /// Returns its endpoints as they are now.
    pub(crate) fn members(&self) -> Guard<Arc<Members>> {
        self.members.load()
    }

    /// Returns a number that changes with the endpoints.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Puts other endpoints in the place of those that are known.
    pub(super) fn replace(&self, members: Members) {
        self.members.store(Arc::new(members));
        self.version.fetch_add(1, Release);
        self.changed.notify_waiters();
    }

    /// Waits until a first look-up has ended, if there is no endpoint before that.
    pub(crate) async fn resolved(&self) {
        loop {
            let changed = self.changed.notified();
            let members = Arc::clone(&self.members());
            match &members.unresolved {
                Some(unresolved) if members.list.is_empty() && unresolved.error.is_none() => {}
                _ => return,
            }
            changed.await;
        }
    }

    /// Takes one of `max_requests` places; none if all are taken.
    pub(crate) fn admit(&self, max: usize) -> Option<RequestPermit> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        let admitted = (self.counts.requests).fetch_update(Relaxed, Relaxed, more);
        admitted
            .is_ok()
            .then(|| RequestPermit(Arc::clone(&self.counts)))
    }

    /// Counts requests that a worker has begun, for the budget of retries.
    pub(crate) fn add_requests(&self, requests: u64, now: Timestamp) {
        let budget = &self.counts.budget;
        let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.add_requests(requests, now);
    }

    /// Takes a retry of the budget, if there is one.
    pub(crate) fn take_retry(&self, now: Timestamp) -> bool {
        let share = self.http().retry_budget;
        let budget = &self.counts.budget;
        let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.take(share, now)
    }

    /// Notes that a request failed at an endpoint, and ejects it if that was one too many in a row and
    /// another is available.
    pub(crate) fn failed(
        &self,
        endpoint: &Arc<EndpointState>,
        failure: &Failure<'_>,
        now: Timestamp,
        worker: WorkerIndex,
    ) {
        let eject = self.http().eject;
        if !endpoint.failed(failure, eject.failures, now, worker) || !endpoint.is_in_use() {
            return;
        }
        let ejecting = &self.counts.ejecting;
        let _ejecting = ejecting.lock().unwrap_or_else(PoisonError::into_inner);
        let members = self.members();
        let others = members.list.iter().map(|member| &member.state);
        let mut others = others.filter(|state| !Arc::ptr_eq(state, endpoint));
        if endpoint.is_in_use() && others.any(|state| state.is_available(now)) {
            endpoint.eject(eject, now, worker);
        }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Relaxed);
    }
}
