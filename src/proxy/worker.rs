//! A worker: one thread, one single-threaded runtime, its own connections to clients and origins.
//!
//! Nothing on a request's path is shared with another worker but the snapshot, the store and a
//! few counters; a connection stays with the worker it was handed to.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;

use super::body::RequestBody;
use super::deadline::{self, Sweep};
use super::downstream::connection;
use super::downstream::listener::Order;
use super::downstream::registry::Registry;
use super::shared::{Live, Shared};
use super::upstream::pool::Pools;
use crate::access_log::Writer;
use crate::fault::Reason;
use crate::metrics::WorkerIndex;
use crate::store::Session;

/// What a worker's connections share; lives on one thread.
pub(crate) struct Worker {
    pub(crate) index: WorkerIndex,
    pub(crate) shared: Arc<Shared>,
    pub(crate) sweep: Rc<Sweep>,
    pub(crate) pools: Pools<RequestBody>,
    pub(crate) access_log: Writer,
    /// This worker's way to the counters.
    pub(crate) store: Session,
    /// Where a request renders its header values.
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// The configuration as this worker last saw it: cloned per request without touching a
    /// count that other workers touch.
    live: RefCell<Rc<InForce>>,
    connections: Rc<Registry>,
    draining: Cell<Draining>,
    /// Whether what is still open is cut, the grace being over.
    is_cutting: Cell<bool>,
}

/// A configuration as one worker holds it, to be shared among that worker's requests.
#[derive(Debug)]
pub(crate) struct InForce(Arc<Live>);

impl Deref for InForce {
    type Target = Live;
    fn deref(&self) -> &Live {
        &self.0
    }
}

/// Which connections are to end with the request they are at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draining {
    /// None: the gateway runs.
    No,
    /// Those that have sent something. A new one may have its first request on its way.
    Begun,
    /// New ones too.
    New,
}

/// How many periods of the sweep a new connection has for its first byte when the gateway drains.
const NEW_CONNECTION_PERIODS: u32 = 5;

/// Runs a worker until its channel is closed and its connections are done, or the grace is over.
///
/// # Errors
/// If the runtime cannot be made.
pub(crate) fn run(
    index: WorkerIndex,
    shared: Arc<Shared>,
    access_log: Writer,
    mut orders: mpsc::Receiver<Order>,
) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let worker = Rc::new(Worker::new(index, shared, access_log));
        let mut period = tokio::time::interval(deadline::PERIOD);
        period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = period.tick() => worker.tend(),
                order = orders.recv() => match order {
                    Some(order) => worker.follow(order),
                    None => break,
                },
            }
        }
        worker.drain(Draining::Begun);
        let grace = worker.live().snapshot.shutdown_grace;
        let done = async {
            let mut periods = 0;
            while !worker.is_done() {
                period.tick().await;
                worker.tend();
                periods += 1;
                if periods == NEW_CONNECTION_PERIODS {
                    worker.drain(Draining::New);
                }
            }
        };
        if tokio::time::timeout(grace, done).await.is_err() {
            let connections = worker.connections.len();
            tracing::warn!(
                connections,
                "the shutdown grace is over: connections are cut"
            );
        }
        worker.is_cutting.set(true);
        worker.tend();
    });
    // A name that is being looked up on another thread is not waited for.
    runtime.shutdown_background();
    Ok(())
}

impl Worker {
    fn new(index: WorkerIndex, shared: Arc<Shared>, access_log: Writer) -> Self {
        let sweep = Rc::new(Sweep::new(shared.clock.clone()));
        let live = Rc::new(InForce(Arc::clone(&shared.live())));
        Self {
            index,
            pools: Pools::new(Rc::clone(&sweep), shared.clock.now()),
            sweep,
            access_log,
            store: shared.store.session(),
            scratch: RefCell::default(),
            live: RefCell::new(live),
            connections: Rc::default(),
            draining: Cell::new(Draining::No),
            is_cutting: Cell::new(false),
            shared,
        }
    }

    /// Why a request ends without its answer: its client left, or the gateway does.
    pub(crate) fn reason_to_end(&self) -> Reason {
        if self.is_cutting.get() {
            Reason::ShutDown
        } else {
            Reason::ClientGone
        }
    }

    /// Returns the configuration in force, for one request to keep.
    pub(crate) fn live(&self) -> Rc<InForce> {
        let current = self.shared.live();
        let mut seen = self.live.borrow_mut();
        if !Arc::ptr_eq(&current, &seen.0) {
            *seen = Rc::new(InForce(Arc::clone(&current)));
        }
        Rc::clone(&seen)
    }

    /// Which connections are to end with the request they are at.
    pub(crate) fn draining(&self) -> Draining {
        self.draining.get()
    }

    /// Does what an acceptor asks for.
    fn follow(self: &Rc<Self>, order: Order) {
        match order {
            Order::Serve(accepted) => {
                // Entered here, so that draining waits for one that has not run yet.
                let registration = self.connections.register();
                let serving = connection::serve(Rc::clone(self), accepted, registration);
                tokio::task::spawn_local(serving);
            }
            Order::MakeRoom { among, made } => {
                let now = self.shared.clock.now();
                let gave_way = self.connections.make_room(among, now);
                if let Some(listener) = gave_way {
                    self.shared.loads[listener].gave_way(self.index);
                }
                // An acceptor that was told to stop does not wait for the reply.
                let _ = made.send(gave_way.is_some());
            }
        }
    }

    /// What is done a few times a second instead of per request.
    fn tend(&self) {
        let now = self.shared.clock.now();
        self.sweep.sweep();
        self.pools.sweep(now);
        self.access_log.flush();
        self.store.tend();
        self.connections.tend();
    }

    /// Whether nothing is left to wait for when draining.
    fn is_done(&self) -> bool {
        self.connections.len() == 0 || self.shared.is_hurried()
    }

    fn drain(&self, draining: Draining) {
        self.draining.set(draining);
        self.connections.wake_all();
    }
}
