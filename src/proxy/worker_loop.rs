//! A worker's life: one thread, one single-threaded runtime, its own connections to clients and
//! origins, from its first connection until it has drained.

use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use super::client::Client;
use super::downstream::connection::Serving;
use super::downstream::listener::{Accepted, Order};
use super::downstream::opening::{self, OpenError, Opened};
use super::downstream::panics::PanicGuard;
use super::downstream::registry::{Registration, Registry};
use super::process::Process;
use super::wire::deadline;
use super::worker::Worker;
use super::worker_config::WorkerConfig;
use super::{journey, logged};
use crate::access_log::Writer;
use crate::fault::{HandshakeFailure, Reason};
use crate::metrics::WorkerIndex;
use crate::snapshot::Listener;

/// A worker and its open connections.
struct Runner {
    worker: Rc<Worker>,
    connections: Rc<Registry>,
    /// The configuration that the connections were last compared with.
    compared: RefCell<Rc<WorkerConfig>>,
}

/// Longest time that cut connections get to end, and how often the worker checks whether they have.
const ENDING_MAX: Duration = Duration::from_secs(1);
const ENDED_EVERY: Duration = Duration::from_millis(1);

/// Least number of sweep periods that a draining gateway gives connections that have sent nothing, because
/// their first bytes may be on their way.
const SILENT_PERIODS: u32 = 5;

/// How many connections a draining worker tells to end in each second, unless that takes longer than a quarter of
/// the grace, or the process drains at once: their clients come back, and shake hands.
const DRAINED_PER_SECOND: u32 = 1_000;

/// Returns which share of `whole` has passed, in parts of 2^32; at most `u32::MAX`, which is all of it.
fn share(passed: Duration, whole: Duration) -> u32 {
    let parts = passed.as_micros() * u128::from(u32::MAX);
    let share = parts.checked_div(whole.as_micros());
    share.map_or(u32::MAX, |share| u32::try_from(share).unwrap_or(u32::MAX))
}

/// Runs a worker until its channel is closed, and its connections have ended or the grace is over.
///
/// # Errors
/// If the runtime cannot be made.
pub(crate) fn run(
    index: WorkerIndex,
    process: Arc<Process>,
    access_log: Writer,
    mut orders: mpsc::Receiver<Order>,
) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let worker = Rc::new(Worker::new(index, process, access_log));
        let runner = Runner {
            compared: RefCell::new(worker.live()),
            worker,
            connections: Rc::default(),
        };
        let mut period = tokio::time::interval(deadline::PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = period.tick() => runner.tick(),
                order = orders.recv() => match order {
                    Some(order) => runner.follow(order),
                    None => break,
                },
            }
        }
        runner.drain(&mut period).await;
    });
    // A name look-up on another thread is not waited for.
    runtime.shutdown_background();
    Ok(())
}

impl Runner {
    /// Does what an acceptor asks for.
    fn follow(&self, order: Order) {
        match order {
            Order::Serve(accepted) => {
                // Registered here, so that draining waits for a connection whose task has not run yet.
                let index = accepted.permit.listener;
                // A connection can live much longer than the configuration.
                let listener = Arc::clone(&self.worker.live().snapshot.listeners[index]);
                let registration = self.connections.register(index, Arc::clone(&listener));
                let id = registration.id();
                let serving = serve(Rc::clone(&self.worker), accepted, listener, registration);
                let task = tokio::task::spawn_local(serving);
                self.connections.note_task(id, task.abort_handle());
            }
            Order::Evict {
                evict_from,
                evicted,
            } => {
                let process = &self.worker.process;
                let listener = self
                    .connections
                    .evict_longest(evict_from, process.clock.now());
                if let Some(listener) = listener {
                    process
                        .capacity
                        .listener(listener)
                        .evicted(self.worker.index);
                }
                // An acceptor that was told to stop does not wait for the reply.
                let _ = evicted.send(listener.is_some());
            }
        }
    }

    fn tick(&self) {
        let metrics = &self.worker.process.metrics;
        metrics.progressed(self.worker.index);
        self.worker.tick();
        self.connections.tick();
        let live = self.worker.live();
        if !Rc::ptr_eq(&live, &self.compared.borrow()) {
            self.connections.end_outdated(&live.snapshot.listeners);
            self.compared.replace(live);
        }
    }

    /// Ends connections after their next answers, and those that wait for a request in the last quarter of the grace;
    /// cuts what is left when the grace is over.
    async fn drain(&self, period: &mut Interval) {
        self.connections.evict_silent();
        let grace = self.worker.live().snapshot.general.shutdown_grace;
        let connections = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        let spread = if self.worker.process.drains_at_once() {
            Duration::ZERO
        } else {
            (grace / 4).min(Duration::from_secs(1) / DRAINED_PER_SECOND * connections)
        };
        // The rest of the grace lets clients notice that their idle connections have ended.
        let last_quarter = grace * 3 / 4;
        let done = async {
            let mut periods = 0_u32;
            while self.connections.len() > 0 && !self.worker.process.is_forced() {
                let passed = deadline::PERIOD * periods;
                self.connections
                    .drain(share(passed + deadline::PERIOD, spread));
                if passed >= last_quarter {
                    self.worker.end_tunnels();
                    self.connections.close_idle();
                }
                period.tick().await;
                self.tick();
                periods += 1;
                if periods.is_multiple_of(SILENT_PERIODS) {
                    self.connections.evict_silent();
                }
            }
        };
        if tokio::time::timeout(grace, done).await.is_err() {
            tracing::warn!(
                connections = self.connections.len(),
                "the shutdown grace period has ended: remaining connections are cut off"
            );
        }
        self.worker.cut();
        self.connections.cut();
        // Cut requests may give back what they were charged, or spend more, so the store is finished after all of them.
        let ended = async {
            while Rc::strong_count(&self.worker) > 1 {
                tokio::time::sleep(ENDED_EVERY).await;
            }
        };
        let _ = tokio::time::timeout(ENDING_MAX, ended).await;
        self.tick();
        self.worker
            .process
            .note_unsettled(self.worker.store.finish().await);
    }
}

