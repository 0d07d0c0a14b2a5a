//! A panic ends what it happened in, a connection or a stream, and is counted; the worker goes on.

use std::rc::Rc;
use std::sync::Arc;

use crate::metrics::{Metrics, WorkerIndex};

/// Counts a panic that drops it.
#[derive(Clone)]
pub(crate) struct PanicGuard(Rc<(Arc<Metrics>, WorkerIndex)>);

impl PanicGuard {
    /// Counts a worker's panics.
    pub(crate) fn new(metrics: &Arc<Metrics>, worker: WorkerIndex) -> Self {
        Self(Rc::new((Arc::clone(metrics), worker)))
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (metrics, worker) = &*self.0;
            metrics.panicked(*worker);
            tracing::error!("a panic ended a connection");
        }
    }
}
