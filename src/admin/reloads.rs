//! What the admin port knows of reloads: whoever owns the gateway's file does them.

use std::fmt::{self, Debug};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::clock::Timestamp;
use crate::snapshot::Snapshot;

/// Reloads the file that the gateway was started with, and remembers what came of it.
pub trait ReloadControl: Debug + Send + Sync {
    /// Reads the file again and puts it in force, or says why not. Blocks; reloads take turns.
    fn reload(&self, source: ReloadSource) -> Arc<ReloadReport>;

    /// Reads the file again, and says what would come of a reload.
    fn preview(&self, source: ReloadSource) -> ReloadPreview;

    /// Returns what came of the last reload; none if there has been none.
    fn last(&self) -> Option<Arc<ReloadReport>>;

    /// Returns the file's absolute path; none if the gateway was not started from one.
    fn path(&self) -> Option<PathBuf>;

    /// Describes the configuration in force, without secrets.
    fn configuration(&self) -> Value;
}

/// What would come of a reload.
#[derive(Debug)]
pub struct ReloadPreview {
    /// What it would say.
    pub report: ReloadReport,
    /// What it would put in force; none if the file stays out.
    pub config: Option<PreviewedConfig>,
}

/// A configuration that a reload would put in force.
#[derive(Debug)]
pub struct PreviewedConfig {
    /// It.
    pub snapshot: Snapshot,
    /// The key of its partition ids.
    pub partition_key: [u8; 32],
}

/// Who asked for a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadSource {
    /// A signal.
    Signal,
    /// A watched file that has changed.
    Watch,
    /// A client of the admin port.
    Admin(SocketAddr),
}

/// What came of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadReport {
    /// When it ended, by wall time.
    pub time: Timestamp,
    /// Who asked for it.
    pub source: ReloadSource,
    /// Whether the file is in force.
    pub outcome: ReloadOutcome,
}

/// Whether a file that was read again is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// It is.
    Applied {
        /// What is different now, one line each.
        changes: Vec<String>,
        /// What keeps its old value until a restart, one line for each key.
        needs_restart: Vec<String>,
        /// What is valid, but probably not what was meant.
        warnings: Vec<String>,
    },
    /// It has mistakes; the old configuration stays.
    Mistakes {
        /// Each as one line.
        lines: Vec<String>,
        /// All of them, as `tollgate check` prints them.
        report: String,
    },
    /// It cannot be read; the old configuration stays.
    Unreadable {
        /// Why.
        error: String,
    },
}

impl ReloadOutcome {
    /// Names it.
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
