//! A worker's way to Redis: what it asks there, each call with leave of a breaker and a deadline.
//!
//! An answer that is there when its deadline is noticed late is taken all the same: a worker that
//! stood still for a while must not take that for a fault of the server.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::Value;
use smallvec::SmallVec;

use super::RedisStore;
use super::link::LinkError;
use super::nodes::LIFETIME;
use super::route::Route;
use super::tally::{Lost, Tally};
use super::wire::{self, BadReply, Call, Intent, Reply, Script, Settlement};
use crate::clock::Timestamp;
use crate::limit::{Check, Decision, PartitionId, Verdict};
use crate::store::breaker::Breaker;
use crate::store::guarded::Leavers;
use crate::store::usage::BreakerState;

/// A worker's way to Redis; lives on the worker's thread.
#[derive(Debug)]
pub struct Session {
    store: Arc<RedisStore>,
    route: Route,
    /// Which worker this is, for what is counted by worker.
    worker: usize,
    tally: Arc<Tally>,
    /// The change of the settings that was applied last.
    applied: Cell<u64>,
    /// The key under which nodes announce themselves.
    nodes_key: Box<[u8]>,
    /// Whose clients left before the answer.
    pub(in crate::store) leavers: Rc<Leavers>,
}

impl Session {
    /// Opens the worker's connections; on its runtime.
    pub(in crate::store) fn open(store: &Arc<RedisStore>) -> Self {
        let applied = Cell::new(store.changes());
        let (worker, tally) = store.open_tally();
        Self {
            store: Arc::clone(store),
            route: Route::open(store),
            worker,
            tally,
            applied,
            nodes_key: store.names.nodes(),
            leavers: Rc::default(),
        }
    }

    pub(in crate::store) fn store(&self) -> &RedisStore {
        &self.store
    }

    /// Counts a plan that a remembered refusal answered.
    pub(in crate::store) fn note_remembered(&self) {
        self.tally.remembered();
    }

    /// Says whether what has these partition ids is kept apart, so that no one step decides it.
    pub(in crate::store) fn is_apart(&self, one: PartitionId, other: PartitionId) -> bool {
        one != other && !self.route.is_one_place()
    }

    /// Says whether Redis would not be asked for this now.
    pub(in crate::store) fn is_barred(&self, check: &Check<'_>) -> bool {
        let key = self.store.names.key(check.series_id, check.partition_id);
        self.route.breaker(&key, &self.store).state() == BreakerState::Open
    }

