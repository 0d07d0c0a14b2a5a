//! An upstream of origins as one configuration defines it, and where its requests can go.

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

/// An upstream of origins, and its endpoints as far as their names are resolved.
#[derive(Debug)]
pub struct UpstreamState {
    pub(super) upstream: Arc<Upstream>,
    counts: Arc<Counts>,
    members: ArcSwap<Members>,
    /// The number of changes of `members`.
    version: AtomicU64,
    /// Wakes the requests that wait for the first endpoint.
    changed: Notify,
    is_in_force: AtomicBool,
}

/// Counters of one upstream's name, over all workers and all reloads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Requests under way; only counted if the upstream has `max_requests`.
    requests: AtomicUsize,
    budget: Mutex<RetryBudget>,
    /// The upstream that is in force under this name.
    current: Mutex<Weak<UpstreamState>>,
    /// Held while an endpoint is ejected, so that two workers do not eject the last two.
    ejecting: Mutex<()>,
}

/// Permit of a request to be one of an upstream's `max_requests`; released when dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit(Arc<Counts>);

/// The endpoints of an upstream.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) list: Box<[Member]>,
    /// An endpoint whose name has no address; none if all names have one.
    pub(crate) unresolved: Option<Unresolved>,
}

/// An endpoint of an upstream.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) state: Arc<EndpointState>,
    pub(crate) weight: u32,
}

/// An endpoint whose name has no address.
#[derive(Clone, Debug)]
pub(crate) struct Unresolved {
    /// Host and port of the endpoint.
    pub(crate) endpoint: Box<str>,
    /// Why the name does not resolve; none if its first look-up has not ended.
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

    /// Whether the upstream belongs to the configuration in force, so that new requests come here.
    pub(crate) fn is_in_force(&self) -> bool {
        self.is_in_force.load(Relaxed)
    }

    /// Returns the upstream in force under the same name, if there is one.
    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        let current = &self.counts.current;
        let current = current.lock().unwrap_or_else(PoisonError::into_inner);
        current.upgrade().filter(|upgrade| upgrade.is_in_force())
    }

    /// Notes that this upstream is the one in force under its name.
    pub(super) fn make_current(self: &Arc<Self>) {
        let current = &self.counts.current;
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::downgrade(self);
    }

    /// Notes that this upstream does not belong to the configuration in force any more.
    pub(super) fn retire(&self) {
        self.is_in_force.store(false, Relaxed);
    }

    /// Returns the upstream's settings in the file.
    pub(crate) fn http(&self) -> &HttpUpstream {
        match &self.upstream.kind {
            UpstreamKind::Http(http) => http,
            _ => unreachable!("only upstreams of origins have endpoints"),
        }
    }

    /// Returns the upstream's name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.upstream.name
    }

    /// Returns the endpoints as they are now.
    pub(crate) fn members(&self) -> Guard<Arc<Members>> {
        self.members.load()
    }

    /// Returns a number that changes with the endpoints.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Replaces the endpoints, and wakes requests that wait for the first.
    pub(super) fn replace(&self, members: Members) {
        self.members.store(Arc::new(members));
        self.version.fetch_add(1, Release);
        self.changed.notify_waiters();
    }

    /// Waits until there is an endpoint, or the first look-up of a name has failed.
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

    /// Takes a permit for one of at most `max` requests at a time; none if there are that many already.
    pub(crate) fn admit(&self, max: usize) -> Option<RequestPermit> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        let admitted = (self.counts.requests).fetch_update(Relaxed, Relaxed, more);
        admitted
            .is_ok()
            .then(|| RequestPermit(Arc::clone(&self.counts)))
    }

    /// Counts requests that a worker has begun, for the retry budget.
    pub(crate) fn add_requests(&self, requests: u64, now: Timestamp) {
        let budget = &self.counts.budget;
        let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.add_requests(requests, now);
    }

    /// Takes a retry from the budget; returns whether one was left.
    pub(crate) fn take_retry(&self, now: Timestamp) -> bool {
        let share = self.http().retry_budget;
        let budget = &self.counts.budget;
        let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.take(share, now)
    }

    /// Notes that a request failed at an endpoint, and ejects it if too many have failed in a row and
    /// another endpoint is available.
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
