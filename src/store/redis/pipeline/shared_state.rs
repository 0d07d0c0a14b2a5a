//! What a pipeline's callers and its task share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::queue::Queue;
use crate::store::redis::observer::{Observer, Observers};
use crate::store::redis::sentinel::SentinelResolver;
use crate::store::redis::shared::RedisShared;

/// What a pipeline needs to know besides its server.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct PipelineContext {
    pub(in crate::store::redis) shared: RedisShared,
    /// Whether plans share a call.
    pub(in crate::store::redis) grouping: Grouping,
    /// How long a decision may take; the network is given a multiple of it.
    pub(in crate::store::redis) timeout: Duration,
    /// The name by which callers know the server.
    pub(in crate::store::redis) server: Rc<str>,
    /// Who hears what happens to servers.
    pub(in crate::store::redis) observers: Rc<dyn Observers>,
}

/// Whether plans share a call of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum Grouping {
    /// Up to [`PLANS_PER_CALL`] plans share a call: one server has all keys.
    OneCall,
    /// Each plan has a call of its own, as a Cluster demands; the calls are pipelined.
    CallEach,
}

/// Whether a pipeline has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum PipelineState {
    /// The first attempt is under way, to this server or with these credentials: calls wait.
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
    /// Where the pipeline leads to. The task reads it when `reconfigured` is notified.
    pub(super) resolver: RefCell<SentinelResolver>,
    pub(super) reconfigured: Notify,
    /// Whether a caller suspects that the server is mute.
    pub(super) is_suspect: Cell<bool>,
    /// The name of the connected server, for logs.
    pub(super) server: RefCell<Option<Arc<str>>>,
}

impl PipelineCore {
    /// Fails what waits, and what comes until there is a connection.
    pub(super) fn stop_waiting(&self) {
        self.state.set(PipelineState::Down);
        self.queue.clear();
    }
}

/// Most plans in one call of the script. With one plan per call a plan costs Redis 1.3 times as much
/// as with 32, with eight 1.2 times; more than 32 would gain 4 %. A call of 32 takes Redis 0.2 ms.
pub(super) const PLANS_PER_CALL: usize = 32;
