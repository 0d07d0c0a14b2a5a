//! The old process: starts the new one, passes it everything, and drains once that one serves.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::channel::{Channel, ChannelError, DESCRIPTORS_MAX};
use super::launch::Launch;
use super::message::{Begin, FromNew, FromOld, PassedAddress};
use super::pause::Pause;
use super::{PROTOCOL, READY_WITHIN, STEP_WITHIN, VARIABLE};
use crate::build_info;
use crate::gateway::control::Phase;
use crate::gateway::memory_limit::{self, MemoryShortage};
use crate::gateway::sockets::ListeningSockets;
use crate::proxy::process::Process;
use crate::snapshot::{ListenAddress, Snapshot};
use crate::store::{COUNTERS_VERSION, MemoryStore, Store};

/// Listening sockets, ready to be passed to a new process.
#[derive(Debug)]
pub(in crate::gateway) struct PassedSockets {
    listeners: Vec<(PassedAddress, OwnedFd)>,
    admin: Option<(PassedAddress, OwnedFd)>,
}

/// Earlier processes of this gateway that still drain, the oldest first.
#[derive(Clone, Debug, Default)]
pub(in crate::gateway) struct Drainers(Arc<Mutex<Vec<Channel>>>);

/// Hands over to a new process.
#[derive(Debug)]
pub struct Upgrader {
    launch: Launch,
    process: Arc<Process>,
    phase: watch::Sender<Phase>,
    /// Sockets to pass on; `None` once this process no longer listens.
    sockets: Arc<Mutex<Option<PassedSockets>>>,
    drainers: Drainers,
    child: Mutex<NewProcess>,
}

/// A new process that has not taken over yet.
#[derive(Debug, Default)]
enum NewProcess {
    /// No new process is starting.
    #[default]
    None,
    /// The new process is starting.
    Started(Child),
    /// No new process may be started any more.
    Unwanted,
}

/// A process that has taken over.
#[derive(Debug)]
pub struct Successor {
    /// Version of the new process.
    pub version: String,
    /// Process id of the new process.
    pub id: u32,
    channel: Channel,
}

/// Why an upgrade failed; the old process goes on serving.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// This process is process 1 of a container, which would end with it.
    #[error(
        "this is process 1 of its container, which ends with it: replace the container instead"
    )]
    IsInit,
    /// The gateway is draining.
    #[error("this process is stopping")]
    Stopping,
    /// The binary cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Path of the binary.
        program: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The new process says that it cannot serve.
    #[error("the new process cannot serve: {reason}")]
    Failed {
        /// Why the new process cannot serve, in one line.
        reason: String,
        /// Mistakes of the new process's file, as `tollgate check` prints them.
        report: Option<String>,
    },
    /// The operating system refused a thread.
    #[error(transparent)]
    System(io::Error),
    /// The memory limit leaves no room for the new process.
    #[error(transparent)]
    Memory(#[from] MemoryShortage),
    /// The new process ended, fell silent, or sent something unexpected.
    #[error("the new process did not take over: {0}")]
    Lost(#[from] ChannelError),
}

impl PassedSockets {
    /// Duplicates the descriptors of the listening sockets.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub(in crate::gateway) fn of(
        snapshot: &Snapshot,
        sockets: &ListeningSockets,
    ) -> io::Result<Self> {
        let passed = snapshot.listeners.iter().zip(&sockets.listeners);
        let listeners = passed.map(|(listener, socket)| {
            let address = PassedAddress {
                configured: listener.address.clone(),
                bound: socket.address.clone(),
                is_own: socket.is_own(),
            };
            Ok((address, socket.descriptor()?))
        });
        let listeners = listeners.collect::<io::Result<_>>()?;
        let admin = match (snapshot.admin.address, &sockets.admin) {
            (Some(address), Some(socket)) => Some(passed_admin(address.into(), socket)?),
            _ => None,
        };
        Ok(Self { listeners, admin })
    }
}

fn passed_admin(
    configured: ListenAddress,
    socket: &TcpListener,
) -> io::Result<(PassedAddress, OwnedFd)> {
    let address = PassedAddress {
        configured,
        bound: socket.local_addr()?.into(),
        is_own: true,
    };
    Ok((address, socket.try_clone()?.into()))
}

