//! What the reader of a connection knows of its requests: which one asks for another protocol, and which had a
//! target that was escaped.
//!
//! While a request for another protocol is unanswered, nothing after it is read. If the answer is a 101, the task that
//! carries the bytes from then on has been left here.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Waker};

use crate::proxy::downstream::io::ClientIo;
use crate::proxy::wire::rewound::Rewound;

/// What has become of a request for another protocol.
#[derive(Default)]
pub(crate) struct UpgradeGate {
    /// The request of the connection, counted from 1, that asks for another protocol and is unanswered; 0 if there is
    /// none.
    unanswered: Cell<u64>,
    /// Requests that have begun.
    begun: Cell<u64>,
    /// Whole heads that have come.
    heads: Cell<u64>,
    /// The task that waits to read what follows the unanswered request.
    reader: RefCell<Option<Waker>>,
    /// Requests that have not ended and whose target has been escaped.
    escaped: RefCell<Vec<u64>>,
    /// Whether part of a further head has come, or what is held back begins with one.
    is_head_begun: Cell<bool>,
    /// Whether what has come ends with a whole request, body included, or with empty lines after one.
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

    /// Whether a request for another protocol is unanswered, so that nothing may be read. If so, the task that asks is
    /// woken when it is answered.
    pub(super) fn is_blocked(&self, cx: &Context<'_>) -> bool {
        let is_blocked = self.is_upgrade_pending();
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

    /// Whether everything that has come belongs to whole requests that have begun.
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

    /// Whether the target of the latest request that has begun was escaped.
    pub(crate) fn is_target_escaped(&self) -> bool {
        self.escaped.borrow().contains(&self.begun.get())
    }

    /// Whether a request for another protocol is unanswered.
    pub(crate) fn is_upgrade_pending(&self) -> bool {
        self.unanswered.get() > 0
    }

    /// Notes that the next request begins.
    pub(super) fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// Notes that the latest request that has begun is answered in HTTP.
    pub(super) fn unblock(&self) {
        if (1..=self.begun.get()).contains(&self.unanswered.get()) {
            self.unanswered.set(0);
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
    }

    /// Leaves the task that is to carry the bytes after a 101.
    pub(crate) fn leave(&self, tunnel: TunnelTask) {
        self.tunnel.replace(Some(tunnel));
    }

    /// Whether a task has been left that is to carry the bytes.
    pub(crate) fn has_tunnel(&self) -> bool {
        self.tunnel.borrow().is_some()
    }

    /// Takes the task that is to carry the bytes.
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
