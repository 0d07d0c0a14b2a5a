//! A TCP proxy in the test process that simulates a faulty network.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep_until};

use super::host::Port;
use super::wait_for;

/// Fault of the network between a client and its server; it applies to new and existing connections alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// Every byte is late by `by` plus up to `jitter`, half of that in each direction; the order stays.
    Latency { by: Duration, jitter: Duration },
    /// Nothing arrives in either direction, without an error; what is sent in the meantime arrives when the fault is
    /// over.
    BlackHole,
    /// New connections are refused; existing ones work.
    Refuse,
    /// Each connection ends after this many more bytes of answers.
    Cut { after: usize },
    /// Bytes arrive one at a time, in both directions.
    Slices,
}

/// A proxy in front of one server; it ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    state: watch::Sender<State>,
    open: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// State that the test wants the proxy to be in.
#[derive(Clone, Copy, Debug)]
struct State {
    target: SocketAddr,
    fault: Fault,
    /// How many times a fault was set, so that `Cut` starts counting again each time.
    changes: u64,
    /// How many times all connections were reset.
    resets: u64,
    ended: bool,
}

/// Direction of bytes on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Questions,
    Answers,
}

/// Bytes, and the time at which they are to arrive.
type Parcel = (Instant, Vec<u8>);

/// Most parcels under way on one connection in one direction.
const UNDER_WAY_MAX: usize = 1_024;

impl Proxy {
    /// Starts a proxy in front of a server, without a fault.
    #[track_caller]
    pub fn to(target: SocketAddr) -> Self {
        let port = Port::reserve();
        let address = port.address;
        let state = State {
            target,
            fault: Fault::None,
            changes: 0,
            resets: 0,
            ended: false,
        };
        let (state, wanted) = watch::channel(state);
        let open = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::new(AtomicUsize::new(0));
        let thread = thread::spawn({
            let (open, accepted) = (Arc::clone(&open), Arc::clone(&accepted));
            move || run(address, wanted, &open, &accepted)
        });
        wait_for("the proxy listens", || {
            std::net::TcpStream::connect(address).ok()
        });
        Self {
            port,
            state,
            open,
            accepted,
            thread: Some(thread),
        }
    }

    /// Returns the proxy's address.
    pub fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// Sets the fault.
    pub fn set(&self, fault: Fault) {
        self.state.send_modify(|state| {
            state.fault = fault;
            state.changes += 1;
        });
    }

    /// Resets every open connection (RST), towards both sides.
    pub fn reset_all(&self) {
        self.state.send_modify(|state| state.resets += 1);
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Returns how many connections were accepted so far, including the one by which [`Proxy::to`] tests the listener.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.send_modify(|state| state.ended = true);
        if let Some(thread) = self.thread.take() {
            // If that thread panicked, the panic has been printed.
            let _ = thread.join();
        }
    }
}

fn run(
    address: SocketAddr,
    wanted: watch::Receiver<State>,
    open: &Arc<AtomicUsize>,
    accepted: &Arc<AtomicUsize>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, accept(address, wanted, open, accepted));
}

