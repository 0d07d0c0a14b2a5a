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

/// Phase of the gateway, which tells the control thread what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// New connections stay in the queue: the gateway is starting, or two processes agree on which of them accepts.
    Paused,
    /// Another process has taken over. It continues with the listeners marked `true`; the others are closed.
    PassedOn(Arc<[bool]>),
    /// The gateway is no longer ready; its listeners close after this delay.
    Draining(Duration),
    /// All workers have ended.
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
    // An error means that the gateway was dropped, which ends this thread as well.
    drop(phase.wait_for(|phase| *phase == Phase::Done).await);
    if let Some(serving) = admin_port {
        answers_admin.send_replace(Accepting::Stopped);
        let _ = tokio::time::timeout(LAST_ANSWERS_MAX, serving).await;
    }
    process.note_unsettled(session.finish().await + session.report_all().await);
    Ok(())
}

/// Tells the acceptors and the admin port what each phase means for them, until the acceptors are to stop.
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
    // After a stall, tick once, not once for each missed period.
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut periods = 0;
    // The start has already warned of certificates that expire.
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
            // Workers may have connected to more Redis servers, so fewer descriptors are left.
            descriptors::bound(&process, worker_count);
            if expiry_log.take(process.clock.now(), expiry::DAY) {
                expiry::warn(&process.live().snapshot, process.clock.wall());
            }
        }
    }
}

/// How long the admin port may take at the end to finish the responses under way.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);
/// Time between two rounds of housekeeping.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_millis(100);
/// Rounds of housekeeping between two corrections of the clock, which also update the bound on sockets.
const DISCIPLINE_PERIODS: u32 = 10;
