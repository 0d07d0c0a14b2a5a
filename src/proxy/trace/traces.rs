//! The watchers of requests, and how a worker bounds what they cost.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;

use super::filter::TraceFilter;
use super::traced_request::TracedRequest;

/// The watchers of a process's requests.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    is_watched: AtomicBool,
    /// Whether a watcher wants admitted requests too.
    are_admitted_watched: AtomicBool,
    watchers: ArcSwap<Vec<Arc<TraceWatcher>>>,
    /// Held while a watcher is added or removed.
    changing: Mutex<()>,
}

/// One watcher of requests.
#[derive(Debug)]
pub(crate) struct TraceWatcher {
    filter: TraceFilter,
    requests: mpsc::Sender<Arc<TracedRequest>>,
    /// Requests under way that the watcher wants.
    under_way: AtomicUsize,
    /// Requests that the watcher did not get, because they came too fast or too many were under way.
    missed: AtomicU64,
}

/// A request that a watcher wants; it counts as under way until this is dropped.
#[derive(Debug)]
pub(super) struct WantedRequest(Arc<TraceWatcher>);

/// How many heads a worker may copy until its next tick.
#[derive(Debug)]
pub(crate) struct HeadCopies(Cell<u32>);

impl Traces {
    /// Whether anybody watches.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Whether anybody watches admitted requests, or refused ones if `is_admitted` is false.
    #[inline]
    pub(crate) fn are_watched(&self, is_admitted: bool) -> bool {
        let watched = if is_admitted {
            &self.are_admitted_watched
        } else {
            &self.is_watched
        };
        watched.load(Relaxed)
    }

    /// Adds a watcher of the requests that pass a filter; none if there are [`WATCHERS_MAX`] already.
    pub(crate) fn watch(
        &self,
        filter: TraceFilter,
    ) -> Option<(Arc<TraceWatcher>, mpsc::Receiver<Arc<TracedRequest>>)> {
        let (requests, received) = mpsc::channel(BEHIND_MAX);
        let watcher = Arc::new(TraceWatcher {
            filter,
            requests,
            under_way: AtomicUsize::new(0),
            missed: AtomicU64::new(0),
        });
        let _changing = self.changing();
        let mut watchers = Vec::clone(&self.watchers.load());
        if watchers.len() >= WATCHERS_MAX {
            return None;
        }
        watchers.push(Arc::clone(&watcher));
        self.set(watchers);
        Some((watcher, received))
    }

    /// Removes a watcher.
    pub(crate) fn unwatch(&self, watcher: &Arc<TraceWatcher>) {
        let _changing = self.changing();
        let mut watchers = Vec::clone(&self.watchers.load());
        watchers.retain(|one| !Arc::ptr_eq(one, watcher));
        self.set(watchers);
    }

    /// Whether a watcher may want a request with this path.
    pub(super) fn may_want(&self, path: &str) -> bool {
        let watchers = self.watchers.load();
        watchers.iter().any(|one| one.filter.wants_path(path))
    }

    /// Finds the watchers that want a request, except those that have too many under way.
    pub(super) fn wanted_by(&self, wants: impl Fn(&TraceFilter) -> bool) -> Vec<WantedRequest> {
        let watchers = self.watchers.load();
        let wanting = watchers.iter().filter(|watcher| wants(&watcher.filter));
        wanting.filter_map(TraceWatcher::take).collect()
    }

    fn set(&self, watchers: Vec<Arc<TraceWatcher>>) {
        let takes_admitted = |watcher: &Arc<TraceWatcher>| !watcher.filter.is_refused;
        (self.are_admitted_watched).store(watchers.iter().any(takes_admitted), Relaxed);
        self.is_watched.store(!watchers.is_empty(), Relaxed);
        self.watchers.store(Arc::new(watchers));
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TraceWatcher {
    /// Takes another request, unless too many are under way.
    fn take(self: &Arc<Self>) -> Option<WantedRequest> {
        let wanted = WantedRequest(Arc::clone(self));
        if self.under_way.fetch_add(1, Relaxed) < UNDER_WAY_MAX {
            return Some(wanted);
        }
        self.missed.fetch_add(1, Relaxed);
        None
    }

    /// Returns how many requests the watcher did not get since the last call.
    pub(crate) fn take_missed(&self) -> u64 {
        self.missed.swap(0, Relaxed)
    }
}

impl WantedRequest {
    /// Sends the request to the watcher, now that it is over.
    pub(super) fn send(self, request: &Arc<TracedRequest>) {
        if self.0.requests.try_send(Arc::clone(request)).is_err() {
            self.0.missed.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for WantedRequest {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

impl Default for HeadCopies {
    /// Allows as many copies until the first tick as between two ticks.
    fn default() -> Self {
        Self(Cell::new(COPIES_PER_TICK))
    }
}

impl HeadCopies {
    /// Allows further copies; to be called a few times a second.
    pub(crate) fn tick(&self) {
        self.0.set(COPIES_PER_TICK);
    }

    /// Says whether the worker may copy a head, if a watcher may want that, and counts the copy.
    pub(super) fn take(&self, is_wanted: impl FnOnce() -> bool) -> bool {
        let left = self.0.get();
        let takes = left > 0 && is_wanted();
        self.0.set(left - u32::from(takes));
        takes
    }
}

/// Most watchers at a time.
pub(crate) const WATCHERS_MAX: usize = 4;
/// Most requests that are over and that a watcher has not read yet.
const BEHIND_MAX: usize = 32;
/// Most requests under way that one watcher may want.
const UNDER_WAY_MAX: usize = 256;
/// Most heads that a worker copies from one tick to the next.
const COPIES_PER_TICK: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_copies_heads_from_its_beginning_on_and_so_many_until_its_next_tick() {
        let copies = HeadCopies::default();
        let taken = || {
            (0..2 * COPIES_PER_TICK)
                .filter(|_| copies.take(|| true))
                .count()
        };
        assert!(!copies.take(|| false));
        assert_eq!(taken(), COPIES_PER_TICK as usize);
        copies.tick();
        assert_eq!(taken(), COPIES_PER_TICK as usize);
    }
}
