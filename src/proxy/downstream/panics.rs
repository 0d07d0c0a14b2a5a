//! A panic ends only the connection or the stream in which it happens, and is counted; the worker goes on.

use std::rc::Rc;
use std::sync::Arc;

use crate::metrics::{Metrics, WorkerIndex};

/// Counts the panic that drops it, if one does.
#[derive(Clone)]
pub(crate) struct PanicGuard(Rc<(Arc<Metrics>, WorkerIndex)>);

impl PanicGuard {
    /// Makes a guard that counts panics of this worker.
    pub(crate) fn new(metrics: &Arc<Metrics>, worker: WorkerIndex) -> Self {
        Self(Rc::new((Arc::clone(metrics), worker)))
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (metrics, worker) = &*self.0;
            metrics.panicked(*worker);
            tracing::error!("a panic ended a connection or a stream");
        }
    }
}
