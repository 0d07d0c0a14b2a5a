//! Reloads as the admin port sees them; the gateway, which owns the file, does them.

use std::fmt::{self, Debug};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::clock::Timestamp;
use crate::snapshot::Snapshot;

/// Reloads the file that the gateway was started with, and remembers the result.
pub trait ReloadControl: Debug + Send + Sync {
    /// Reads the file again and puts it in force; the report says why, if that failed. Blocks; reloads take turns.
    fn reload(&self, source: ReloadSource) -> Arc<ReloadReport>;

    /// Reads the file again, and returns what a reload would do.
    fn preview(&self, source: ReloadSource) -> ReloadPreview;

    /// Returns the report of the last reload; `None` if there has been none.
    fn last(&self) -> Option<Arc<ReloadReport>>;

    /// Returns the file's absolute path; `None` if the gateway was not started from a file.
    fn path(&self) -> Option<PathBuf>;

    /// Describes the configuration in force, without secrets.
    fn configuration(&self) -> Value;
}

/// What a reload would do.
#[derive(Debug)]
pub struct ReloadPreview {
    /// Report that the reload would give.
    pub report: ReloadReport,
    /// Configuration that the reload would put in force; `None` if it would fail.
    pub config: Option<PreviewedConfig>,
}

/// A configuration that a reload would put in force.
#[derive(Debug)]
pub struct PreviewedConfig {
    /// The configuration itself.
    pub snapshot: Snapshot,
    /// Key of the partition ids under this configuration.
    pub partition_key: [u8; 32],
}

/// What triggered a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadSource {
    /// A signal.
    Signal,
    /// A watched file that has changed.
    Watch,
    /// A client of the admin port.
    Admin(SocketAddr),
}

/// Result of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadReport {
    /// When the reload ended, by wall time.
    pub time: Timestamp,
    /// What triggered the reload.
    pub source: ReloadSource,
    /// Whether the file is in force.
    pub outcome: ReloadOutcome,
}

/// Whether a file that was read again is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// The file is in force.
    Applied {
        /// Changes that are in force now, one line each.
        changes: Vec<String>,
        /// Changed keys that keep their old values until a restart, one line each.
        needs_restart: Vec<String>,
        /// Settings that are valid, but probably not what was meant.
        warnings: Vec<String>,
    },
    /// The file has mistakes; the old configuration stays.
    Mistakes {
        /// The mistakes, one line each.
        lines: Vec<String>,
        /// All mistakes, as `tollgate check` prints them.
        report: String,
    },
    /// The file cannot be read; the old configuration stays.
    Unreadable {
        /// Why the file cannot be read.
        error: String,
    },
}

impl ReloadOutcome {
    /// Returns the outcome's name in the API.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Applied { .. } => "applied",
            Self::Mistakes { .. } => "mistakes",
            Self::Unreadable { .. } => "unreadable",
        }
    }
}

impl fmt::Display for ReloadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch => f.write_str("watch"),
            Self::Signal => f.write_str("signal"),
            Self::Admin(address) => write!(f, "{address}"),
        }
    }
}
