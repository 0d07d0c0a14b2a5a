//! Redis within a deadline and behind breakers: what a worker asks there, and what happens if Redis
//! does not answer.
//!
//! If the worker stands still, it notices a deadline late. An answer that has arrived by then is
//! taken: the server must not be blamed for what the worker did.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use smallvec::SmallVec;

use super::breaker::CircuitBreaker;
use super::counters::{Counters, Unanswered};
use super::fleet::LIFETIME;
use super::store::GuardedStore;
use crate::clock::Timestamp;
use crate::limit::{Check, Decision, PartitionId};
use crate::metrics::BreakerState;
use crate::store::charge::{Charge, ChargeEntry, Keeper};
use crate::store::outcome::Outcome;
use crate::store::redis::wire::Settlement;
use crate::store::redis::{CallError, RedisSession};

/// A worker's way to Redis, guarded; lives on the worker's thread.
#[derive(Debug)]
pub(super) struct Remote {
    store: Arc<GuardedStore>,
    redis: RedisSession,
    /// The breakers of the servers that were asked, by the names that `redis` gives the servers.
    breakers: RefCell<HashMap<Rc<str>, Rc<WorkerBreaker>>>,
    /// Which worker this is, for what is counted by worker.
    worker: usize,
    counters: Arc<CachePadded<Counters>>,
    /// The change of the settings that was applied last.
    applied: Cell<u64>,
}

/// A breaker of the process. Workers clone the `Rc` around it, not the `Arc`, whose count they would
/// contend for.
#[derive(Debug)]
struct WorkerBreaker(Arc<CircuitBreaker>);

impl Remote {
    /// Opens the worker's connections, on its runtime.
    pub(super) fn open(store: &Arc<GuardedStore>) -> Self {
        let applied = Cell::new(store.changes());
        let (worker, counters) = store.open_counters();
        Self {
            store: Arc::clone(store),
            redis: store.open_redis(),
            breakers: RefCell::default(),
            worker,
            counters,
            applied,
        }
    }

