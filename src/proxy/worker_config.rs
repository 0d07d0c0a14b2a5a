//! A configuration as one worker holds it, with the worker's own copies of what its requests share.

use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::Arc;

use http::HeaderName;
use typed_index_collections::TiVec;

use super::process::ActiveConfig;
use crate::index::RouteIndex;
use crate::request::copied_name;
use crate::snapshot::RouteChanges;

/// A configuration as one worker holds it, to be shared among that worker's requests.
///
/// Names and values that messages share are copies ([`copied_name`] says why), at most one for each route.
#[derive(Debug)]
pub(crate) struct WorkerConfig {
    active: Arc<ActiveConfig>,
    /// The field that carries a request's id, if requests have ids.
    pub(super) request_id: Option<HeaderName>,
    /// What each route changes, once a request has needed it.
    changes: TiVec<RouteIndex, OnceCell<Box<RouteChanges>>>,
}

impl WorkerConfig {
    pub(super) fn new(active: Arc<ActiveConfig>) -> Self {
        let request_id = active.snapshot.general.request_id.as_ref();
        let routes = active.snapshot.routes.iter();
        Self {
            request_id: request_id.map(copied_name),
            changes: routes.map(|_| OnceCell::new()).collect(),
            active,
        }
    }

    /// Whether this is the worker's form of `active`.
    pub(super) fn is(&self, active: &Arc<ActiveConfig>) -> bool {
        Arc::ptr_eq(&self.active, active)
    }

    /// Returns what a route changes; none if it changes nothing.
    pub(super) fn changes(&self, index: RouteIndex) -> Option<&RouteChanges> {
        let changes = self.active.snapshot.routes[index].changes.as_deref()?;
        Some(self.changes[index].get_or_init(|| Box::new(changes.copied())))
    }
}

impl Deref for WorkerConfig {
    type Target = ActiveConfig;
    fn deref(&self) -> &ActiveConfig {
        &self.active
    }
}