impl Drainers {
    /// Adds the newest process, and ends the oldest ones if there are too many.
    pub(super) fn add(&self, channel: Channel) {
        let mut all = self.all();
        all.retain(|channel| !channel.is_closed());
        all.push(channel);
        let too_many = all.len().saturating_sub(DRAINERS_MAX);
        for oldest in all.drain(..too_many) {
            tracing::warn!("too many earlier processes still drain: the oldest is cut");
            let _ = oldest.send(&FromOld::End, &[], STEP_WITHIN);
        }
    }

    /// Tells all of them to end, and waits briefly for each.
    pub(in crate::gateway) fn end(&self) {
        let all = std::mem::take(&mut *self.all());
        for channel in &all {
            let _ = channel.send(&FromOld::End, &[], STEP_WITHIN);
        }
        for channel in all {
            // The process sends nothing, so this returns when it has ended.
            let _ = channel.receive::<()>(Some(END_WITHIN));
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upgrader {
    pub(in crate::gateway) fn new(
        launch: Launch,
        process: Arc<Process>,
        phase: watch::Sender<Phase>,
        sockets: Arc<Mutex<Option<PassedSockets>>>,
        drainers: Drainers,
    ) -> Self {
        Self {
            launch,
            process,
            phase,
            sockets,
            drainers,
            child: Mutex::default(),
        }
    }

    /// Starts the binary again and hands over to it; blocks until that has succeeded or failed. After a success, this
    /// process has stopped accepting, and is to be [shut down](crate::gateway::Gateway::shutdown). `announce` is called
    /// with the new process's id as soon as that serves.
    ///
    /// # Errors
    /// Why the upgrade failed; this process goes on as before.
    pub fn upgrade(&self, announce: impl FnOnce(u32)) -> Result<Successor, UpgradeError> {
        if std::process::id() == 1 {
            return Err(UpgradeError::IsInit);
        }
        let drainers = self.drainers.all();
        let draining = drainers.iter().filter(|channel| !channel.is_closed());
        memory_limit::check_processes(draining.count() + 2, self.process.store.usage().bytes)?;
        drop(drainers);
        let (channel, theirs) = Channel::pair().map_err(ChannelError::System)?;
        let id = self.start(theirs)?;
        let taken = self.converse(&channel, || announce(id));
        let child = std::mem::take(&mut *self.child());
        match taken {
            Ok(version) => Ok(Successor {
                version,
                id,
                channel,
            }),
            Err(error) => {
                if let NewProcess::Started(mut child) = child {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                Err(error)
            }
        }
    }

    /// Kills a new process that has not taken over; if there is none, prevents one from being started.
    pub fn abort(&self) {
        match &mut *self.child() {
            NewProcess::Started(child) => {
                let _ = child.kill();
            }
            child => *child = NewProcess::Unwanted,
        }
    }

    fn child(&self) -> MutexGuard<'_, NewProcess> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the new process, and returns its id.
    fn start(&self, channel: OwnedFd) -> Result<u32, UpgradeError> {
        let Launch { program, arguments } = &self.launch;
        let mut command = Command::new(program);
        command.args(arguments).env(VARIABLE, PROTOCOL);
        for of_this_process in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(of_this_process);
        }
        let mut new = self.child();
        if matches!(*new, NewProcess::Unwanted) {
            return Err(UpgradeError::Stopping);
        }
        let started = command.stdin(channel).spawn();
        let child = started.map_err(|source| UpgradeError::Start {
            program: program.display().to_string(),
            source,
        })?;
        let id = child.id();
        *new = NewProcess::Started(child);
        Ok(id)
    }

    /// Passes everything to the new process; returns its version once it serves.
    fn converse(&self, channel: &Channel, announce: impl FnOnce()) -> Result<String, UpgradeError> {
        self.begin(channel)?;
        let (version, adopted, takes_counters) = match channel.receive(Some(READY_WITHIN))?.0 {
            FromNew::Ready {
                version,
                adopted,
                takes_counters,
            } => (version, adopted, takes_counters),
            FromNew::Failed { reason, report } => {
                return Err(UpgradeError::Failed { reason, report });
            }
            FromNew::Serving => return Err(ChannelError::Nonsense.into()),
        };
        let _paused = Pause::begin(&self.phase).ok_or(UpgradeError::Stopping)?;
        if let Store::Memory(memory) = &self.process.store
            && takes_counters
        {
            pass_counters(memory, channel)?;
        }
        channel.send(&FromOld::TakeOver, &[], STEP_WITHIN)?;
        match channel.receive(Some(STEP_WITHIN))?.0 {
            FromNew::Serving => {}
            FromNew::Failed { reason, report } => {
                return Err(UpgradeError::Failed { reason, report });
            }
            FromNew::Ready { .. } => return Err(ChannelError::Nonsense.into()),
        }
        announce();
        // If the new process has ended since, this one accepts again.
        self.confirm(channel, &version)?;
        if takes_counters {
            self.process.drain_at_once();
        }
        self.phase.send_replace(Phase::PassedOn(adopted.into()));
        Ok(version)
    }

    /// Tells the new process, which is of that version, that it is the gateway from now on; stops leasing first.
    fn confirm(&self, channel: &Channel, version: &str) -> Result<(), ChannelError> {
        let confirm = || channel.send(&FromOld::Confirmed, &[], STEP_WITHIN);
        match &self.process.store {
            // Version 0.1 leases nothing.
            Store::Redis(store) if !version.starts_with("0.1.") => {
                let leasing = FromOld::Leasing(store.pass_leasing_on());
                let passed = channel.send(&leasing, &[], STEP_WITHIN);
                let confirmed = passed.and_then(|()| confirm());
                if confirmed.is_err() {
                    store.resume_leasing();
                }
                confirmed
            }
            _ => confirm(),
        }
    }

    fn begin(&self, channel: &Channel) -> Result<(), UpgradeError> {
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let sockets = sockets.as_ref().ok_or(UpgradeError::Stopping)?;
        let drainers = self.drainers.all();
        let addresses = sockets.listeners.iter();
        let begin = Begin {
            version: build_info::VERSION.to_owned(),
            counters_version: COUNTERS_VERSION,
            has_counters: matches!(self.process.store, Store::Memory(_)),
            listeners: addresses.map(|(address, _)| address.clone()).collect(),
            admin: sockets.admin.as_ref().map(|(address, _)| address.clone()),
            draining: drainers.len(),
            random_key: self.process.random_key,
            clock_ahead_us: self.process.clock.ahead_us(),
        };
        let listening = sockets.listeners.iter().chain(&sockets.admin);
        let listening = listening.map(|(_, descriptor)| descriptor.as_fd());
        let draining = drainers.iter().map(Channel::as_descriptor);
        let descriptors: Vec<BorrowedFd<'_>> = listening.chain(draining).collect();
        channel.send(&FromOld::Begin(Box::new(begin)), &[], STEP_WITHIN)?;
        for some in descriptors.chunks(DESCRIPTORS_MAX) {
            channel.send(&FromOld::Descriptors, some, STEP_WITHIN)?;
        }
        Ok(())
    }
}

/// Passes the counters and the directives.
fn pass_counters(memory: &MemoryStore, channel: &Channel) -> Result<(), ChannelError> {
    for part in 0..memory.parts() {
        let counters = memory.part(part);
        if !counters.is_empty() {
            channel.send(&FromOld::Counters(counters), &[], STEP_WITHIN)?;
        }
    }
    let directives = FromOld::Directives(memory.directives());
    channel.send(&directives, &[], STEP_WITHIN)
}

impl Successor {
    /// Waits until the new process tells this one to end at once; returns false if the new process ends without
    /// doing so.
    pub fn wants_end(&self) -> bool {
        matches!(self.channel.receive(None), Ok((FromOld::End, _)))
    }
}

/// How many earlier processes may drain at once.
const DRAINERS_MAX: usize = 4;

/// How long a process may take to end once it waits for no requests.
const END_WITHIN: Duration = Duration::from_secs(3);
