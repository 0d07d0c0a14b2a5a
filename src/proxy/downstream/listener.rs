//! Accepting: one acceptor per listener hands each connection to the least loaded worker.
//!
//! Connections beyond `max_connections`, or beyond the descriptors of the process, wait in the kernel's queue. While
//! some wait there, the connections that have waited longest for a request are evicted. An acceptor that runs out of
//! descriptors all the same pauses instead of spinning. When an acceptor is told to stop, it removes the file of a Unix
//! socket, still takes what is queued, and then closes its socket.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::bound::{BoundSocket, Connection, ConnectionQueue, PolledQueue};
use super::capacity::{Capacity, ConnectionPermit, EvictFrom};
use crate::index::ListenerIndex;
use crate::metrics::WorkerIndex;
use crate::proxy::wire::accepting::Accepting;
use crate::proxy::wire::deadline;

/// What an acceptor asks of a worker.
#[derive(Debug)]
pub(crate) enum Order {
    /// Serve a connection.
    Serve(Accepted),
    /// Evict a connection that waits for a request, and say whether there was one.
    Evict {
        evict_from: EvictFrom,
        evicted: oneshot::Sender<bool>,
    },
}

/// A connection on its way to a worker.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: std::net::TcpStream,
    /// The peer's address; `None` if it has connected by a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) permit: ConnectionPermit,
}

/// A worker as the acceptors see it.
#[derive(Clone, Debug)]
pub(crate) struct WorkerHandle {
    pub(crate) index: WorkerIndex,
    pub(crate) orders: mpsc::Sender<Order>,
    /// Connections that the worker has, including those on their way to it.
    pub(crate) load: Arc<AtomicUsize>,
}

/// Accepts on one listener.
struct Acceptor {
    /// Index of the listener.
    index: ListenerIndex,
    capacity: Arc<Capacity>,
    workers: Vec<WorkerHandle>,
    /// The worker that was asked last to evict a connection: they take turns.
    turn: usize,
    /// How many accepts have failed, not counting those that failed because of the connection itself.
    failures: u32,
}

/// How many connections may be on their way to one worker; more wait in the kernel's queue.
pub(crate) const ASSIGNED_MAX: usize = 1024;
/// How long an acceptor rests when the process is out of descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// One of this many failed accepts is logged: at most one a minute, with the pauses between them.
const FAILURES_PER_ERROR: u32 = 1_200;
/// How long an acceptor waits for a connection to end before it asks for another eviction.
const FULL_PAUSE: Duration = deadline::PERIOD;

/// Accepts on `socket` as long as it is told to.
pub(crate) async fn accept(
    socket: BoundSocket,
    index: ListenerIndex,
    capacity: Arc<Capacity>,
    workers: Vec<WorkerHandle>,
    mut accepting: watch::Receiver<Accepting>,
) {
    let BoundSocket {
        queue, mut file, ..
    } = socket;
    let queue = match queue.polled() {
        Ok(queue) => queue,
        Err(error) => {
            tracing::error!(%error, "cannot register a listener with the runtime: it accepts no connections");
            return;
        }
    };
    let mut acceptor = Acceptor {
        index,
        capacity,
        workers,
        turn: 0,
        failures: 0,
    };
    loop {
        let now = *accepting.borrow_and_update();
        if let (Accepting::Yes, Some(file)) = (now, &mut file) {
            file.take();
        }
        let connection = match now {
            Accepting::Stopped => break,
            Accepting::PassedOn => {
                if let Some(file) = file {
                    file.leave();
                }
                return;
            }
            // The sender is dropped only when the gateway is gone.
            Accepting::Paused => match accepting.changed().await {
                Ok(()) => continue,
                Err(_) => break,
            },
            Accepting::Yes => tokio::select! {
                biased;
                changed = accepting.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => break,
                },
                accepted = acceptor.next(&queue) => accepted,
            },
        };
        // One connection beyond the maximum is accepted, because only then is it known that a client waits.
        tokio::select! {
            biased;
            () = acceptor.room() => {}
            _ = accepting.wait_for(|accepting| *accepting != Accepting::Yes) => {}
        }
        acceptor.assign(connection).await;
    }
    // The file is removed while this process still listens, so that no other process has taken the path yet.
    drop(file);
    match queue.unpolled() {
        Ok(queue) => acceptor.assign_queued(&queue).await,
        Err(error) => {
            tracing::error!(%error, "cannot accept connections that are still queued");
        }
    }
}

impl Acceptor {
    /// Hands over the queued connections. It asks the kernel, because the runtime may not know of all of them.
    async fn assign_queued(&self, queue: &ConnectionQueue) {
        loop {
            match queue.accept() {
                Ok(connection) => self.assign(connection).await,
                Err(error) if is_the_connections_own(&error) => {}
                Err(_) => return,
            }
        }
    }

    /// Waits for a connection.
    async fn next(&mut self, queue: &PolledQueue) -> Connection {
        loop {
            match queue.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if is_the_connections_own(&error) => {}
                Err(error) => {
                    if self.failures.is_multiple_of(FAILURES_PER_ERROR) {
                        tracing::error!(%error, "cannot accept connections: retrying until it works");
                    }
                    self.failures = self.failures.wrapping_add(1);
                    tokio::time::sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }

    /// Waits until there is room for one more connection. The workers take turns: each evicts the one of its
    /// connections that has waited longest for a request.
    async fn room(&mut self) {
        let capacity = Arc::clone(&self.capacity);
        while let Some(evict_from) = capacity.full(self.index) {
            if evict_from == EvictFrom::All {
                capacity.sockets.want_for_clients();
            }
            for _ in 0..self.workers.len() {
                if self.evict(evict_from).await {
                    break;
                }
            }
            // Clients also leave by themselves, and a reload may make room.
            drop(tokio::time::timeout(FULL_PAUSE, capacity.freed(self.index)).await);
        }
    }

    /// Asks the worker whose turn it is to evict a connection; returns whether it did.
    async fn evict(&mut self, evict_from: EvictFrom) -> bool {
        self.turn = (self.turn + 1) % self.workers.len();
        let (evicted, is_evicted) = oneshot::channel();
        let order = Order::Evict {
            evict_from,
            evicted,
        };
        // A worker that has ended has no connections.
        let is_sent = self.workers[self.turn].orders.send(order).await.is_ok();
        is_sent && is_evicted.await.unwrap_or(false)
    }

    async fn assign(&self, (stream, peer): Connection) {
        let Some(worker) = (self.workers.iter()).min_by_key(|worker| worker.load.load(Relaxed))
        else {
            return;
        };
        let accepted = Accepted {
            stream,
            peer,
            permit: (self.capacity).admit(self.index, worker.index, &worker.load),
        };
        if worker.orders.send(Order::Serve(accepted)).await.is_err() {
            tracing::error!("a worker has ended: a connection assigned to it is closed");
        }
    }
}

/// Whether it is the connection that failed, before it was accepted, and not the accepting itself.
fn is_the_connections_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}