    /// Has Redis decide, from `now` on, a plan that is kept in one place.
    pub(in crate::store) async fn decide(
        &self,
        plan: &[Check<'_>],
        now: Timestamp,
    ) -> Result<Verdict, Lost> {
        self.ask(plan, Intent::Decide, now, wire::verdict).await
    }

    /// Has Redis say what a plan that is kept in one place would be answered.
    pub(in crate::store) async fn peek(
        &self,
        plan: &[Check<'_>],
    ) -> Result<SmallVec<[Decision; 4]>, Lost> {
        let now = self.store.clock.now();
        self.ask(plan, Intent::Peek, now, wire::peeks).await
    }

    /// Settles what is kept in one place.
    pub(in crate::store) async fn settle(
        &self,
        settlements: &[Settlement<'_>],
    ) -> Result<(), Lost> {
        let now = self.store.clock.manual_now();
        let call = wire::settle(settlements, &self.store.names, now);
        let Some(key) = call.keys.first() else {
            return Ok(());
        };
        let breaker = self.route.breaker(key, &self.store);
        let calling = pin!(self.route.call(Script::Settle, &call));
        let settled = self.guarded(&breaker, calling).await;
        if settled.as_ref().err() == Some(&Lost::Late) {
            self.route.suspect(key);
        }
        settled.map(drop)
    }

    /// What is done a few times a second instead of per request.
    pub(in crate::store) fn tend(self: &Rc<Self>) {
        let changes = self.store.changes();
        if self.applied.replace(changes) != changes {
            self.route.reconfigure(&self.store.in_force().redis);
        }
        self.tally.connected(self.route.connections());
        if !self.route.is_known() {
            return;
        }
        // A call that no request waits for is the best probe.
        let breaker = self.route.breaker(&self.nodes_key, &self.store);
        let is_probe = breaker.state() == BreakerState::HalfOpen;
        if is_probe || self.store.nodes.take_turn(self.store.clock.now()) {
            tokio::task::spawn_local(Rc::clone(self).announce());
        }
    }

    /// Says that this node is there, and notes how many are.
    async fn announce(self: Rc<Self>) {
        let nodes = &self.store.nodes;
        let call: Call = wire::announce(&self.store.names, nodes.id(), LIFETIME);
        let calling = pin!(self.route.call(Script::Announce, &call));
        let breaker = self.route.breaker(&self.nodes_key, &self.store);
        let reply: Result<Value, Lost> = self.guarded(&breaker, calling).await;
        if let Some(count) = reply.ok().and_then(|reply| wire::nodes(&reply).ok()) {
            let now = self.store.clock.now();
            nodes.saw(u32::try_from(count).unwrap_or(u32::MAX), now);
        }
    }

    /// Sends a plan, and reads the reply.
    async fn ask<'p, 's, T>(
        &self,
        plan: &'p [Check<'s>],
        intent: Intent,
        began: Timestamp,
        read: impl FnOnce(&'p [Check<'s>], &Reply) -> Result<T, BadReply>,
    ) -> Result<T, Lost> {
        let packed = wire::pack(plan, &self.store.names, intent);
        let Some(key) = packed.keys.first() else {
            return Err(Lost::Unsent);
        };
        let breaker = self.route.breaker(key, &self.store);
        let deciding = pin!(self.route.decide(packed));
        let reply = self.guarded(&breaker, deciding).await;
        let answer = reply.and_then(|reply| read(plan, &reply).map_err(|_| Lost::Failed));
        match &answer {
            Ok(_) => self.tally.answered(self.store.clock.now().since(began)),
            Err(lost) => {
                self.tally.lost(*lost);
                if *lost == Lost::Late
                    && let Some(check) = plan.first()
                {
                    let key = self.store.names.key(check.series_id, check.partition_id);
                    self.route.suspect(&key);
                }
            }
        }
        answer
    }

    /// Makes a call if its server may be asked, waits for it no longer than a decision may take,
    /// and has the breaker know.
    async fn guarded<T>(
        &self,
        breaker: &Breaker,
        call: Pin<&mut impl Future<Output = Result<T, LinkError>>>,
    ) -> Result<T, Lost> {
        let timeout = self.store.in_force().timeout;
        let permit = breaker.permit(self.worker).ok_or(Lost::Unasked)?;
        match within(timeout, call).await {
            Some(Ok(answer)) => {
                self.store.note(permit.succeed());
                Ok(answer)
            }
            Some(Err(error)) if is_of_the_plan(&error) => {
                self.store.note(permit.succeed());
                Err(Lost::Failed)
            }
            Some(Err(error)) => {
                permit.fail(&error);
                Err(match error {
                    LinkError::Unsent | LinkError::Overloaded => Lost::Unsent,
                    _ => Lost::Failed,
                })
            }
            None => {
                permit.fail(&"no answer in time");
                Err(Lost::Late)
            }
        }
    }
}

/// Waits for `call` no longer than `timeout`, and for a few turns of the runtime more, in which
/// what has arrived already is read.
///
/// The call stays where it is: it has room for a plan, which would be moved with it.
async fn within<F: Future>(timeout: Duration, mut call: Pin<&mut F>) -> Option<F::Output> {
    if let Ok(output) = tokio::time::timeout(timeout, call.as_mut()).await {
        return Some(output);
    }
    for _ in 0..LAST_TURNS {
        tokio::task::yield_now().await;
        let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
        if let Poll::Ready(output) = polled.await {
            return Some(output);
        }
    }
    None
}

/// Says whether the server is well, and cannot decide this plan alone: a key of it is taken, or holds
/// what no script wrote.
fn is_of_the_plan(error: &LinkError) -> bool {
    let is_of_a_key = |text: &str| {
        ["WRONGTYPE", "UNREADABLE"]
            .iter()
            .any(|code| text.starts_with(code))
    };
    matches!(error, LinkError::Server(text) if is_of_a_key(text))
}

/// Turns of the runtime in which an answer that has arrived makes its way to whoever waits.
const LAST_TURNS: u32 = 4;
