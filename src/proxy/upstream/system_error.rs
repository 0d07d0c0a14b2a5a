//! What the system says of a socket.

use std::io;

use rustix::io::Errno;

/// Says in a few words what the system said.
pub(super) fn plain(error: &io::Error) -> String {
    // The system's own words have a number behind them.
    match error.kind() {
        io::ErrorKind::Other => error.to_string(),
        _ if error.get_ref().is_some() => error.to_string(),
        kind => kind.to_string(),
    }
}

/// Whether there is no descriptor left, in the process or in the system.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NFILE | Errno::MFILE)
    )
}
