//! Sockets to listen on: those that the process was given, and those that it opens itself.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use super::start::StartError;
use crate::proxy::downstream::bound::{self, BoundSocket};
use crate::snapshot::{ListenAddress, Snapshot};

/// A socket that was given to this process.
#[derive(Debug)]
pub(super) struct GivenSocket {
    /// What it is for.
    pub(super) role: SocketRole,
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
}

/// Sockets that were given to this process, as long as nobody has taken them.
#[derive(Debug, Default)]
pub(super) struct GivenSockets(pub(super) Vec<GivenSocket>);

/// What a gateway listens on.
#[derive(Debug)]
pub(super) struct Sockets {
    /// In the order of the file.
    pub(super) listeners: Vec<BoundSocket>,
    pub(super) admin: Option<TcpListener>,
    /// The number that each of the listeners was given under; none for those that this process opened.
    pub(super) given_as: Vec<Option<usize>>,
}

impl GivenSockets {
    /// Takes what a snapshot listens on, and opens what was not given; what nobody wants is closed.
    ///
    /// # Errors
    /// If one of them cannot be opened; what was opened before is closed.
    pub(super) fn complete(mut self, snapshot: &Snapshot) -> Result<Sockets, StartError> {
        let mut given_as = Vec::new();
        let mut listeners = Vec::new();
        for listener in &snapshot.listeners {
            let address = &listener.address;
            let failed = |source| StartError::Bind {
                key: format!("listeners.{}.address", listener.name),
                address: address.clone(),
                source,
            };
            let is_wanted = |role| matches!(role, SocketRole::Listener(_));
            let socket = match self.take(address, is_wanted) {
                Some(given) => {
                    given_as.push(given.number());
                    given.adopt().map_err(|error| failed(error.into()))?
                }
                None => {
                    given_as.push(None);
                    bound::bind(address).map_err(failed)?
                }
            };
            listeners.push(socket);
        }
        let admin = snapshot.admin.address;
        Ok(Sockets {
            listeners,
            admin: admin.map(|address| self.admin(address)).transpose()?,
            given_as,
        })
    }

    fn admin(&mut self, address: SocketAddr) -> Result<TcpListener, StartError> {
        let listen_address = ListenAddress::Tcp(address);
        let socket = match self.take(&listen_address, |role| role == SocketRole::Admin) {
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

    fn take(
        &mut self,
        address: &ListenAddress,
        is_wanted: impl Fn(SocketRole) -> bool,
    ) -> Option<GivenSocket> {
        let is_it = |given: &GivenSocket| is_wanted(given.role) && given.configured == *address;
        let index = self.0.iter().position(is_it)?;
        Some(self.0.swap_remove(index))
    }
}

impl GivenSocket {
    /// Returns its number among the listeners.
    fn number(&self) -> Option<usize> {
        match self.role {
            SocketRole::Listener(number) => Some(number),
            SocketRole::Admin => None,
        }
    }

    fn adopt(self) -> io::Result<BoundSocket> {
        bound::adopt(self.bound, self.descriptor, self.is_own)
    }
}
