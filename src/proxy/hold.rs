//! Holding: an admitted request of a leaky-bucket policy waits for its turn.
//!
//! It waits on a timer of the runtime, which is never early. While it waits it has a place among
//! its listener's `max_held`; when its client leaves, the place is free at once, and the
//! request's units stay spent.

use super::downstream::connection::Connection;
use super::journey::Stop;
use super::plan::{self, Admitted, Planned};
use super::record::Exchange;
use super::refusal::Refusal;
use super::worker::Worker;

/// Holds an admitted request for as long as its leaky-bucket policies say.
///
/// # Errors
/// 503 if the listener holds `held_max` requests already, with all that this one spent given back.
pub(super) async fn hold(
    connection: &Connection,
    held_max: usize,
    admitted: Admitted,
    planned: &Planned<'_>,
    exchange: &mut Exchange,
) -> Result<(), Stop> {
    let worker = &connection.worker;
    let load = &worker.shared.loads[connection.place.listener];
    let Some(_place) = load.hold(held_max) else {
        plan::give_back(worker, planned, admitted.charge, exchange).await;
        return Err(Refusal::held_full().into());
    };
    worker.shared.metrics.held(worker.index);
    let _counted = Counted(worker);
    exchange.held();
    let is_gone = tokio::select! {
        // A client that left before its turn has left, however late the worker looks.
        biased;
        () = connection.socket.gone() => true,
        () = tokio::time::sleep(admitted.wait.into()) => false,
    };
    exchange.let_go();
    if is_gone { Err(Stop::Gone) } else { Ok(()) }
}

/// A held request in the metrics; no longer held when dropped.
struct Counted<'w>(&'w Worker);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.shared.metrics.let_go(self.0.index);
    }
}
