//! The rest of a request that is still being sent when its response begins.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

use crate::proxy::wire::body::BoxError;

/// The task that sends the rest of a request; aborted when this is dropped.
#[derive(Debug)]
pub(super) struct Upload(JoinHandle<Result<(), BoxError>>);

impl Upload {
    /// Spawns a task that sends `rest`; an error is that of the request's body.
    pub(super) fn spawn(rest: impl Future<Output = Result<(), BoxError>> + 'static) -> Self {
        Self(tokio::task::spawn_local(rest))
    }

    /// Polls whether everything is sent, or the request's body has failed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let ended = Pin::new(&mut self.0).poll(cx);
        ended.map(|joined| joined.unwrap_or_else(|error| Err(error.into())))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.0.abort();
    }
}
