//! What a start needs of the system, and why it can fail.

use std::io;
use std::sync::Arc;

use super::handover::ChannelError;
use crate::clock::Clock;
use crate::config::report::Report;
use crate::logging::{LogFileError, OutputError};
use crate::metrics::Metrics;
use crate::proxy::downstream::socket_file::BindError;
use crate::proxy::process::{ActiveConfig, Process};
use crate::proxy::upstream::Endpoints;
use crate::snapshot::{ListenAddress, Snapshot};
use crate::store::{MemoryStore, Store};

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file has mistakes; no port was bound.
    #[error("the file has mistakes")]
    File(Report),
    /// A port or a Unix socket could not be opened.
    #[error("cannot listen on {address} ({key})")]
    Bind {
        /// Configuration key of the address.
        key: String,
        /// Address that could not be opened.
        address: ListenAddress,
        /// Why the address could not be opened.
        source: BindError,
    },
    /// A file of the log could not be opened.
    #[error(transparent)]
    Log(#[from] LogFileError),
    /// The hand-over from the old process failed; the old process goes on serving.
    #[error("cannot take over from the old process: {0}")]
    HandOver(#[from] ChannelError),
    /// The operating system refused something else: a thread, a runtime, a descriptor, the standard output.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<OutputError> for StartError {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::File(error) => Self::Log(error),
            OutputError::Thread(error) => Self::System(error),
        }
    }
}

/// Returns how many workers to start: as configured, or one per core.
pub(super) fn worker_count(snapshot: &Snapshot) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    snapshot.general.workers.unwrap_or_else(cores)
}

/// Makes the state that the workers share; nothing runs yet.
pub(super) fn new_process(
    snapshot: Snapshot,
    memory: Arc<MemoryStore>,
    clock: Clock,
    metrics: Arc<Metrics>,
    random_key: [u8; 32],
) -> Arc<Process> {
    let store = Store::open(&snapshot.store, memory, clock.clone(), &random_key);
    let endpoints = Arc::new(Endpoints::new(clock.clone(), Arc::clone(&metrics)));
    let live = ActiveConfig::new(snapshot, &metrics, &endpoints, &random_key);
    let process = Process::new(live, clock, store, metrics, endpoints, random_key);
    Arc::new(process)
}

/// Returns a random secret key, so that no client can choose values whose partition ids collide.
pub(super) fn process_key() -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    getrandom::fill(&mut key)?;
    Ok(key)
}
