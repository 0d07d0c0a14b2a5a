//! What a start needs of the system, and why it can fail.

use std::io;
use std::net::TcpListener;

use crate::config::report::Report;
use crate::logging::{LogFileError, OutputError};
use crate::proxy::downstream::bound::{self, BoundSocket};
use crate::proxy::downstream::socket_file::BindError;
use crate::snapshot::{ListenAddress, Snapshot};

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

/// Opens what the listeners accept on, in the order of the file.
///
/// # Errors
/// If one of them cannot be opened; what was opened before is closed.
pub(super) fn bind_all(snapshot: &Snapshot) -> Result<Vec<BoundSocket>, StartError> {
    (snapshot.listeners.iter())
        .map(|listener| {
            bound::bind(&listener.address).map_err(|source| StartError::Bind {
                key: format!("listeners.{}.address", listener.name),
                address: listener.address.clone(),
                source,
            })
        })
        .collect()
}

/// Opens the admin port, if there is one.
///
/// # Errors
/// If it cannot be opened.
pub(super) fn bind_admin(snapshot: &Snapshot) -> Result<Option<TcpListener>, StartError> {
    let address = snapshot.admin.address;
    let bind = |address| {
        bound::bind_tcp(address).map_err(|source| StartError::Bind {
            key: "admin.address".to_owned(),
            address: ListenAddress::Tcp(address),
            source: source.into(),
        })
    };
    address.map(bind).transpose()
}
