//! The control thread: accepts, answers the admin port, and does the housekeeping.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::descriptors;
use super::expiry::{self, ExpiryLog};
use crate::admin::{self, AdminState};
use crate::proxy::downstream::bound::BoundSocket;
use crate::proxy::downstream::listener::{self, WorkerHandle};
use crate::proxy::process::Process;
use crate::proxy::upstream::Checker;
use crate::store::Session;

/// What the control thread is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainPhase {
    Running,
    /// Not ready; listeners close after the delay.
    Draining(Duration),
    /// The workers are done.
    Done,
}

/// Runs the control thread until the workers are done.
pub(super) async fn control(
    process: Arc<Process>,
    admin: Arc<AdminState>,
    listeners: Vec<BoundSocket>,
    admin_listener: Option<TcpListener>,
    workers: Vec<WorkerHandle>,
    mut phase: watch::Receiver<DrainPhase>,
) -> io::Result<()> {
    let (stop, stopped) = watch::channel(false);
    for (index, listener) in listeners.into_iter().enumerate() {
        let accepting = listener::accept(
            listener,
            index.into(),
            Arc::clone(&process.capacity),
            workers.clone(),
            stopped.clone(),
        );
        tokio::task::spawn_local(accepting);
    }
    let worker_count = workers.len();
    // The acceptors hold the workers' channels: when the last one ends, the workers drain.
    drop(workers);
    let mut session = None;
    if let Some(listener) = admin_listener {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let opened = session.insert(process.store.session());
        tokio::task::spawn_local(admin::serve(listener, admin, opened.clone()));
    }
    let keeping = keep_house(Arc::clone(&process), session.clone(), worker_count);
    tokio::task::spawn_local(keeping);
    let draining = phase.wait_for(|phase| *phase != DrainPhase::Running).await;
    if let Ok(DrainPhase::Draining(delay)) = draining.as_deref().copied() {
        drop(tokio::time::timeout(delay, process.forced()).await);
    }
    drop(draining);
    stop.send_replace(true);
    // An error means that the gateway is gone, which is the end too.
    drop(phase.wait_for(|phase| *phase == DrainPhase::Done).await);
    if let Some(session) = session {
        process.note_unsettled(session.finish().await);
    }
    Ok(())
}

async fn keep_house(process: Arc<Process>, session: Option<Session>, worker_count: usize) {
    let mut period = tokio::time::interval(HOUSEKEEPING_PERIOD);
    let mut periods = 0;
    let mut expiry_log = ExpiryLog::new(process.clock.now());
    let (endpoints, metrics) = (Arc::clone(&process.endpoints), Arc::clone(&process.metrics));
    let sockets = Arc::clone(process.sockets());
    let checker = Checker::new(endpoints, metrics, process.clock.clone(), sockets);
    loop {
        period.tick().await;
        process.store.sweep();
        if let Some(session) = &session {
            session.tick();
        }
        process.free_retired();
        process.endpoints.tick();
        checker.tick();
        periods += 1;
        if periods % DISCIPLINE_PERIODS == 0 {
            process.clock.discipline();
            // Workers may have found more servers of Redis.
            descriptors::bound(&process, worker_count);
            if expiry_log.is_due(process.clock.now()) {
                expiry::warn(&process.live().snapshot, process.clock.wall());
            }
        }
    }
}

/// How often the store's idle state is swept.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_millis(100);
/// How many of those periods pass between two corrections of the clock.
const DISCIPLINE_PERIODS: u32 = 10;
