//! What a pipeline's callers and its task share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::queue::Queue;
use crate::store::redis::observer::{Observer, Observers};
use crate::store::redis::sentinel::PrimaryResolver;
use crate::store::redis::shared::RedisShared;

/// What a pipeline needs to know, apart from how to find its server.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct PipelineContext {
    pub(in crate::store::redis) shared: RedisShared,
    /// Whether plans share a call.
    pub(in crate::store::redis) grouping: Grouping,
    /// How long a decision may take; the network has a multiple of that to acknowledge what was sent.
    pub(in crate::store::redis) timeout: Duration,
    /// The server's name for callers and observers.
    pub(in crate::store::redis) server: Rc<str>,
    /// Makes the observer that is told what happens to the server.
    pub(in crate::store::redis) observers: Rc<dyn Observers>,
}

/// Whether plans share a call of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum Grouping {
    /// Up to [`PLANS_PER_CALL`] plans share a call: one server has all keys.
    OneCall,
    /// Each plan has a call of its own, as a Cluster requires; the calls are pipelined.
    CallEach,
}

/// Whether a pipeline has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum PipelineState {
    /// The first attempt to reach this server, or to use these credentials, is under way: calls wait.
    Connecting,
    /// Connected.
    Up,
    /// The connection broke, or an attempt failed: calls fail at once until an attempt succeeds.
    Down,
}

/// What callers and the pipeline's task share.
#[derive(Debug)]
pub(super) struct PipelineCore {
    pub(super) context: PipelineContext,
    pub(super) observer: Rc<dyn Observer>,
    pub(super) queue: Queue,
    pub(super) state: Cell<PipelineState>,
    /// How to find the server. The task reads this again when `reconfigured` is notified.
    pub(super) resolver: RefCell<PrimaryResolver>,
    pub(super) reconfigured: Notify,
    /// Whether a caller suspects that the server is mute.
    pub(super) is_suspect: Cell<bool>,
    /// The name of the connected server, for logs.
    pub(super) server: RefCell<Option<Arc<str>>>,
}

impl PipelineCore {
    /// Fails the calls that wait, and those that come until there is a connection.
    pub(super) fn stop_waiting(&self) {
        self.state.set(PipelineState::Down);
        self.queue.clear();
    }
}

/// Most plans in one call of the script. With one plan per call a plan costs Redis 1.3 times as much
/// as with 32, with eight 1.2 times; more than 32 would gain 4 %. A call of 32 takes Redis 0.2 ms.
pub(super) const PLANS_PER_CALL: usize = 32;
