//! What the admin port knows of upgrades: whoever started the gateway does them.

use std::net::SocketAddr;

use tokio::sync::oneshot;

/// A client of the admin port wants the binary to be started again.
#[derive(Debug)]
pub struct UpgradeRequest {
    /// Who.
    pub peer: SocketAddr,
    /// Is told what came of it.
    pub report: oneshot::Sender<UpgradeReport>,
}

/// What came of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeReport {
    /// A new process has taken over.
    TakenOver {
        /// Its version.
        version: String,
        /// Its process id.
        id: u32,
    },
    /// The old process goes on.
    Failed {
        /// Why, in one line.
        reason: String,
        /// The mistakes of the file, as `tollgate check` prints them.
        report: Option<String>,
    },
    /// Another upgrade is under way.
    UnderWay,
}
