//! Those that watch requests, and how a worker bounds what that costs.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;

use super::filter::TraceFilter;
use super::traced_request::TracedRequest;

/// Those that watch the requests of a process.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    is_watched: AtomicBool,
    /// Whether somebody watches requests that are admitted, too.
    are_admitted_watched: AtomicBool,
    watchers: ArcSwap<Vec<Arc<TraceWatcher>>>,
    /// Held while somebody comes or goes.
    changing: Mutex<()>,
}

/// Somebody who watches.
#[derive(Debug)]
pub(crate) struct TraceWatcher {
    filter: TraceFilter,
    requests: mpsc::Sender<Arc<TracedRequest>>,
    /// How many requests it wants that are under way.
    under_way: AtomicUsize,
    /// How many it does not get, because they come too fast, or too many are under way.
    missed: AtomicU64,
}

/// A request that a watcher wants, until that is over.
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

    /// Whether anybody watches requests that are decided so.
    #[inline]
    pub(crate) fn are_watched(&self, is_admitted: bool) -> bool {
        let watched = if is_admitted {
            &self.are_admitted_watched
        } else {
            &self.is_watched
        };
        watched.load(Relaxed)
    }

    /// Watches the requests that pass a filter; none if as many watch as may.
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

    /// Watches no more.
    pub(crate) fn unwatch(&self, watcher: &Arc<TraceWatcher>) {
        let _changing = self.changing();
        let mut watchers = Vec::clone(&self.watchers.load());
        watchers.retain(|one| !Arc::ptr_eq(one, watcher));
        self.set(watchers);
    }

    /// Whether somebody may want a request with this path.
    pub(super) fn may_want(&self, path: &str) -> bool {
        let watchers = self.watchers.load();
        watchers.iter().any(|one| one.filter.wants_path(path))
    }

    /// Finds those who want a request.
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

    /// Returns how many requests were not sent since this was asked last.
    pub(crate) fn take_missed(&self) -> u64 {
        self.missed.swap(0, Relaxed)
    }
}

impl WantedRequest {
    /// Sends it, now that it is over.
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
    /// Those until the first tick.
    fn default() -> Self {
        Self(Cell::new(COPIES_PER_TICK))
    }
}

impl HeadCopies {
    /// To be called a few times a second.
    pub(crate) fn tick(&self) {
        self.0.set(COPIES_PER_TICK);
    }

    /// Says whether the worker may copy a head that somebody may want, and counts it.
    pub(super) fn take(&self, is_wanted: impl FnOnce() -> bool) -> bool {
        let left = self.0.get();
        let takes = left > 0 && is_wanted();
        self.0.set(left - u32::from(takes));
        takes
    }
}

/// Most that watch at a time.
pub(crate) const WATCHERS_MAX: usize = 4;
/// How many requests a watcher may be behind.
const BEHIND_MAX: usize = 32;
/// How many requests that a watcher wants may be under way.
const UNDER_WAY_MAX: usize = 256;
/// How many heads a worker copies from one tick to the next.
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