/// Serves a connection until either side ends it.
#[expect(
    clippy::manual_async_fn,
    reason = "an async function would have room for its arguments twice, for as long as the connection lives"
)]
fn serve(
    worker: Rc<Worker>,
    accepted: Accepted,
    listener: Arc<Listener>,
    registration: Registration,
) -> impl Future<Output = ()> {
    async move {
        let index = accepted.permit.listener;
        let panics = PanicGuard::new(&worker.process.metrics, worker.index);
        let sweep = Rc::clone(&worker.sweep);
        let read_buffer = Rc::clone(&worker.read_buffer);
        let mut peer = accepted.peer;
        let opened = opening::open(
            accepted.stream,
            &mut peer,
            &worker.process.capacity.listener(index).clients,
            &listener,
            &sweep,
            &registration,
        );
        let Opened {
            socket,
            io,
            is_http2,
            is_client_known,
            tls,
            permit: client_permit,
        } = match opened.await {
            Ok(opened) => opened,
            Err(error) => {
                not_opened(&Client::new(worker, peer, index, listener, None), &error);
                error.lingering_close(&registration, &sweep).await;
                return;
            }
        };
        // Built in the `Rc` and not in a variable, for which the task would have room as long as the connection lives.
        let client = Rc::new(Client {
            is_client_known,
            ..Client::new(worker, peer, index, Arc::clone(&listener), tls)
        });
        tracing::debug!(listener = &*listener.name, peer = %client.redacted_peer(), "a connection begins");
        let refused = |reason| refused_head(&client, reason, None);
        let serving = Serving {
            listener: &listener,
            sweep: &sweep,
            registration: &registration,
            panics: &panics,
            read_buffer: &read_buffer,
            refused: &refused,
            answer: |state, request: Request<_>| {
                let (head, body) = request.into_parts();
                journey::run(Rc::clone(&client), state, head, body)
            },
        };
        let ended = serving.serve(socket, io, is_http2).await;
        if let Some((reason, status)) = ended.refused_head {
            refused_head(&client, reason, status);
        }
        tracing::debug!(listener = &*listener.name, peer = %client.redacted_peer(), "a connection ends");
        ended.lingering_close(&registration, &sweep).await;
        drop((registration, accepted.permit, client_permit));
    }
}

/// Counts and logs a head that never became a request.
fn refused_head(client: &Client, reason: Reason, status: Option<StatusCode>) {
    let worker = &client.worker;
    worker.process.metrics.error(worker.index, reason);
    if let Some(status) = status {
        (worker.process.metrics).refused(worker.index, status, reason);
    }
    logged::log_refused_head(client, reason, status, None);
}

/// Counts a connection that was closed before any HTTP was spoken on it.
fn closed_at_once(client: &Client, reason: Reason, cause: &dyn Display) {
    let (worker, peer) = (&client.worker, client.redacted_peer());
    let listener = &*client.accepted_by.name;
    worker.process.metrics.error(worker.index, reason);
    tracing::debug!(listener, %peer, reason = reason.word(), %cause, "a connection was closed before any HTTP on it");
}

/// Records a connection on which no HTTP could be spoken.
fn not_opened(client: &Client, error: &OpenError) {
    match error {
        OpenError::Socket(error) => {
            tracing::warn!(%error, "an accepted connection cannot be used");
        }
        OpenError::Silent => {}
        OpenError::Unproxied(error) => {
            closed_at_once(client, Reason::ProxyHeader, error);
        }
        OpenError::TooMany(error) => {
            closed_at_once(client, Reason::TooManyConnections, error);
        }
        OpenError::Handshake { failure, .. } => {
            let (reason, cause) = match failure {
                HandshakeFailure::Timeout => (Reason::HandshakeTimeout, None),
                failure => (Reason::HandshakeFailed, Some(failure.to_string())),
            };
            closed_at_once(client, reason, failure);
            let Worker { process, index, .. } = &*client.worker;
            let load = process.capacity.listener(client.listener);
            // Clients that fail again and again must not fill the log.
            if load.handshake_failed(*index, *failure, process.clock.now()) {
                let is_answered = *failure == HandshakeFailure::PlainHttp;
                let status = is_answered.then_some(StatusCode::BAD_REQUEST);
                logged::log_refused_head(client, reason, status, cause.as_deref());
            }
        }
    }
}
