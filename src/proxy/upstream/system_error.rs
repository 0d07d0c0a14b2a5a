//! Errors of sockets, in words for the log.

use std::io;

use rustix::io::Errno;

/// Returns an error in a few words.
pub(super) fn plain(error: &io::Error) -> String {
    // The system's own message ends in an error number, so the name of the kind is used.
    match error.kind() {
        io::ErrorKind::Other => error.to_string(),
        _ if error.get_ref().is_some() => error.to_string(),
        kind => kind.to_string(),
    }
}

/// Whether the process or the system has no descriptor left.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NFILE | Errno::MFILE)
    )
}
