//! An admitted request of a leaky-bucket policy waits for its turn.
//!
//! It waits on a timer of the runtime, which is never early. While it waits, it has a place among
//! its listener's `max_delayed`. If its client leaves, that place is free at once. What it spent in
//! leaky buckets stays spent; what it spent of other quotas comes back.

use super::client::Client;
use super::downstream::request::RequestState;
use super::worker::Worker;
use crate::clock::Micros;

/// How the wait of a delayed request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delayed {
    /// The request's turn came.
    Released,
    /// The client left before the request's turn came.
    Gone,
    /// The listener delays `max_delayed` requests already, so the request was not delayed at all.
    Full,
}

/// Holds an admitted request for as long as its leaky-bucket policies say.
pub(super) async fn delay(
    client: &Client,
    state: &RequestState,
    delayed_max: usize,
    wait: Micros,
) -> Delayed {
    let worker = &client.worker;
    let load = worker.process.capacity.listener(client.listener);
    let Some(_permit) = load.delay(delayed_max) else {
        return Delayed::Full;
    };
    let _counted = Counted::new(worker);
    tokio::select! {
        // A client that left before its turn counts as gone, however late the worker notices.
        biased;
        () = state.gone() => Delayed::Gone,
        () = tokio::time::sleep(wait.into()) => Delayed::Released,
    }
}

/// Counts a delayed request in the metrics, until it is dropped.
struct Counted<'w>(&'w Worker);

impl<'w> Counted<'w> {
    fn new(worker: &'w Worker) -> Self {
        worker.process.metrics.delayed(worker.index);
        Self(worker)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.process.metrics.delay_ended(self.0.index);
    }
}
