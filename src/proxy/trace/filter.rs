//! Which requests a watcher wants.

use std::sync::Arc;

use crate::limit::PartitionId;

/// Which requests a watcher wants: those that every field here matches.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceFilter {
    /// The client of the requests, for one of their policies or for the log.
    pub(crate) client: Option<TraceClient>,
    /// A policy that applies to the requests.
    pub(crate) policy: Option<Arc<str>>,
    /// Whether only requests that the gateway refuses are wanted.
    pub(crate) is_refused: bool,
    /// How the paths of the requests begin.
    pub(crate) path: String,
}

/// How a watcher names a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TraceClient {
    /// By the partition id under which it is counted.
    Id(PartitionId),
    /// By the name under which the log shows it.
    Shown(String),
}

impl TraceFilter {
    /// Whether a request that was not decided can match: by its path, and by whether the gateway refuses it.
    pub(super) fn is_early(&self) -> bool {
        self.client.is_none() && self.policy.is_none()
    }

    pub(super) fn wants_path(&self, path: &str) -> bool {
        path.starts_with(&*self.path)
    }
}
