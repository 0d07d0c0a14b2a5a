//! The messages of a hand-over.

use serde::{Deserialize, Serialize};

use crate::snapshot::ListenAddress;
use crate::store::directives::DirectiveSet;
use crate::store::{PassedLeasing, SeriesStates};

/// Messages of the old process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromOld {
    /// Everything that the new process needs to start; the descriptors follow.
    Begin(Box<Begin>),
    /// Some of the descriptors, in this order: listeners, admin port, processes that still drain.
    Descriptors,
    /// Counters of the memory store.
    Counters(Vec<SeriesStates>),
    /// Directives, if they are kept in memory.
    Directives(DirectiveSet),
    /// Everything has been passed; the new process is to accept.
    TakeOver,
    /// The new process is the gateway from now on.
    Confirmed,
    /// To a process that drains, from a newer one: stop waiting for requests, and end.
    End,
    /// What the new process needs to lease units; sent before `Confirmed`, but not to 0.1, which does not know it.
    Leasing(PassedLeasing),
}

/// Messages of the new process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromNew {
    /// The new process is ready to serve.
    Ready {
        /// Version of the new process.
        version: String,
        /// Whether the new process continues with each of the listeners, in the order in which they were passed.
        adopted: Vec<bool>,
        /// Whether the new process can use the old one's counters: both count in memory, in the same format.
        takes_counters: bool,
    },
    /// The new process accepts connections.
    Serving,
    /// The new process cannot serve.
    Failed {
        /// Why the new process cannot serve, in one line.
        reason: String,
        /// Mistakes of the new process's file, as `tollgate check` prints them.
        report: Option<String>,
    },
}

/// Everything that a new process needs to start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    /// The old process's version.
    pub(super) version: String,
    /// Version of the format of counters.
    pub(super) counters_version: u32,
    /// Whether the old process counts in memory.
    pub(super) has_counters: bool,
    /// Addresses of the listeners.
    pub(super) listeners: Vec<PassedAddress>,
    /// Address of the admin port, if there is one.
    pub(super) admin: Option<PassedAddress>,
    /// How many older processes still drain.
    pub(super) draining: usize,
    /// Key of the partition ids in memory.
    pub(super) random_key: [u8; 32],
    /// How far the old process's clock is ahead of the monotonic one.
    pub(super) clock_ahead_us: i64,
}

/// Address of a socket that is passed on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PassedAddress {
    /// Address as written in the old process's file.
    pub(super) configured: ListenAddress,
    /// Address that the socket is bound to: the file may leave the port to the system.
    pub(super) bound: ListenAddress,
    /// Whether a gateway opened the socket; a gateway then also removes the file of a Unix socket.
    pub(super) is_own: bool,
}

impl Begin {
    /// Returns how many descriptors follow this message.
    pub(super) fn descriptors(&self) -> usize {
        self.listeners.len() + usize::from(self.admin.is_some()) + self.draining
    }
}
