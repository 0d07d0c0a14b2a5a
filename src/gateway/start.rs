//! What a start needs of the system, and why it can fail.

use std::io;

use super::handover::ChannelError;
use crate::config::report::Report;
use crate::logging::{LogFileError, OutputError};
use crate::proxy::downstream::socket_file::BindError;
use crate::snapshot::ListenAddress;

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file has mistakes; no port was bound.
    #[error("the file has mistakes")]
    File(Report),
    /// A port or a Unix socket could not be opened.
    #[error("cannot listen on {address} ({key})")]
    Bind {
        /// The key that names the address.
        key: String,
        /// The address.
        address: ListenAddress,
        /// Why.
        source: BindError,
    },
    /// A file of the log could not be opened.
    #[error(transparent)]
    Log(#[from] LogFileError),
    /// The process before goes on itself.
    #[error("cannot take over from the process before: {0}")]
    HandOver(#[from] ChannelError),
    /// The system gave no thread, no runtime or no standard output.
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
