//! What happens to a server, told to whoever judges it.

use std::fmt::{Debug, Display};
use std::rc::Rc;

use super::connect::KeyKeeping;

/// Hears what happens to the servers that one worker asks.
pub(crate) trait Observers: Debug {
    /// Returns the observer of a server.
    fn of(&self, server: &str) -> Rc<dyn Observer>;
}

/// Hears what happens to one server.
pub(crate) trait Observer: Debug {
    /// Notes an event.
    fn note(&self, event: ServerEvent<'_>);
}

/// Something that happened to a server. However many decisions it concerns, it is told once.
#[derive(Clone, Copy)]
pub(crate) enum ServerEvent<'e> {
    /// This worker has a connection.
    Connected,
    /// This worker has no connection any more.
    Disconnected,
    /// How it keeps keys, as a new connection finds.
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

/// A connection that stands; when it is dropped, the observer is told.
#[derive(Debug)]
pub(super) struct StandingConnection(Rc<dyn Observer>);

impl StandingConnection {
    /// Tells the observer that there is a connection.
    pub(super) fn new(observer: Rc<dyn Observer>) -> Self {
        observer.note(ServerEvent::Connected);
        Self(observer)
    }
}

impl Drop for StandingConnection {
    fn drop(&mut self) {
        self.0.note(ServerEvent::Disconnected);
    }
}

/// Nobody hears what happens to the servers.
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
