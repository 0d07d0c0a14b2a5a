//! Which requests somebody watches.

use std::sync::Arc;

use crate::limit::PartitionId;

/// Which requests somebody watches: those with all that is said here.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceFilter {
    /// Whose they are, for one of their policies.
    pub(crate) client: Option<TraceClient>,
    /// A policy that applies to them.
    pub(crate) policy: Option<Arc<str>>,
    /// Whether the gateway refuses them.
    pub(crate) is_refused: bool,
    /// How their paths begin.
    pub(crate) path: String,
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TraceClient {
    /// As it is counted.
    Id(PartitionId),
    /// As the log shows it.
    Shown(String),
}

impl TraceFilter {
    /// Says whether it is enough to know the path, and whether the gateway refuses the request.
    pub(super) fn is_early(&self) -> bool {
        self.client.is_none() && self.policy.is_none()
    }

    pub(super) fn wants_path(&self, path: &str) -> bool {
        path.starts_with(&*self.path)
    }
}
