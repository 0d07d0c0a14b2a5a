//! What the reader of a connection knows of its requests: which one asks for another protocol, and which had a
//! target that was escaped.
//!
//! While a request for another protocol is unanswered, nothing behind it is read. If the answer is a 101,
//! whoever gave it has left here what carries the bytes from then on.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Waker};

use crate::proxy::downstream::io::ClientIo;
use crate::proxy::wire::rewound::Rewound;

/// Where a request for another protocol stands.
#[derive(Default)]
pub(crate) struct UpgradeGate {
    /// Which request of the connection asks for another protocol and is unanswered, counted from 1; 0:
    /// none.
    unanswered: Cell<u64>,
    /// How many requests have begun.
    begun: Cell<u64>,
    /// How many whole heads have come.
    heads: Cell<u64>,
    /// Whoever waits to read what follows it.
    reader: RefCell<Option<Waker>>,
    /// Requests whose target has been escaped, that have not ended.
    escaped: RefCell<Vec<u64>>,
    /// Whether some of a head has come that is not whole, or what is held back begins with one.
    is_head_begun: Cell<bool>,
    /// Whether what has come ends with a whole request, body included, or with empty lines behind one.
    is_whole: Cell<bool>,
    tunnel: RefCell<Option<TunnelTask>>,
}

/// Carries the bytes of another protocol.
pub(crate) type TunnelTask =
    Box<dyn FnOnce(Rewound<ClientIo>) -> Pin<Box<dyn Future<Output = ()>>>>;

impl UpgradeGate {
    /// Notes that the head of this request, which asks for another protocol, has been read.
    pub(super) fn block(&self, request: u64) {
        self.unanswered.set(request);
    }

    /// Whether one is unanswered, so that nothing may be read; whoever asks is then woken when it is answered.
    pub(super) fn is_blocked(&self, cx: &Context<'_>) -> bool {
        let is_blocked = self.is_asked();
        if is_blocked {
            self.reader.replace(Some(cx.waker().clone()));
        }
        is_blocked
    }

    /// Returns how many requests have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.get()
    }

    /// Notes how many whole heads have come, whether a further one has begun, and whether all that has come is whole.
    pub(super) fn note_heads(&self, heads: u64, is_begun: bool, is_whole: bool) {
        self.heads.set(heads);
        self.is_head_begun.set(is_begun);
        self.is_whole.set(is_whole);
    }

    /// Whether nothing has come but whole requests that have begun.
    pub(super) fn is_between_requests(&self) -> bool {
        self.is_whole.get() && self.heads.get() == self.begun.get()
    }

    /// Whether something has come of a request that has not begun.
    pub(super) fn is_head_begun(&self) -> bool {
        self.heads.get() > self.begun.get() || self.is_head_begun.get()
    }

    /// Notes that the target of this request has been escaped, or a part of it.
    pub(super) fn note_escaped(&self, request: u64) {
        let mut escaped = self.escaped.borrow_mut();
        escaped.retain(|&earlier| (self.begun.get()..request).contains(&earlier));
        escaped.push(request);
    }

    /// Whether that of the request that has begun was.
    pub(crate) fn is_target_escaped(&self) -> bool {
        self.escaped.borrow().contains(&self.begun.get())
    }

    /// Whether one is unanswered.
    pub(crate) fn is_asked(&self) -> bool {
        self.unanswered.get() > 0
    }

    /// Notes that the next request begins.
    pub(super) fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// Notes that the request that has begun is answered in HTTP.
    pub(super) fn unblock(&self) {
        if (1..=self.begun.get()).contains(&self.unanswered.get()) {
            self.unanswered.set(0);
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
    }

    /// Leaves what is to carry the bytes after a 101.
    pub(crate) fn leave(&self, tunnel: TunnelTask) {
        self.tunnel.replace(Some(tunnel));
    }

    /// Whether something is to carry the bytes.
    pub(crate) fn has_tunnel(&self) -> bool {
        self.tunnel.borrow().is_some()
    }

    /// Takes what is to carry the bytes.
    pub(crate) fn take(&self) -> Option<TunnelTask> {
        self.tunnel.take()
    }
}

impl fmt::Debug for UpgradeGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradeGate")
            .field("unanswered", &self.unanswered)
            .finish_non_exhaustive()
    }
}
