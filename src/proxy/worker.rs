//! What the requests of one worker share; it lives on the worker's thread.
//!
//! Nothing on a request's path is shared with other workers except the snapshot, the store and a
//! few counters; a connection stays with the worker it was handed to. [`run`](super::worker_loop) is its
//! life.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;

use super::process::{ActiveConfig, LiveCache, Process};
use super::trace::HeadCopies;
use super::upstream::Pools;
use super::wire::deadline::Sweep;
use super::wire::read_buffer::UploadBuffer;
use super::worker_config::WorkerConfig;
use crate::access_log::Writer;
use crate::fault::Reason;
use crate::limiter::{Limiter, SeenClients};
use crate::metrics::WorkerIndex;
use crate::store::Session;

/// What the requests of one worker share.
pub(crate) struct Worker {
    pub(crate) index: WorkerIndex,
    pub(crate) process: Arc<Process>,
    pub(crate) sweep: Rc<Sweep>,
    pub(crate) pools: Pools,
    pub(crate) access_log: Writer,
    /// This worker's session with the store of the counters.
    pub(crate) store: Session,
    /// The clients that this worker has noted; none if there is no admin port to show them.
    pub(crate) clients: Option<SeenClients>,
    /// How many more heads this worker may copy for traces until its next tick.
    pub(crate) head_copies: HeadCopies,
    /// Scratch space in which requests render header values.
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// What the bodies of requests are read into.
    pub(crate) read_buffer: Rc<UploadBuffer>,
    /// The cache of the configuration in force, and this worker's own form of it, which requests clone without
    /// touching a reference count that other workers touch.
    live: RefCell<(LiveCache, Rc<WorkerConfig>)>,
    /// Whether tunnels are to end.
    tunnels_end: watch::Sender<bool>,
    /// Whether the grace is over and what is still open is cut.
    is_cutting: Cell<bool>,
}

impl Worker {
    /// Makes what a worker's requests share; must run on the worker's own runtime.
    pub(super) fn new(index: WorkerIndex, process: Arc<Process>, access_log: Writer) -> Self {
        let sweep = Rc::new(Sweep::new(process.clock.clone()));
        let live = Rc::new(WorkerConfig::new(Arc::clone(&process.live())));
        Self {
            index,
            pools: Pools::new(
                Rc::clone(&sweep),
                process.clock.clone(),
                index,
                Arc::clone(process.sockets()),
            ),
            sweep,
            access_log,
            store: process.store.session(),
            clients: (live.snapshot.admin.address.is_some()).then(|| {
                SeenClients::new(
                    Arc::clone(&process.known_clients),
                    index,
                    process.clock.now(),
                )
            }),
            head_copies: HeadCopies::default(),
            scratch: RefCell::default(),
            read_buffer: Rc::default(),
            live: RefCell::new((process.live_cache(), live)),
            tunnels_end: watch::Sender::new(false),
            is_cutting: Cell::new(false),
            process,
        }
    }

    /// Returns the configuration in force, for one request to keep.
    pub(crate) fn live(&self) -> Rc<WorkerConfig> {
        let (cache, seen) = &mut *self.live.borrow_mut();
        let current = cache.load();
        if !seen.is(current) {
            *seen = Rc::new(WorkerConfig::new(Arc::clone(current)));
        }
        Rc::clone(seen)
    }

    /// Returns the limiter that decides requests by a configuration.
    pub(super) fn limiter<'l>(&'l self, live: &'l ActiveConfig) -> Limiter<'l> {
        let notifications = &self.process.notifications;
        live.limiter(&self.store, self.clients.as_ref(), Some(notifications))
    }

    /// Returns why a request ends without its answer: its client left, or the gateway shuts down.
    pub(crate) fn reason_to_end(&self) -> Reason {
        if self.is_cutting.get() {
            Reason::ShutDown
        } else {
            Reason::ClientGone
        }
    }

    /// Tells the tunnels to end, as far as they can be ended from one side.
    pub(super) fn end_tunnels(&self) {
        self.tunnels_end.send_replace(true);
    }

    /// Waits until tunnels are to end.
    pub(super) async fn tunnels_end(&self) {
        let mut end = self.tunnels_end.subscribe();
        // The sender lives as long as the worker, so the wait cannot fail.
        let _ = end.wait_for(|is_ending| *is_ending).await;
    }

    /// Notes that what is still open is cut from now on.
    pub(super) fn cut(&self) {
        self.is_cutting.set(true);
    }

    /// Does what is done ten times a second instead of per request.
    pub(super) fn tick(&self) {
        let now = self.process.clock.now();
        // Without this, a worker that has no requests would hold an earlier configuration.
        self.live();
        self.sweep.sweep();
        self.pools.sweep(now);
        self.access_log.flush();
        self.store.tick();
        self.head_copies.tick();
        if let Some(clients) = &self.clients {
            clients.tick(now);
        }
    }
}
