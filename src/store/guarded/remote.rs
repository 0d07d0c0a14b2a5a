//! Calls to Redis, with a deadline and behind breakers: what a worker asks there, and what happens if Redis does not
//! answer.
//!
//! A worker that has stalled notices a deadline late. An answer that has arrived by then is accepted: the server must
//! not be blamed for the worker's delay.

mod commands;
mod peeks;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::breaker::Permit;
use super::call_metrics::{CallMetrics, Unanswered};
use super::deadlines::{Deadlines, DecisionDeadline};
use super::fleet::LIFETIME;
use super::servers::{Server, WorkerServers};
use super::store::GuardedStore;
use crate::clock::{Micros, Timestamp};
use crate::limit::{AnyState, Check, PartitionId, Verdict};
use crate::metrics::BreakerState;
use crate::store::redis::wire::{AnnouncementReply, AskingGateway, Settlement};
use crate::store::redis::{CallError, Caller, GivenUp, LateReader, RedisSession};

/// A worker's guarded connections to Redis; lives on the worker's thread.
#[derive(Debug)]
pub(super) struct Remote {
    store: Arc<GuardedStore>,
    redis: RedisSession,
    /// The servers that were asked, with the names that `redis` gives them.
    servers: RefCell<Vec<(Rc<str>, Rc<HeldServer>)>>,
    deadlines: Deadlines,
    metrics: Arc<CachePadded<CallMetrics>>,
    /// The number of the settings' last change that was applied.
    applied: Cell<u64>,
}

/// A server of the process. Workers clone the `Rc` around it, not the `Arc`, whose count they would
/// contend for.
#[derive(Debug)]
struct HeldServer(Arc<Server>);

impl Remote {
    /// Opens the worker's connections, on its runtime.
    pub(super) fn open(store: &Arc<GuardedStore>) -> Self {
        let applied = Cell::new(store.changes());
        let (worker, metrics) = store.open_metrics();
        let observers =
            WorkerServers::new(Arc::clone(&store.servers), worker, Arc::clone(&metrics));
        Self {
            store: Arc::clone(store),
            redis: store.open_redis(Rc::new(observers)),
            servers: RefCell::default(),
            deadlines: Deadlines::start(),
            metrics,
            applied,
        }
    }

    pub(super) fn store(&self) -> &GuardedStore {
        &self.store
    }

    pub(super) fn metrics(&self) -> &CallMetrics {
        &self.metrics
    }

    /// Says whether two partitions are in different slots, so that no single step can decide both.
    pub(super) fn is_cross_slot(&self, one: PartitionId, other: PartitionId) -> bool {
        self.redis.is_cross_slot(one, other)
    }

    /// Says whether there is a server to ask: a connection to it, or a Cluster with known primaries.
    pub(super) fn is_connected(&self) -> bool {
        self.redis.is_known()
    }

    /// Returns the shortest time that the server that has a check's partition takes to answer.
    pub(super) fn round_trip(&self, check: &Check<'_>) -> Duration {
        let server = self.redis.server(check.partition_id);
        self.server(server).distance.round_trip()
    }

    /// Returns how long a decision may take.
    pub(super) fn timeout(&self) -> Duration {
        self.store.settings().timeout
    }

    /// Returns how long a request may wait before it is sent: so that it is answered in time after `round_trips`, with
    /// one more in reserve, and at most half of the timeout.
    pub(super) fn time_to_spare(&self, check: &Check<'_>, round_trips: u32) -> Duration {
        let needed = self.round_trip(check) * (round_trips + 1);
        let timeout = self.timeout();
        timeout.saturating_sub(needed).min(timeout / 2)
    }

    /// Says whether Redis is not asked about a partition now, because its server's breaker is open.
    pub(super) fn is_barred(&self, partition_id: PartitionId) -> bool {
        let server = self.redis.server(partition_id);
        self.server(server).breaker.state() == BreakerState::Open
    }

    /// Says whether the server that has a check's partition may evict balances.
    pub(super) fn evicts_all(&self, check: &Check<'_>) -> bool {
        let server = self.redis.server(check.partition_id);
        self.server(server).evicts_all()
    }