/// Accepts connections until the proxy ends; has no listener while connections are to be refused.
async fn accept(
    address: SocketAddr,
    mut wanted: watch::Receiver<State>,
    open: &Arc<AtomicUsize>,
    accepted: &Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    let mut listener = None;
    loop {
        let state = *wanted.borrow_and_update();
        if state.ended {
            return;
        }
        if state.fault == Fault::Refuse {
            listener = None;
            let changed = wanted.changed().await;
            changed.expect("it ends before its handle goes");
            continue;
        }
        if listener.is_none() {
            let bound = TcpListener::bind(address).await;
            listener = Some(bound.expect("the port is the proxy's own"));
        }
        let Some(listener) = &listener else { continue };
        tokio::select! {
            _ = wanted.changed() => {}
            Some(_) = connections.join_next() => {}
            client = listener.accept() => {
                let Ok((client, _)) = client else { continue };
                accepted.fetch_add(1, Ordering::SeqCst);
                let (wanted, open) = (wanted.clone(), Arc::clone(open));
                connections.spawn_local(async move {
                    open.fetch_add(1, Ordering::SeqCst);
                    // A failing connection is what this proxy is for.
                    let _ = relay(client, wanted).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
    }
}

/// Carries one connection to its end, or resets it on request.
async fn relay(mut client: TcpStream, mut wanted: watch::Receiver<State>) -> io::Result<()> {
    let resets = wanted.borrow().resets;
    let passable = |state: &State| state.fault != Fault::BlackHole;
    let state = *wanted.wait_for(passable).await.map_err(io::Error::other)?;
    let mut server = TcpStream::connect(state.target).await?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        // Dropped before its end, a stream sends RST; at its regular end it has been shut down already.
        stream.set_zero_linger()?;
    }
    let (client_reader, client_writer) = client.split();
    let (server_reader, server_writer) = server.split();
    let questions = carry(client_reader, server_writer, wanted.clone(), Way::Questions);
    let answers = carry(server_reader, client_writer, wanted.clone(), Way::Answers);
    tokio::select! {
        both = async { tokio::try_join!(questions, answers) } => both.map(|_| ()),
        _ = wanted.wait_for(|state| state.resets != resets || state.ended) => Ok(()),
    }
}

/// Carries one direction of a connection to its end.
async fn carry(
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
    wanted: watch::Receiver<State>,
    way: Way,
) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel(UNDER_WAY_MAX);
    let taken = take(from, sender, wanted.clone());
    let delivered = deliver(to, receiver, wanted, way);
    tokio::try_join!(taken, delivered).map(|_| ())
}

/// Reads bytes, unless the network is a black hole, and sets the time at which they are to arrive.
async fn take(
    mut from: ReadHalf<'_>,
    parcels: mpsc::Sender<Parcel>,
    mut wanted: watch::Receiver<State>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1_024];
    let random = RandomState::new();
    let mut last = Instant::now();
    for number in 0_u64.. {
        let passable = |state: &State| state.fault != Fault::BlackHole;
        wanted.wait_for(passable).await.map_err(io::Error::other)?;
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            break;
        }
        let mut due = Instant::now();
        if let Fault::Latency { by, jitter } = wanted.borrow().fault {
            let drawn = random.hash_one(number) % 1_001;
            let drawn = u32::try_from(drawn).expect("up to 1,000");
            due += (by + jitter * drawn / 1_000) / 2;
        }
        last = due.max(last);
        let parcel = (last, buffer[..length].to_vec());
        if parcels.send(parcel).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Writes bytes when they are due, subject to the fault at that time.
async fn deliver(
    mut to: WriteHalf<'_>,
    mut parcels: mpsc::Receiver<Parcel>,
    mut wanted: watch::Receiver<State>,
    way: Way,
) -> io::Result<()> {
    let (mut changes, mut answered) = (0, 0);
    while let Some((due, bytes)) = parcels.recv().await {
        sleep_until(due).await;
        let passable = |state: &State| state.fault != Fault::BlackHole;
        let state = *wanted.wait_for(passable).await.map_err(io::Error::other)?;
        if state.changes != changes {
            (changes, answered) = (state.changes, 0);
        }
        match state.fault {
            Fault::Cut { after } if way == Way::Answers => {
                let rest = bytes.len().min(after.saturating_sub(answered));
                to.write_all(&bytes[..rest]).await?;
                answered += rest;
                if answered >= after {
                    to.shutdown().await?;
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
            Fault::Slices => {
                for byte in bytes {
                    to.write_all(&[byte]).await?;
                    tokio::task::yield_now().await;
                }
            }
            _ => to.write_all(&bytes).await?,
        }
    }
    to.shutdown().await
}
