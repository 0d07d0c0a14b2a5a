//! The control thread: accepts, answers the admin port, and does the housekeeping.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::descriptors;
use super::directives::DirectiveFollower;
use super::expiry;
use super::sockets::ListeningSockets;
use crate::admin::{self, AdminState};
use crate::clock::Turn;
use crate::proxy::downstream::listener::{self, WorkerHandle};
use crate::proxy::process::Process;
use crate::proxy::upstream::Checker;
use crate::proxy::wire::accepting::Accepting;
use crate::store::Session;

/// What the control thread is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// New connections are left in the queue: two processes agree on which of them accepts.
    Paused,
    /// Another process goes on with those listeners for which it says so; the others close.
    PassedOn(Arc<[bool]>),
    /// Not ready; listeners close after the delay.
    Draining(Duration),
    /// The workers are done.
    Done,
}

/// Runs the control thread until the workers are done.
pub(super) async fn control(
    process: Arc<Process>,
    admin: Arc<AdminState>,
    sockets: ListeningSockets,
    workers: Vec<WorkerHandle>,
    mut phase: watch::Receiver<Phase>,
) -> io::Result<()> {
    let mut acceptors = Vec::new();
    for (index, listener) in sockets.listeners.into_iter().enumerate() {
        let (acceptor, accepting) = watch::channel(Accepting::Paused);
        let accept = listener::accept(
            listener,
            index.into(),
            Arc::clone(&process.capacity),
            workers.clone(),
            accepting,
        );
        tokio::task::spawn_local(accept);
        acceptors.push(acceptor);
    }
    let worker_count = workers.len();
    // The acceptors hold the workers' channels: when the last one ends, the workers drain.
    drop(workers);
    let session = process.store.session();
    let sources = Arc::clone(&admin.sources);
    let follower = DirectiveFollower::new(Arc::clone(&process), session.clone(), sources);
    tokio::task::spawn_local(follower.follow());
    let (answers_admin, answering) = watch::channel(Accepting::Paused);
    let admin_port = sockets.admin.map(|listener| -> io::Result<_> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let serving = admin::serve(listener, admin, session.clone(), answering);
        Ok(tokio::task::spawn_local(serving))
    });
    let admin_port = admin_port.transpose()?;
    let keeping = keep_house(Arc::clone(&process), session.clone(), worker_count);
    tokio::task::spawn_local(keeping);
    accept_by_phase(&mut phase, &process, &acceptors, &answers_admin).await;
    // An error means that the gateway is gone, which is the end too.
    drop(phase.wait_for(|phase| *phase == Phase::Done).await);
    if let Some(serving) = admin_port {
        answers_admin.send_replace(Accepting::Stopped);
        let _ = tokio::time::timeout(LAST_ANSWERS_MAX, serving).await;
    }
    process.note_unsettled(session.finish().await + session.report_all().await);
    Ok(())
}

/// Has the acceptors accept, pause and stop, until they have stopped.
async fn accept_by_phase(
    phase: &mut watch::Receiver<Phase>,
    process: &Process,
    acceptors: &[watch::Sender<Accepting>],
    admin_port: &watch::Sender<Accepting>,
) {
    loop {
        let now = phase.borrow_and_update().clone();
        let accepting = match &now {
            Phase::Running => Accepting::Yes,
            Phase::Paused => Accepting::Paused,
            Phase::PassedOn(passed) => {
                for (acceptor, is_passed) in acceptors.iter().zip(&**passed) {
                    acceptor.send_replace(match is_passed {
                        true => Accepting::PassedOn,
                        false => Accepting::Stopped,
                    });
                }
                admin_port.send_replace(Accepting::PassedOn);
                return;
            }
            Phase::Draining(delay) => {
                drop(tokio::time::timeout(*delay, process.forced()).await);
                Accepting::Stopped
            }
            Phase::Done => Accepting::Stopped,
        };
        for acceptor in acceptors {
            acceptor.send_replace(accepting);
        }
        // The admin port answers until the end.
        if accepting == Accepting::Stopped {
            return;
        }
        admin_port.send_replace(accepting);
        if phase.changed().await.is_err() {
            return;
        }
    }
}

async fn keep_house(process: Arc<Process>, session: Session, worker_count: usize) {
    let mut period = tokio::time::interval(HOUSEKEEPING_PERIOD);
    // After a stall once, not once for each period missed.
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut periods = 0;
    // The start has logged it.
    let expiry_log = Turn::taken(process.clock.now(), expiry::DAY);
    let (endpoints, metrics) = (Arc::clone(&process.endpoints), Arc::clone(&process.metrics));
    let sockets = Arc::clone(process.sockets());
    let checker = Checker::new(endpoints, metrics, process.clock.clone(), sockets);
    loop {
        period.tick().await;
        process.metrics.progressed(process.metrics.control());
        process.store.sweep();
        session.tick();
        process.free_retired();
        process.endpoints.tick();
        checker.tick();
        periods += 1;
        if periods % DISCIPLINE_PERIODS == 0 {
            process.clock.discipline();
            // Workers may have found more servers of Redis.
            descriptors::bound(&process, worker_count);
            if expiry_log.take(process.clock.now(), expiry::DAY) {
                expiry::warn(&process.live().snapshot, process.clock.wall());
            }
        }
    }
}

/// How long the admin port may take at the end for the answers that are under way.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);
/// How often the store's idle state is swept.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_millis(100);
/// How many of those periods pass between two corrections of the clock.
const DISCIPLINE_PERIODS: u32 = 10;
