//! Unix sockets to listen on, and the files by which clients find them.
//!
//! A file outlives the process that made it. So a file that already exists is replaced if it is a socket on which
//! nobody answers, and never otherwise. At the end, the file is removed if it is still the same one.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// Why the gateway cannot listen on an address.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens on the Unix socket.
    #[error("the address is in use: a process listens on this socket")]
    InUse,
    /// Another process may listen on the Unix socket.
    #[error(
        "the address may be in use: this process lacks the permission to connect to the socket and find out"
    )]
    Unknown,
    /// The file at the path is not a socket, so the gateway may not remove it.
    #[error("there is a file at this path that is not a socket: remove it if it is not needed")]
    NoSocket,
    /// The operating system's error.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The file of a socket that this process listens on; removed when dropped, unless it is another process's.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: FileIdentity,
    /// Whether the file is removed when this process no longer listens.
    is_ours: bool,
}

/// What identifies a file, whatever its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

/// Listens on a socket at `path`, which its owner and group may connect to.
///
/// # Errors
/// If a file that already exists must not be replaced, or the system's error.
pub(super) fn bind(path: &Path, backlog: i32) -> Result<(UnixListener, SocketFile), BindError> {
    remove_stale(path)?;
    let socket = new_socket()?;
    socket.bind(&SockAddr::unix(path)?)?;
    let identity = FileIdentity::of(&fs::symlink_metadata(path)?);
    let file = SocketFile {
        path: path.to_owned(),
        identity,
        is_ours: true,
    };
    // Set before the socket listens, so that nobody else can connect in between.
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    socket.listen(backlog)?;
    Ok((socket.into(), file))
}

/// Removes the socket that a process left behind, if nobody answers on it.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !found.file_type().is_socket() {
        return Err(BindError::NoSocket);
    }
    // This does not wait: a process whose queue is full listens all the same.
    let answer = new_socket()?.connect(&SockAddr::unix(path)?);
    match answer.map_err(|error| error.kind()) {
        Err(ErrorKind::ConnectionRefused) => {}
        Err(ErrorKind::NotFound) => return Ok(()),
        Err(ErrorKind::PermissionDenied) => return Err(BindError::Unknown),
        _ => return Err(BindError::InUse),
    }
    FileIdentity::of(&found).remove(path)?;
    Ok(())
}

fn new_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl SocketFile {
    /// Finds the file of a socket that another process has made, which stays that process's until it is
    /// [taken](Self::take).
    ///
    /// # Errors
    /// The system's error, for example if the file no longer exists.
    pub(super) fn adopt(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: FileIdentity::of(&fs::symlink_metadata(path)?),
            is_ours: false,
        })
    }

    /// Has the file removed when this process no longer listens.
    pub(super) fn take(&mut self) {
        self.is_ours = true;
    }

    /// Leaves the file to another process that goes on with the socket.
    pub(super) fn leave(mut self) {
        self.is_ours = false;
    }
}

impl FileIdentity {
    fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }

    /// Removes the file at `path` if it is this one.
    fn remove(self, path: &Path) -> io::Result<()> {
        if Self::of(&fs::symlink_metadata(path)?) == self {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = self.identity.remove(&self.path)
            && error.kind() != ErrorKind::NotFound
        {
            let path = self.path.display();
            tracing::warn!(%path, %error, "the file of a Unix socket cannot be removed");
        }
    }
}

/// The mode of the file: its owner and group may connect.
const MODE: u32 = 0o660;

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    fn bind_at(path: &Path) -> Result<(UnixListener, SocketFile), BindError> {
        bind(path, 16)
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tollgate.sock");
        (folder, path)
    }

    #[test]
    fn socket_is_for_its_owner_and_group_and_goes_with_its_listener() {
        let (_folder, path) = folder();
        let (_listener, file) = bind_at(&path).expect("a free path");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        drop(UnixStream::connect(&path).expect("a connection"));
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn socket_of_a_process_that_is_gone_is_replaced() {
        let (_folder, path) = folder();
        drop(UnixListener::bind(&path).expect("a socket"));
        let (_listener, _file) = bind_at(&path).expect("a stale socket is no obstacle");
        drop(UnixStream::connect(&path).expect("a connection"));
    }

    /// Makes a listener whose queue is full, as long as the returned descriptors are kept.
    fn full_listener(path: &Path) -> io::Result<Vec<OwnedFd>> {
        let socket = new_socket()?;
        socket.bind(&SockAddr::unix(path)?)?;
        socket.listen(0)?;
        let queued = UnixStream::connect(path)?;
        Ok(vec![socket.into(), queued.into()])
    }

    fn link_to_listener(path: &Path) -> io::Result<Vec<OwnedFd>> {
        let target = path.with_extension("target");
        std::os::unix::fs::symlink(&target, path)?;
        Ok(vec![UnixListener::bind(target)?.into()])
    }

    #[test]
    fn what_may_be_anothers_stays() {
        type Prepare = fn(&Path) -> io::Result<Vec<OwnedFd>>;
        let cases: [(&str, Prepare, &str); 6] = [
            (
                "a listener",
                |path| Ok(vec![UnixListener::bind(path)?.into()]),
                "InUse",
            ),
            ("a full listener", full_listener, "InUse"),
            (
                "datagrams",
                |path| Ok(vec![UnixDatagram::bind(path)?.into()]),
                "InUse",
            ),
            (
                "a text",
                |path| fs::write(path, "kept").map(|()| Vec::new()),
                "NoSocket",
            ),
            (
                "a folder",
                |path| fs::create_dir(path).map(|()| Vec::new()),
                "NoSocket",
            ),
            ("a link to a listener", link_to_listener, "NoSocket"),
        ];
        for (what, prepare, expected) in cases {
            let (_folder, path) = folder();
            let kept_open = prepare(&path).expect(what);
            let refused = bind_at(&path).expect_err(what);
            assert_eq!(format!("{refused:?}"), expected, "{what}");
            assert!(path.symlink_metadata().is_ok(), "{what}");
            drop(kept_open);
        }
    }

    #[test]
    fn file_that_has_taken_the_place_of_the_socket_stays() {
        let (_folder, path) = folder();
        let (_listener, file) = bind_at(&path).expect("a free path");
        fs::remove_file(&path).expect("a file");
        let (_other, other) = bind_at(&path).expect("a free path");
        drop(file);
        drop(UnixStream::connect(&path).expect("the other is still found"));
        fs::remove_file(&path).expect("a file");
        fs::write(&path, "another's").expect("a free path");
        drop(other);
        assert_eq!(fs::read(&path).expect("a file"), b"another's");
    }
}
