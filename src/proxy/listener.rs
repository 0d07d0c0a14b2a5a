//! Accepting: one acceptor per listener hands each connection to the least loaded worker.
//!
//! Connections beyond `max_connections` wait in the kernel's queue; a process out of descriptors
//! backs off instead of spinning. When told to stop, an acceptor still takes what is queued, then
//! closes its port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, watch};

use super::shared::Shared;
use crate::metrics::{ListenerMetrics, WorkerIndex};

/// A connection on its way to a worker.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) place: Place,
}

/// A connection's place among its listener's and its worker's; given up when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    /// Index of the listener.
    pub(crate) listener: usize,
    worker: WorkerIndex,
    shared: Arc<Shared>,
    worker_load: Arc<AtomicUsize>,
}

/// What a listener carries at the moment.
#[derive(Debug)]
pub(crate) struct Load {
    metrics: Arc<ListenerMetrics>,
    open: AtomicUsize,
    held: AtomicUsize,
    freed: Notify,
}

/// A worker as the acceptors see it.
#[derive(Clone, Debug)]
pub(crate) struct WorkerHandle {
    pub(crate) index: WorkerIndex,
    pub(crate) connections: mpsc::Sender<Accepted>,
    /// Connections it has, those on their way included.
    pub(crate) load: Arc<AtomicUsize>,
}

/// A request's place among those that a listener holds; given up when dropped.
#[derive(Debug)]
pub(crate) struct Held<'l>(&'l Load);

/// Connections on their way to one worker; more wait in the kernel's queue.
pub(crate) const HANDOVER_MAX: usize = 1024;
/// Unsent bytes beyond which a client's socket takes no more, and half of which must have gone before
/// it does again: what a slow reader takes shows as progress, however much the kernel would buffer.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;
/// Connections the kernel queues for a listener.
const BACKLOG: i32 = 4096;
/// How long an acceptor rests when the process is out of descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Opens a port.
///
/// # Errors
/// The operating system's, if the address is taken or not ours: the gateway does not start.
pub(crate) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Accepted sockets have it from this one.
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts on `listener` until `stop` says so.
pub(crate) async fn accept(
    listener: std::net::TcpListener,
    index: usize,
    shared: Arc<Shared>,
    workers: Vec<WorkerHandle>,
    mut stop: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a listener cannot be watched: it accepts nothing");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = next(&listener, index, &shared) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = accepted;
        // The worker's runtime is to watch it, not this one.
        match stream.into_std() {
            Ok(stream) => hand_over(stream, peer, index, &shared, &workers).await,
            Err(error) => {
                tracing::error!(%error, "an accepted connection cannot be handed over");
            }
        }
    }
    match listener.into_std() {
        Ok(listener) => hand_over_queued(&listener, index, &shared, &workers).await,
        Err(error) => tracing::error!(%error, "queued connections cannot be accepted"),
    }
}

/// Hands over what is queued. The kernel is asked, not the runtime, which may not have heard of all.
async fn hand_over_queued(
    listener: &std::net::TcpListener,
    index: usize,
    shared: &Arc<Shared>,
    workers: &[WorkerHandle],
) {
    loop {
        let accepted = listener
            .accept()
            .and_then(|(stream, peer)| stream.set_nonblocking(true).map(|()| (stream, peer)));
        match accepted {
            Ok((stream, peer)) => hand_over(stream, peer, index, shared, workers).await,
            Err(error) if is_the_connections_own(&error) => {}
            Err(_) => return,
        }
    }
}

/// Waits for room among the listener's connections, then for a connection.
async fn next(listener: &TcpListener, index: usize, shared: &Shared) -> (TcpStream, SocketAddr) {
    let load = &shared.loads[index];
    let mut is_resting = false;
    loop {
        let connections_max = shared.live().snapshot.listeners[index].max_connections;
        let freed = load.freed.notified();
        if load.open.load(Relaxed) >= connections_max {
            freed.await;
            continue;
        }
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_the_connections_own(&error) => {}
            Err(error) => {
                if !std::mem::replace(&mut is_resting, true) {
                    tracing::error!(%error, "cannot accept: trying again until it works");
                }
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// Whether the connection failed before it was accepted, rather than the accepting.
fn is_the_connections_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

async fn hand_over(
    stream: std::net::TcpStream,
    peer: SocketAddr,
    listener: usize,
    shared: &Arc<Shared>,
    workers: &[WorkerHandle],
) {
    let Some(worker) = workers
        .iter()
        .min_by_key(|worker| worker.load.load(Relaxed))
    else {
        return;
    };
    shared.loads[listener].open.fetch_add(1, Relaxed);
    worker.load.fetch_add(1, Relaxed);
    shared.loads[listener]
        .metrics
        .accepted(shared.metrics.control());
    let place = Place {
        listener,
        worker: worker.index,
        shared: Arc::clone(shared),
        worker_load: Arc::clone(&worker.load),
    };
    let accepted = Accepted {
        stream,
        peer,
        place,
    };
    if worker.connections.send(accepted).await.is_err() {
        tracing::error!("a worker has ended: its connection is closed");
    }
}

impl Load {
    /// Begins empty.
    pub(crate) fn new(metrics: Arc<ListenerMetrics>) -> Self {
        Self {
            metrics,
            open: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            freed: Notify::new(),
        }
    }

    /// Has the acceptor look again how many connections there may be.
    pub(crate) fn reconsider(&self) {
        self.freed.notify_one();
    }

    /// Takes a place among at most `held_max` held requests; none if there is none.
    pub(crate) fn hold(&self, held_max: usize) -> Option<Held<'_>> {
        if self.held.fetch_add(1, Relaxed) < held_max {
            return Some(Held(self));
        }
        self.held.fetch_sub(1, Relaxed);
        None
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let load = &self.shared.loads[self.listener];
        load.metrics.closed(self.worker);
        load.open.fetch_sub(1, Relaxed);
        load.freed.notify_one();
        self.worker_load.fetch_sub(1, Relaxed);
    }
}