    pub(super) fn store(&self) -> &GuardedStore {
        &self.store
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Says whether two partitions are in different slots, so that no one step decides both.
    pub(super) fn is_cross_slot(&self, one: PartitionId, other: PartitionId) -> bool {
        self.redis.is_cross_slot(one, other)
    }

    /// Says whether Redis would not be asked about this check now.
    pub(super) fn is_barred(&self, check: &Check<'_>) -> bool {
        let server = self.redis.server(check.partition_id);
        self.breaker(server).state() == BreakerState::Open
    }

    /// Decides a plan that one step can decide, in Redis or in its place. `now` is when that began.
    pub(super) async fn decide(&self, plan: &[Check<'_>], now: Timestamp) -> Outcome {
        let deciding = pin!(self.redis.decide(plan));
        let Ok(verdict) = self.ask(plan, now, deciding).await else {
            return self.store.fallback().decide(plan);
        };
        let entries = (plan.iter().zip(&verdict.answers))
            .map(|(check, answer)| ChargeEntry {
                quota: *check.quota,
                series_id: check.series_id,
                partition_id: check.partition_id,
                charged: answer.charged,
                keeper: Keeper::Redis,
            })
            .collect();
        Outcome::Decided {
            verdict,
            charge: Charge { entries },
            is_degraded: false,
        }
    }

    /// Returns what Redis would answer a plan that one step can decide.
    pub(super) async fn peek(
        &self,
        plan: &[Check<'_>],
    ) -> Result<SmallVec<[Decision; 4]>, Unanswered> {
        let peeking = pin!(self.redis.peek(plan));
        self.ask(plan, self.store.clock.now(), peeking).await
    }

    /// Returns what a plan that one step can decide would be answered, by Redis or in its place.
    pub(super) async fn peek_anywhere(&self, plan: &[Check<'_>]) -> SmallVec<[Decision; 4]> {
        match self.peek(plan).await {
            Ok(decisions) => decisions,
            Err(_) => self.store.fallback().peek(plan),
        }
    }

    /// Settles what one step can settle.
    pub(super) async fn settle(&self, settlements: &[Settlement<'_>]) -> Result<(), Unanswered> {
        let Some(first) = settlements.first() else {
            return Ok(());
        };
        let settling = pin!(self.redis.settle(settlements));
        self.call(first.partition_id, settling).await
    }

    /// Does what is needed a few times a second, and not for each request.
    pub(super) fn tick(self: &Rc<Self>) {
        let changes = self.store.changes();
        if self.applied.replace(changes) != changes {
            self.redis.reconfigure(&self.store.settings().redis);
        }
        // If the server is gone, only this map still holds its name.
        (self.breakers.borrow_mut()).retain(|server, _| Rc::strong_count(server) > 1);
        self.counters.connected(self.redis.connections());
        if !self.redis.is_known() {
            return;
        }
        // A call for which no request waits is the best probe.
        let breaker = self.breaker(self.redis.nodes_server());
        let is_probe = breaker.state() == BreakerState::HalfOpen;
        if is_probe || self.store.fleet.take_turn(self.store.clock.now()) {
            tokio::task::spawn_local(Rc::clone(self).announce());
        }
    }

    /// Announces this node, and notes how many there are.
    async fn announce(self: Rc<Self>) {
        let fleet = &self.store.fleet;
        let breaker = self.breaker(self.redis.nodes_server());
        let announcing = pin!(self.redis.announce(fleet.id(), LIFETIME));
        if let Ok(count) = self.guard(&breaker, announcing).await {
            let now = self.store.clock.now();
            fleet.saw(u32::try_from(count).unwrap_or(u32::MAX), now);
        }
    }

    /// Asks about a plan, and counts how it went.
    async fn ask<T>(
        &self,
        plan: &[Check<'_>],
        began: Timestamp,
        asking: Pin<&mut impl Future<Output = Result<T, CallError>>>,
    ) -> Result<T, Unanswered> {
        let Some(first) = plan.first() else {
            return Err(Unanswered::Unsent);
        };
        let answer = self.call(first.partition_id, asking).await;
        match &answer {
            Ok(_) => self.counters.answered(self.store.clock.now().since(began)),
            Err(unanswered) => self.counters.unanswered(*unanswered),
        }
        answer
    }

    /// Makes a call to the server that has a partition.
    async fn call<T>(
        &self,
        partition_id: PartitionId,
        call: Pin<&mut impl Future<Output = Result<T, CallError>>>,
    ) -> Result<T, Unanswered> {
        let breaker = self.breaker(self.redis.server(partition_id));
        let answer = self.guard(&breaker, call).await;
        if matches!(answer, Err(Unanswered::Late)) {
            self.redis.suspect(partition_id);
        }
        answer
    }

    /// Makes a call if its server may be asked, waits for it no longer than a decision may take,
    /// and tells the breaker how it went.
    async fn guard<T>(
        &self,
        breaker: &CircuitBreaker,
        call: Pin<&mut impl Future<Output = Result<T, CallError>>>,
    ) -> Result<T, Unanswered> {
        let timeout = self.store.settings().timeout;
        let permit = breaker.permit(self.worker).ok_or(Unanswered::Unasked)?;
        match within(timeout, call).await {
            Some(Ok(answer)) => {
                self.store.note(permit.succeed());
                Ok(answer)
            }
            Some(Err(error)) if error.is_of_the_plan() => {
                self.store.note(permit.succeed());
                Err(Unanswered::Failed)
            }
            Some(Err(error)) => {
                permit.fail(&error);
                Err(match error {
                    CallError::Unsent | CallError::Overloaded => Unanswered::Unsent,
                    _ => Unanswered::Failed,
                })
            }
            None => {
                permit.fail(&"no answer in time");
                Err(Unanswered::Late)
            }
        }
    }

    /// Returns the breaker of a server.
    fn breaker(&self, server: Rc<str>) -> Rc<WorkerBreaker> {
        let mut breakers = self.breakers.borrow_mut();
        let open = |server: &Rc<str>| Rc::new(WorkerBreaker(self.store.breaker(server)));
        Rc::clone(breakers.entry(server).or_insert_with_key(open))
    }
}

impl Deref for WorkerBreaker {
    type Target = CircuitBreaker;
    fn deref(&self) -> &CircuitBreaker {
        &self.0
    }
}

/// Waits for `call` no longer than `timeout`, and then for a few more turns of the runtime, in which
/// an answer that has arrived already is read.
///
/// The call is pinned by the caller: it has room for a plan, which would be copied if it were moved.
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

/// Turns of the runtime that an answer takes from the socket to whoever waits for it.
const LAST_TURNS: u32 = 4;
