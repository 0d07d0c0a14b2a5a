//! Upgrades as the admin port sees them; the process's main loop does them.

use std::net::SocketAddr;

use tokio::sync::oneshot;

/// A client's request to start the binary again and hand over to the new process.
#[derive(Debug)]
pub struct UpgradeRequest {
    /// Address of the client.
    pub peer: SocketAddr,
    /// Receives the result of the upgrade.
    pub report: oneshot::Sender<UpgradeReport>,
}

/// Result of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeReport {
    /// A new process has taken over.
    TakenOver {
        /// Version of the new process.
        version: String,
        /// Process id of the new process.
        id: u32,
    },
    /// The upgrade failed; the old process goes on.
    Failed {
        /// Why the upgrade failed, in one line.
        reason: String,
        /// Mistakes of the file, as `tollgate check` prints them.
        report: Option<String>,
    },
    /// Another upgrade is under way.
    UnderWay,
}
