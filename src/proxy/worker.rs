//! A worker: one thread, one single-threaded runtime, its own connections to clients and origins.
//!
//! Nothing on a request's path is shared with another worker but the snapshot, the store and a
//! few counters; a connection stays with the worker it was handed to.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;

use super::body::RequestBody;
use super::connection;
use super::listener::Accepted;
use super::pool::Pools;
use super::shared::{Live, Shared};
use super::sweep::{self, Sweep};
use crate::access_log::Writer;
use crate::metrics::WorkerIndex;

/// What a worker's connections share; lives on one thread.
pub(crate) struct Worker {
    pub(crate) index: WorkerIndex,
    pub(crate) shared: Arc<Shared>,
    pub(crate) sweep: Rc<Sweep>,
    pub(crate) pools: Pools<RequestBody>,
    pub(crate) access_log: Writer,
    /// Where a request renders its header values.
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// The configuration as this worker last saw it: cloned per request without touching a
    /// count that other workers touch.
    live: RefCell<Rc<InForce>>,
    /// The tasks of open connections, to be woken when the worker drains.
    connections: RefCell<HashMap<u64, Waker>>,
    next_connection: Cell<u64>,
    is_draining: Cell<bool>,
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

/// One of a worker's open connections; forgotten when dropped.
pub(crate) struct Registration {
    worker: Rc<Worker>,
    id: u64,
}

/// Runs a worker until its channel is closed and its connections are done, or the grace is over.
///
/// # Errors
/// If the runtime cannot be made.
pub(crate) fn run(
    index: WorkerIndex,
    shared: Arc<Shared>,
    access_log: Writer,
    mut accepted: mpsc::Receiver<Accepted>,
) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let worker = Rc::new(Worker::new(index, shared, access_log));
        let mut period = tokio::time::interval(sweep::PERIOD);
        period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = period.tick() => worker.tend(),
                next = accepted.recv() => match next {
                    Some(next) => {
                        tokio::task::spawn_local(connection::serve(Rc::clone(&worker), next));
                    }
                    None => break,
                },
            }
        }
        worker.drain();
        let grace = worker.live().snapshot.shutdown_grace;
        let done = async {
            while !worker.is_done() {
                period.tick().await;
                worker.tend();
            }
        };
        if tokio::time::timeout(grace, done).await.is_err() {
            let connections = worker.connections.borrow().len();
            tracing::warn!(
                connections,
                "the shutdown grace is over: connections are cut"
            );
        }
        worker.tend();
    });
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
            scratch: RefCell::default(),
            live: RefCell::new(live),
            connections: RefCell::default(),
            next_connection: Cell::new(0),
            is_draining: Cell::new(false),
            shared,
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

    /// Whether connections are to end with the request they are at.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Enters the task of a connection, so that draining wakes it.
    pub(crate) fn register(self: &Rc<Self>, waker: Waker) -> Registration {
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        self.connections.borrow_mut().insert(id, waker);
        Registration {
            worker: Rc::clone(self),
            id,
        }
    }

    /// What is done a few times a second instead of per request.
    fn tend(&self) {
        let now = self.shared.clock.now();
        self.sweep.sweep();
        self.pools.sweep(now);
        self.access_log.flush();
    }

    /// Whether nothing is left to wait for when draining.
    fn is_done(&self) -> bool {
        self.connections.borrow().is_empty() || self.shared.is_hurried()
    }

    fn drain(&self) {
        self.is_draining.set(true);
        for waker in self.connections.borrow().values() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.worker.connections.borrow_mut().remove(&self.id);
    }
}
