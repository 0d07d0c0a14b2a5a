//! Reports what happens to a server to the code that judges it.

use std::fmt::{Debug, Display};
use std::rc::Rc;

use super::connect::KeyKeeping;

/// Makes an observer for each server that one worker asks.
pub(crate) trait Observers: Debug {
    /// Returns the observer of a server.
    fn of(&self, server: &str) -> Rc<dyn Observer>;
}

/// Is told what happens to one server.
pub(crate) trait Observer: Debug {
    /// Notes an event.
    fn note(&self, event: ServerEvent<'_>);
}

/// Something that happened to a server; it is noted once, however many decisions it concerns.
#[derive(Clone, Copy)]
pub(crate) enum ServerEvent<'e> {
    /// This worker has a connection.
    Connected,
    /// This worker no longer has a connection.
    Disconnected,
    /// How the server keeps keys, as it told a new connection.
    Keeps(&'e KeyKeeping),
    /// An attempt to connect failed.
    ConnectFailed(&'e dyn Display),
    /// The server answered a call.
    Answered,
    /// The server has no memory for more keys.
    Full,
    /// A call failed or is late, or a connection ended.
    Failed(&'e dyn Display),
}

/// Stands for a connection while there is one: the observer is told when this is made and when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectedGuard(Rc<dyn Observer>);

impl ConnectedGuard {
    /// Tells the observer that there is a connection.
    pub(super) fn new(observer: Rc<dyn Observer>) -> Self {
        observer.note(ServerEvent::Connected);
        Self(observer)
    }
}

impl Drop for ConnectedGuard {
    fn drop(&mut self) {
        self.0.note(ServerEvent::Disconnected);
    }
}

/// Observers that ignore what happens to the servers.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct Unobserved;

#[cfg(test)]
impl Observers for Unobserved {
    fn of(&self, _: &str) -> Rc<dyn Observer> {
        Rc::new(Self)
    }
}

#[cfg(test)]
impl Observer for Unobserved {
    fn note(&self, _: ServerEvent<'_>) {}
}
