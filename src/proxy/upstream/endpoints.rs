//! Which endpoints fail, as far as requests show. Each change is one line in the log, not one per
//! request, however many workers see it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::clock::{Micros, Timestamp};

/// The endpoints of a process, by the names of their upstreams and their authorities.
#[derive(Debug, Default)]
pub struct Endpoints(Mutex<HashMap<Key, Weak<EndpointState>>>);

/// The name of an upstream, and the authority of one of its endpoints.
type Key = (Arc<str>, Box<str>);

/// Whether an endpoint fails.
#[derive(Debug)]
pub(super) struct EndpointState {
    upstream: Arc<str>,
    authority: Box<str>,
    /// Since when it fails, in microseconds; 0 while it answers.
    failing_since: AtomicU64,
}

/// How long an endpoint must have failed before it is logged as answering again: one that fails now
/// and then does not fill the log.
const RECOVERY_MIN: Micros = Micros::from_secs(1);

impl Endpoints {
    /// Finds or makes the state of an endpoint; those that nobody holds any more are forgotten.
    pub(super) fn state(&self, upstream: &Arc<str>, authority: &str) -> Arc<EndpointState> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (Arc::clone(upstream), authority.into());
        if let Some(state) = known.get(&key).and_then(Weak::upgrade) {
            return state;
        }
        known.retain(|_, state| state.strong_count() > 0);
        let state = Arc::new(EndpointState {
            upstream: Arc::clone(upstream),
            authority: authority.into(),
            failing_since: AtomicU64::new(ANSWERING),
        });
        known.insert(key, Arc::downgrade(&state));
        state
    }
}

impl EndpointState {
    /// Notes that a request found it failing.
    pub(super) fn failed(&self, cause: &str, now: Timestamp) {
        if self.change(ANSWERING, now.0.max(1)) {
            tracing::warn!(
                upstream = &*self.upstream,
                endpoint = &*self.authority,
                cause,
                "an endpoint fails"
            );
        }
    }

    /// Notes that a request was answered.
    pub(super) fn answered(&self, now: Timestamp) {
        let since = self.failing_since.load(Relaxed);
        if since == ANSWERING || now.since(Timestamp(since)) < RECOVERY_MIN {
            return;
        }
        if self.change(since, ANSWERING) {
            tracing::info!(
                upstream = &*self.upstream,
                endpoint = &*self.authority,
                "an endpoint answers again"
            );
        }
    }

    /// Returns whether this caller made the change.
    fn change(&self, from: u64, to: u64) -> bool {
        (self.failing_since)
            .compare_exchange(from, to, Relaxed, Relaxed)
            .is_ok()
    }
}

const ANSWERING: u64 = 0;
