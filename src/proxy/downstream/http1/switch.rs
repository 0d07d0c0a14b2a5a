//! A request for another protocol on its connection.
//!
//! While it is unanswered, nothing behind it is read. If the answer is a 101, whoever gave it has left
//! here what carries the bytes from then on.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Waker};

use http::HeaderMap;
use http::header::UPGRADE;

use crate::proxy::downstream::io::ClientIo;
use crate::proxy::rewound::Rewound;
use crate::request::upgrade::switches_protocol;

/// Where a request for another protocol stands.
#[derive(Default)]
pub(crate) struct Switch {
    /// Whether one has been read and is unanswered.
    is_open: Cell<bool>,
    /// Whether it is the one that is being worked on.
    is_current: Cell<bool>,
    /// Whoever waits to read what follows it.
    reader: RefCell<Option<Waker>>,
    tunnel: RefCell<Option<Tunnel>>,
}

/// Carries the bytes of another protocol.
pub(crate) type Tunnel = Box<dyn FnOnce(Rewound<ClientIo>) -> Pin<Box<dyn Future<Output = ()>>>>;

impl Switch {
    /// Notes that one has been read.
    pub(super) fn open(&self) {
        self.is_open.set(true);
    }

    /// Whether one is unanswered; if so, whoever asks is woken when it is answered.
    pub(super) fn is_open(&self, cx: &Context<'_>) -> bool {
        if self.is_open.get() {
            self.reader.replace(Some(cx.waker().clone()));
        }
        self.is_open.get()
    }

    /// Notes that a request begins which may ask for another protocol.
    pub(crate) fn begin(&self, headers: &HeaderMap) {
        if self.is_open.get() {
            let mut asked = headers.get_all(UPGRADE).iter();
            let is_current = asked.any(|it| switches_protocol(it.as_bytes()));
            self.is_current.set(is_current);
        }
    }

    /// Notes that a request has been answered in HTTP.
    pub(super) fn end(&self) {
        if self.is_current.take() {
            self.is_open.set(false);
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
    }

    /// Leaves what is to carry the bytes after a 101.
    pub(crate) fn leave(&self, tunnel: Tunnel) {
        self.tunnel.replace(Some(tunnel));
    }

    /// Takes what is to carry the bytes.
    pub(crate) fn take(&self) -> Option<Tunnel> {
        self.tunnel.take()
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch")
            .field("is_open", &self.is_open)
            .finish_non_exhaustive()
    }
}
