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
    /// Purpose of the socket.
    pub(super) role: SocketRole,
    /// Name that systemd gave the socket; `None` if a gateway passed it.
    pub(super) name: Option<String>,
    /// Address in the configuration of the process that opened the socket.
    pub(super) configured: ListenAddress,
    /// Address that the socket is bound to.
    pub(super) bound: ListenAddress,
    /// Whether a gateway opened the socket.
    pub(super) is_own: bool,
    pub(super) descriptor: OwnedFd,
}

/// Purpose of a given socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketRole {
    /// For a listener; the number is its position among those that a gateway passed.
    Listener(usize),
    Admin,
    /// For the listener or admin port that has its name, or otherwise its address: systemd opened it.
    Activated,
}

/// Sockets that were given to this process and not taken yet.
#[derive(Debug)]
pub(super) struct GivenSockets(pub(super) Vec<GivenSocket>);

/// Sockets that a gateway listens on.
#[derive(Debug)]
pub(super) struct ListeningSockets {
    /// Sockets of the listeners, in the order of the file.
    pub(super) listeners: Vec<BoundSocket>,
    pub(super) admin: Option<TcpListener>,
    /// Warnings, one for each socket that systemd passed and the file does not use.
    pub(super) unwanted: Vec<String>,
    /// For each listener, its number among those that a gateway passed; `None` if it is not one of them.
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

    /// Returns the sockets of a snapshot: takes the given ones, opens those that are missing, closes those left over.
    ///
    /// # Errors
    /// If a socket cannot be opened or taken; those opened before are closed.
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

    /// Takes the socket of that name, or otherwise the one at that address.
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
    /// Returns the address of the admin port, if there is one.
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
    /// Returns the socket's number among the listeners that a gateway passed, if it is one of them.
    fn number(&self) -> Option<usize> {
        match self.role {
            SocketRole::Listener(number) => Some(number),
            SocketRole::Admin | SocketRole::Activated => None,
        }
    }

    /// Returns a warning that nothing uses the socket; `None` if a gateway passed it, because that is no mistake.
    fn unwanted(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(format!(
            "systemd passed the socket `{name}` at {}, but no listener has this name or address: it is closed",
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

/// Closes a socket of systemd's that cannot accept connections, so that no client waits there.
fn close(passed: &mut ListenFd, index: usize) {
    drop(passed.take_udp_socket(index));
    drop(passed.take_unix_datagram(index));
    eprintln!(
        "tollgate: systemd passes a socket on which no connections can be accepted: it is closed"
    );
}
