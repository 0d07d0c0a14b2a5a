//! The messages of a hand-over.

use serde::{Deserialize, Serialize};

use crate::snapshot::ListenAddress;
use crate::store::directives::DirectiveSet;
use crate::store::{PassedLeasing, SeriesStates};

/// What the old process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromOld {
    /// What the new process begins with; its descriptors follow.
    Begin(Box<Begin>),
    /// Some of the descriptors: of each listener, of the admin port, of each process that still drains.
    Descriptors,
    /// Counters of the memory store.
    Counters(Vec<SeriesStates>),
    /// What operators ordered, if that is in memory.
    Directives(DirectiveSet),
    /// All has been passed: accept.
    TakeOver,
    /// The new process is the gateway from now on.
    Confirmed,
    /// To a process that drains: wait for no request any more.
    End,
    /// Before it confirms: the old process holds no leased units any more. Not sent to 0.1, which does not know it.
    Leasing(PassedLeasing),
}

/// What the new process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromNew {
    /// It could serve.
    Ready {
        /// Its version.
        version: String,
        /// Which of the listeners it goes on with, in the order in which they were passed.
        adopted: Vec<bool>,
        /// Whether it counts in memory as the old one does, so that counters are of use to it.
        takes_counters: bool,
    },
    /// It accepts.
    Serving,
    /// It cannot serve.
    Failed {
        /// Why, in one line.
        reason: String,
        /// The mistakes of its file, as `tollgate check` prints them.
        report: Option<String>,
    },
}

/// What a new process begins with.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    /// The old process's version.
    pub(super) version: String,
    /// The layout of counters.
    pub(super) counters_version: u32,
    /// Whether there are counters in memory.
    pub(super) has_counters: bool,
    /// The listeners.
    pub(super) listeners: Vec<PassedAddress>,
    /// The admin port, if there is one.
    pub(super) admin: Option<PassedAddress>,
    /// How many older processes still drain.
    pub(super) draining: usize,
    /// The key of partition ids in memory.
    pub(super) random_key: [u8; 32],
    /// How far the old process's clock is ahead of the monotonic one.
    pub(super) clock_ahead_us: i64,
}

/// Where a socket listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PassedAddress {
    /// What the old file says.
    pub(super) configured: ListenAddress,
    /// Where it really is: the file may leave the port to the system.
    pub(super) bound: ListenAddress,
    /// Whether it was made by a gateway, which then removes the file of a Unix socket.
    pub(super) is_own: bool,
}

impl Begin {
    /// Counts the descriptors that follow.
    pub(super) fn descriptors(&self) -> usize {
        self.listeners.len() + usize::from(self.admin.is_some()) + self.draining
    }
}
