//! Sockets to listen on: those that the process was given, and those that it opens itself.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use listenfd::ListenFd;

use super::start::StartError;
use crate::proxy::downstream::bound::{self, BoundSocket};
use crate::proxy::downstream::socket_file::BindError;
use crate::snapshot::{ListenAddress, Snapshot};

/// A socket that was given to this process.
#[derive(Debug)]
pub(super) struct GivenSocket {
    /// What it is for.
    pub(super) role: SocketRole,
    /// What systemd calls it.
    pub(super) name: Option<String>,
    /// What the file of whoever made it says.
    pub(super) configured: ListenAddress,
    /// Where it is.
    pub(super) bound: ListenAddress,
    /// Whether a gateway made it.
    pub(super) is_own: bool,
    pub(super) descriptor: OwnedFd,
}

/// What a given socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketRole {
    /// One of the listeners, in the order in which they were given.
    Listener(usize),
    Admin,
    /// Whatever has its name, or else its address: systemd has made it.
    Activated,
}

/// Sockets that were given to this process, as long as nobody has taken them.
#[derive(Debug)]
pub(super) struct GivenSockets(pub(super) Vec<GivenSocket>);

/// What a gateway listens on.
#[derive(Debug)]
pub(super) struct ListeningSockets {
    /// In the order of the file.
    pub(super) listeners: Vec<BoundSocket>,
    pub(super) admin: Option<TcpListener>,
    /// What was given and is of no use, one line each.
    pub(super) unwanted: Vec<String>,
    /// The number that each of the listeners was given under; none for those that this process opened.
    pub(super) given_as: Vec<Option<usize>>,
}

impl GivenSockets {
    /// Takes the sockets that systemd has opened for this process.
    pub(super) fn of_systemd() -> Self {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        let mut given = Vec::new();
        for index in 0..passed.len() {
            let name = names.next().unwrap_or_default().to_owned();
            match activated(&mut passed, index) {
                Some((bound, descriptor)) => given.push(GivenSocket {
                    role: SocketRole::Activated,
                    name: Some(name),
                    configured: bound.clone(),
                    bound,
                    is_own: false,
                    descriptor,
                }),
                None => close(&mut passed, index),
            }
        }
        Self(given)
    }

    /// Takes what a snapshot listens on, and opens what was not given; what nobody wants is closed.
    ///
    /// # Errors
    /// If one of them cannot be opened; what was opened before is closed.
    pub(super) fn complete(mut self, snapshot: &Snapshot) -> Result<ListeningSockets, StartError> {
        let mut given_as = Vec::new();
        let mut listeners = Vec::new();
        for listener in &snapshot.listeners {
            let address = &listener.address;
            let failed = |source| StartError::Bind {
                key: format!("listeners.{}.address", listener.name),
                address: address.clone(),
                source,
            };
            let given = self.take(&listener.name, address, |role| role != SocketRole::Admin);
            given_as.push(given.as_ref().and_then(GivenSocket::number));
            let socket = match given {
                Some(given) => given.adopt().map_err(BindError::from),
                None => bound::bind(address),
            };
            listeners.push(socket.map_err(failed)?);
        }
        let admin = snapshot.admin.address;
        let admin = admin.map(|address| self.admin(address)).transpose()?;
        Ok(ListeningSockets {
            listeners,
            admin,
            unwanted: self.0.iter().filter_map(GivenSocket::unwanted).collect(),
            given_as,
        })
    }

    fn admin(&mut self, address: SocketAddr) -> Result<TcpListener, StartError> {
        let listen_address = ListenAddress::Tcp(address);
        let is_wanted = |role| !matches!(role, SocketRole::Listener(_));
        let socket = match self.take("admin", &listen_address, is_wanted) {
            Some(given) => {
                let listener = TcpListener::from(given.descriptor);
                listener.set_nonblocking(true).map(|()| listener)
            }
            None => bound::bind_tcp(address),
        };
        socket.map_err(|source| StartError::Bind {
            key: "admin.address".to_owned(),
            address: listen_address,
            source: source.into(),
        })
    }

    /// Takes the socket of that name, or else the one at that address.
    fn take(
        &mut self,
        name: &str,
        address: &ListenAddress,
        is_wanted: impl Fn(SocketRole) -> bool,
    ) -> Option<GivenSocket> {
        let find = |is_it: &dyn Fn(&GivenSocket) -> bool| {
            (self.0.iter()).position(|given| is_wanted(given.role) && is_it(given))
        };
        let index = find(&|given| given.name.as_deref() == Some(name))
            .or_else(|| find(&|given| given.configured == *address))?;
        Some(self.0.swap_remove(index))
    }
}

impl ListeningSockets {
    /// Returns where the admin port is, if there is one.
    pub(super) fn admin_address(&self) -> io::Result<Option<SocketAddr>> {
        self.admin.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// Returns the names and addresses of the listeners.
    pub(super) fn addresses(&self, snapshot: &Snapshot) -> Vec<(Arc<str>, ListenAddress)> {
        let both = snapshot.listeners.iter().zip(&self.listeners);
        let named =
            both.map(|(listener, socket)| (Arc::clone(&listener.name), socket.address.clone()));
        named.collect()
    }
}

impl GivenSocket {
    /// Returns its number among the listeners.
    fn number(&self) -> Option<usize> {
        match self.role {
            SocketRole::Listener(number) => Some(number),
            SocketRole::Admin | SocketRole::Activated => None,
        }
    }

    /// Says that nobody has taken it, if that is worth a word.
    fn unwanted(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(format!(
            "systemd passes the socket `{name}` at {}, which is neither the name nor the address of a listener: it is closed",
            self.bound
        ))
    }

    fn adopt(self) -> io::Result<BoundSocket> {
        bound::adopt(self.bound, self.descriptor, self.is_own)
    }
}

/// Takes a socket that systemd has opened, if it listens at an address that a file can name.
fn activated(passed: &mut ListenFd, index: usize) -> Option<(ListenAddress, OwnedFd)> {
    if let Ok(Some(listener)) = passed.take_tcp_listener(index) {
        let address = listener.local_addr().ok()?;
        return Some((address.into(), listener.into()));
    }
    let listener = passed.take_unix_listener(index).ok()??;
    let address = listener.local_addr().ok()?;
    let path = address.as_pathname()?.to_owned();
    Some((ListenAddress::Unix(path), listener.into()))
}

/// Closes what systemd has opened and nobody can accept on, so that nobody waits there.
fn close(passed: &mut ListenFd, index: usize) {
    drop(passed.take_udp_socket(index));
    drop(passed.take_unix_datagram(index));
    eprintln!(
        "tollgate: systemd passes a socket on which no connections can be accepted: it is closed"
    );
}