    /// Lets Redis decide, within `timeout`, a plan that one step can decide, with the units in flight that it asks for.
    /// A refusal is remembered.
    ///
    /// `verdict` must be new, and is filled in where it is, because it is large. `late_reader` returns a reader for the
    /// reply if the caller gives up.
    pub(super) async fn decide(
        &self,
        (plan, asking): (&[Check<'_>], Option<&AskingGateway>),
        (sent, timeout): (Timestamp, Duration),
        late_reader: &dyn Fn(GivenUp) -> Option<LateReader>,
        verdict: &mut Verdict,
    ) -> Result<(), Unanswered> {
        let caller = Caller::new(late_reader);
        let reply = {
            let deciding = pin!(self.redis.decide(plan, asking, &caller, verdict));
            self.ask(plan, sent, timeout, &caller, deciding).await?
        };
        if !verdict.admit {
            self.store.remember(plan, &reply, sent);
        }
        self.store.follow(plan, &reply, sent);
        Ok(())
    }

    /// Like [`decide`](Self::decide), but a refusal is not remembered.
    pub(super) async fn charge(
        &self,
        (plan, asking): (&[Check<'_>], Option<&AskingGateway>),
        (sent, timeout): (Timestamp, Duration),
        late_reader: &dyn Fn(GivenUp) -> Option<LateReader>,
    ) -> Result<Verdict, Unanswered> {
        if timeout.is_zero() {
            self.metrics.unanswered(Unanswered::Unsent);
            return Err(Unanswered::Unsent);
        }
        let (caller, mut verdict) = (Caller::new(late_reader), Verdict::default());
        {
            let deciding = pin!(self.redis.decide(plan, asking, &caller, &mut verdict));
            let reply = self.ask(plan, sent, timeout, &caller, deciding).await?;
            self.store.follow(plan, &reply, sent);
        }
        Ok(verdict)
    }

    /// Settles, within the timeout of a decision, what one step can settle; returns the entries that failed.
    pub(super) async fn settle(
        &self,
        settlements: &[Settlement<'_>],
    ) -> Result<Vec<(usize, CallError)>, Unanswered> {
        let timeout = self.timeout();
        self.settle_within(timeout, settlements).await
    }

    async fn settle_within(
        &self,
        timeout: Duration,
        settlements: &[Settlement<'_>],
    ) -> Result<Vec<(usize, CallError)>, Unanswered> {
        let caller = Caller::new(&|_| None);
        let settling = pin!(self.redis.settle(settlements, &caller));
        (self.settle_by(settlements, timeout, &caller, settling)).await
    }

    /// Like [`settle`](Self::settle), but within `timeout`; returns for each entry when it was settled, and the state
    /// after it.
    pub(super) async fn settle_and_read(
        &self,
        settlements: &[Settlement<'_>],
        timeout: Duration,
    ) -> Result<Vec<Result<(Timestamp, AnyState), CallError>>, Unanswered> {
        let caller = Caller::new(&|_| None);
        let settling = pin!(self.redis.settle_and_read(settlements, &caller));
        (self.settle_by(settlements, timeout, &caller, settling)).await
    }

    /// Announces how many units in flight this gateway holds, in one call.
    pub(super) async fn announce_units(
        &self,
        announcements: &[Settlement<'_>],
    ) -> Result<Vec<Result<AnnouncementReply, CallError>>, Unanswered> {
        let caller = Caller::new(&|_| None);
        let announcing = pin!(self.redis.announce_units(announcements, &caller));
        let timeout = self.timeout();
        (self.settle_by(announcements, timeout, &caller, announcing)).await
    }

    async fn settle_by<T>(
        &self,
        settlements: &[Settlement<'_>],
        timeout: Duration,
        caller: &Caller<'_>,
        call: Pin<&mut impl Future<Output = Result<Vec<T>, CallError>>>,
    ) -> Result<Vec<T>, Unanswered> {
        let Some(first) = settlements.first() else {
            return Ok(Vec::new());
        };
        let server = self.server(self.redis.server(first.partition_id));
        self.call(&server, first.partition_id, timeout, caller, call)
            .await
    }

    /// Does the periodic work of the connections. To be called several times a second.
    pub(super) fn tick(self: &Rc<Self>) {
        let changes = self.store.changes();
        if self.applied.replace(changes) != changes {
            self.redis.reconfigure(&self.store.settings().redis);
        }
        // If the server is gone, only this list still holds its name.
        (self.servers.borrow_mut()).retain(|(name, _)| Rc::strong_count(name) > 1);
        if !self.is_connected() {
            return;
        }
        // A call for which no request waits is the best probe.
        let server = self.server(self.redis.nodes_server());
        let is_probe = server.breaker.state() == BreakerState::HalfOpen;
        if is_probe || self.store.fleet.take_turn(self.store.clock.now()) {
            tokio::task::spawn_local(Rc::clone(self).announce());
        }
    }

    /// Announces this node, and notes how many nodes there are.
    async fn announce(self: Rc<Self>) {
        let fleet = &self.store.fleet;
        let server = self.server(self.redis.nodes_server());
        let caller = Caller::new(&|_| None);
        let announcing = pin!(self.redis.announce(fleet.id(), LIFETIME, &caller));
        let (timeout, sent) = (self.timeout(), self.store.clock.now());
        if let Ok(count) = self.guard(&server, timeout, &caller, announcing).await {
            let now = self.store.clock.now();
            fleet.saw(u32::try_from(count).unwrap_or(u32::MAX), sent, now);
        }
    }

    /// Asks about a plan, and counts how it went.
    async fn ask<T>(
        &self,
        plan: &[Check<'_>],
        began: Timestamp,
        timeout: Duration,
        caller: &Caller<'_>,
        asking: Pin<&mut impl Future<Output = Result<T, CallError>>>,
    ) -> Result<T, Unanswered> {
        let Some(first) = plan.first() else {
            return Err(Unanswered::Unsent);
        };
        let server = self.server(self.redis.server(first.partition_id));
        let answer = (self.call(&server, first.partition_id, timeout, caller, asking)).await;
        match &answer {
            Ok(_) => {
                let took = self.store.clock.now().since(began);
                self.metrics.answered(took);
                server.distance.note(took);
            }
            Err(unanswered) => self.metrics.unanswered(*unanswered),
        }
        answer
    }

    /// Notes how long an answer took that came too late; its plan was sent at `sent`.
    pub(super) fn note_late(&self, plan: &[Check<'_>], sent: Timestamp) {
        if let Some(first) = plan.first() {
            let server = self.server(self.redis.server(first.partition_id));
            (server.distance).note(self.store.clock.now().since(sent));
        }
    }

    /// Makes a call to the server that has a partition.
    async fn call<T>(
        &self,
        server: &Server,
        partition_id: PartitionId,
        timeout: Duration,
        caller: &Caller<'_>,
        call: Pin<&mut impl Future<Output = Result<T, CallError>>>,
    ) -> Result<T, Unanswered> {
        let answer = self.guard(server, timeout, caller, call).await;
        if matches!(answer, Err(Unanswered::Late)) {
            self.redis.suspect(partition_id);
        }
        answer
    }

    /// Makes a call if its server may be asked, and waits for it no longer than `timeout`.
    ///
    /// The breaker learns of failures from the connection, through the server's observer. From here it learns only the
    /// result of a probe.
    async fn guard<T>(
        &self,
        server: &Server,
        timeout: Duration,
        caller: &Caller<'_>,
        call: Pin<&mut impl Future<Output = Result<T, CallError>>>,
    ) -> Result<T, Unanswered> {
        let permit = server.breaker.permit().ok_or(Unanswered::Unasked)?;
        let answer = match within(self.deadlines.after(timeout), call).await {
            Some(answer) => answer.map_err(|error| unanswered(&error)),
            None if caller.is_sent() => {
                caller.given_up.set(GivenUp::Late);
                Err(Unanswered::Late)
            }
            None => Err(Unanswered::Unsent),
        };
        if let Permit::Probe(probe) = permit {
            match &answer {
                Err(Unanswered::Late | Unanswered::Failed | Unanswered::Disconnected) => {
                    probe.fail();
                }
                Err(Unanswered::Unsent | Unanswered::Unasked) => {}
                Ok(_) | Err(Unanswered::BadKey | Unanswered::CrossSlot) => probe.succeed(),
            }
        }
        answer
    }

    /// Returns a server by its name.
    fn server(&self, name: Rc<str>) -> Rc<HeldServer> {
        let mut servers = self.servers.borrow_mut();
        // By address: as long as a server is known, all its names are clones of one `Rc`.
        if let Some((_, server)) = (servers.iter()).find(|(known, _)| Rc::ptr_eq(known, &name)) {
            return Rc::clone(server);
        }
        let server = Rc::new(HeldServer(self.store.servers.server(&name)));
        servers.push((name, Rc::clone(&server)));
        server
    }
}

/// Returns what an error means to the caller.
fn unanswered(error: &CallError) -> Unanswered {
    match error {
        CallError::Unsent | CallError::Overloaded => Unanswered::Unsent,
        CallError::CrossSlot => Unanswered::CrossSlot,
        CallError::Disconnected | CallError::BadReply => Unanswered::Disconnected,
        error if error.is_of_the_plan() => Unanswered::BadKey,
        _ => Unanswered::Failed,
    }
}

impl Deref for HeldServer {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.0
    }
}

/// Waits for `call` until the deadline, and then for a few more turns of the runtime, in which an
/// answer that has arrived already is read.
///
/// The call is pinned by the caller: it has room for a plan, which would be copied if it were moved.
async fn within<F: Future>(
    deadline: DecisionDeadline<'_>,
    mut call: Pin<&mut F>,
) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = call.as_mut() => return Some(output),
        () = deadline => {}
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

/// Least time between two log lines about the same failure of a server.
pub(super) const LOG_EVERY: Micros = Micros::from_secs(60);
/// Turns of the runtime that an answer takes from the socket to the task that waits for it.
const LAST_TURNS: u32 = 4;
