//! Where counters live, behind one interface: decide, peek, settle, reset.
//!
//! A store decides a whole plan, all or nothing. [`Charge`] is what the decision spent: if it is
//! dropped, the units stay spent; [`Session::settle_later`] gives them back or spends more.
//!
//! `memory` keeps counters in this process. `redis` asks servers that a fleet shares, and `guarded`
//! answers when they cannot; `memory` and `redis` do not depend on each other. `charge`, `outcome`,
//! `password`, `series` and `settings` are plain types that all of them use.

mod password;
pub mod settings;

mod charge;
pub mod directives;
mod holder;
mod outcome;
mod resets;
mod series;

mod guarded;
mod memory;
pub mod redis;

pub use charge::Charge;
pub use guarded::{GuardedStore, PassedLeasing};
pub use holder::{GatewayId, Holder};
pub use memory::{COUNTERS_VERSION, MemoryStore, SeriesStates};
pub use outcome::{PeekedCheck, PendingVerdict, StoreVerdict};
pub use resets::RESET_TIME_UNKNOWN;
pub use series::{Series, SeriesRole, Shape};
pub use settings::{Secret, Settings};

use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::clock::{Clock, Timestamp};
use crate::limit::plan::{PlanPolicy, SeriesId};
use crate::limit::{Adjustment, Check, Decision, PartitionId};
use crate::metrics::{Refund, Usage};
use directives::{DirectiveError, DirectiveSet, StoredDirective};
use guarded::GuardedSession;
use redis::wire::DirectiveAction;
use settings::Location;

/// The part of the store that the workers of a process share. The set of stores is closed.
#[derive(Clone, Debug)]
pub enum Store {
    /// This process's memory, shared by its workers.
    Memory(Arc<MemoryStore>),
    /// Redis, shared by a fleet.
    Redis(Arc<GuardedStore>),
}

/// A worker's handle to the store; it lives on the worker's thread.
#[derive(Clone, Debug)]
pub enum Session {
    /// Decides at once.
    Memory(Arc<MemoryStore>),
    /// Decides over the worker's own connections.
    Redis(Rc<GuardedSession>),
}

impl Session {
    /// Decides a plan, all or nothing.
    pub async fn decide(&self, plan: &[Check<'_>]) -> StoreVerdict {
        let mut outcome = StoreVerdict::default();
        match self.begin(plan, &mut outcome) {
            None => outcome,
            Some(asked) => asked.await,
        }
    }

    /// Begins to decide a plan: writes the outcome to `outcome` in place, because it is large, or
    /// returns a future that asks the servers.
    pub fn begin<'p>(
        &'p self,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<PendingVerdict<'p>> {
        match self {
            Self::Memory(memory) => {
                memory.decide_into(plan, outcome);
                None
            }
            Self::Redis(session) => session.begin(plan, outcome),
        }
    }

    /// Refuses a plan that is known here to be refused, without asking a server; returns none if it may be admitted.
    pub fn refuse_at_once(&self, plan: &[Check<'_>]) -> Option<StoreVerdict> {
        match self {
            Self::Memory(memory) => memory.refuse(plan),
            Self::Redis(session) => session.refuse_at_once(plan),
        }
    }

    /// Returns the answer that each check of a plan would get, and spends nothing.
    pub async fn peek(&self, plan: &[Check<'_>]) -> SmallVec<[Decision; 4]> {
        let peeked = self.peek_checks(plan).await;
        peeked.into_iter().map(|check| check.decision).collect()
    }

    /// Like [`peek`](Self::peek), but also says which answers are not the store's.
    pub async fn peek_checks(&self, plan: &[Check<'_>]) -> SmallVec<[PeekedCheck; 4]> {
        match self {
            Self::Memory(memory) => {
                let own = |decision| PeekedCheck {
                    decision,
                    is_degraded: false,
                    holders: Vec::new(),
                };
                memory.peek(plan).into_iter().map(own).collect()
            }
            Self::Redis(session) => Box::pin(session.peek(plan)).await,
        }
    }

    /// Gives back units or spends more in every quota that was charged. It never waits, so that a drop can call it.
    /// `adjustment` is called with the quota's policy in the plan. The charge keeps what is still spent.
    ///
    /// The memory store is changed at once. Redis is told soon, or as soon as it can be reached; if too
    /// many charges of this worker wait already, the units stay spent. A quota that refused is not
    /// settled, nor one that a refused plan charged.
    pub fn settle_later(&self, charge: &mut Charge, adjustment: impl Fn(PlanPolicy) -> Adjustment) {
        self.refund_later(charge, adjustment, Refund::default());
    }

    /// Like [`settle_later`](Self::settle_later), but counts `refund` once everything is settled.
    pub fn refund_later(
        &self,
        charge: &mut Charge,
        adjustment: impl Fn(PlanPolicy) -> Adjustment,
        refund: Refund,
    ) {
        let settled = charge.settle(adjustment);
        if settled.is_empty() {
            return;
        }
        match self {
            Self::Memory(memory) => {
                memory.settle(&settled);
                refund.count();
            }
            Self::Redis(session) => session.settle_later(settled, refund),
        }
    }

    /// Waits for a few seconds at most until all due charges are settled; returns how many are not. To be called before
    /// a worker ends, once its requests have ended.
    pub async fn finish(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::Redis(session) => session.finish().await,
        }
    }

    /// Reports to the store, within a few seconds, what this process has counted of synced quotas; returns how many
    /// quotas it could not report. To be called once all workers have ended.
    pub async fn report_all(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::Redis(session) => session.report_all().await,
        }
    }

    /// Does the session's periodic work. To be called a few times a second.
    pub fn tick(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(session) => session.tick(),
        }
    }

    /// Gives units back from the newest charge that counts, whoever made it
    /// ([`State::newest`](crate::limit::State::newest)), or spends units whether they fit or not, in the quotas of
    /// these checks, which are of one partition.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn adjust(
        &self,
        checks: &[Check<'_>],
        adjustment: Adjustment,
    ) -> Result<(), DirectiveError> {
        match self {
            Self::Memory(memory) => {
                memory.adjust(checks, adjustment);
                Ok(())
            }
            Self::Redis(session) => Box::pin(session.adjust(checks, adjustment)).await,
        }
    }

    /// Makes one partition's quotas of these series whole again; returns the time, by the clock that dates its charges.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn reset(
        &self,
        series_ids: &[SeriesId],
        partition_id: PartitionId,
    ) -> Result<Timestamp, DirectiveError> {
        match self {
            Self::Memory(memory) => Ok(memory.reset(series_ids, partition_id)),
            Self::Redis(session) => Box::pin(session.reset(series_ids, partition_id)).await,
        }
    }

    /// Reads the directives; returns none if `known` is their version.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn directives(&self, known: u64) -> Result<Option<DirectiveSet>, DirectiveError> {
        match self {
            Self::Memory(memory) => Ok(memory.directives.changed_since(known)),
            Self::Redis(session) => Box::pin(session.directives(known)).await,
        }
    }

    /// Stores a directive in place of another one with the same id.
    ///
    /// # Errors
    /// If there are too many, or the store cannot be asked.
    pub async fn put_directive(
        &self,
        directive: StoredDirective,
        now: Timestamp,
    ) -> Result<(), DirectiveError> {
        match self {
            Self::Memory(memory) => memory.directives.put(directive, now),
            Self::Redis(session) => {
                let put = DirectiveAction::Put(&directive);
                match Box::pin(session.change_directives(put)).await? {
                    0 => Err(DirectiveError::Full),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Removes the directives with these ids; returns how many there were.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn remove_directives(&self, ids: &[String]) -> Result<usize, DirectiveError> {
        match self {
            Self::Memory(memory) => Ok(memory.directives.remove(ids)),
            Self::Redis(session) => {
                let remove = DirectiveAction::Remove(ids);
                Box::pin(session.change_directives(remove)).await
            }
        }
    }

    /// Writes back the directives that this node holds, if the store has only older ones; returns whether it had.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn restore_directives(&self, held: &DirectiveSet) -> Result<bool, DirectiveError> {
        match self {
            Self::Memory(_) => Ok(false),
            Self::Redis(session) => {
                let restore = DirectiveAction::Restore(held);
                Ok(Box::pin(session.change_directives(restore)).await? > 0)
            }
        }
    }
}

impl Store {
    /// Opens the store that the settings name.
    ///
    /// `memory` has numbered the series so far; nobody outside the process knows `secret`.
    pub fn open(
        settings: &Settings,
        memory: Arc<MemoryStore>,
        clock: Clock,
        secret: &[u8; 32],
    ) -> Self {
        memory.set_bytes_max(settings.max_memory);
        match &settings.location {
            Location::Memory => Self::Memory(memory),
            Location::Redis(redis) => {
                let store = GuardedStore::new(redis, settings, memory, clock, secret);
                Self::Redis(Arc::new(store))
            }
        }
    }

    /// Opens a worker's session, on that worker's runtime.
    pub fn session(&self) -> Session {
        match self {
            Self::Memory(memory) => Session::Memory(Arc::clone(memory)),
            Self::Redis(store) => Session::Redis(Rc::new(GuardedSession::open(store))),
        }
    }

    /// Returns the id of a series, which stays the same as long as the process lives.
    pub fn series_id(&self, series: &Series) -> SeriesId {
        match self {
            Self::Memory(memory) => memory.series_id(series),
            Self::Redis(store) => store.series_id(series),
        }
    }

    /// Drops idle state and gives its memory back, a part of the store at a time. To be called several
    /// times a second.
    pub fn sweep(&self) {
        match self {
            Self::Memory(memory) => memory.sweep(),
            Self::Redis(store) => store.sweep(),
        }
    }

    /// Returns how much the store holds.
    pub fn usage(&self) -> Usage {
        match self {
            Self::Memory(memory) => memory.usage(),
            Self::Redis(store) => store.usage(),
        }
    }

    /// Returns the id by which gateways that share a Redis know this one; none for the memory store.
    pub fn gateway(&self) -> Option<GatewayId> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => Some(store.gateway()),
        }
    }

    /// Returns how many servers the workers have connections to.
    pub fn servers(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::Redis(store) => store.servers(),
        }
    }

    /// Applies those of the settings that may change while the process runs.
    pub fn reload(&self, settings: &Settings) {
        match self {
            Self::Memory(memory) => memory.set_bytes_max(settings.max_memory),
            Self::Redis(store) => store.reload(settings),
        }
    }

    /// Rereads the passwords in force that came from files.
    pub fn refresh_passwords(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.refresh_passwords(),
        }
    }

    /// Notes a reset that may have been ordered at another gateway: forgets what this node remembers of the partition,
    /// and lets charges until `at` give nothing back.
    pub fn note_reset(&self, series_id: SeriesId, partition_id: PartitionId, at: Timestamp) {
        match self {
            // No other gateway shares this store, and the reset was noted when it was made.
            Self::Memory(_) => {}
            Self::Redis(store) => store.note_reset(series_id, partition_id, at),
        }
    }

    /// Forgets a reset, because no charge from before it is left.
    pub fn forget_reset(&self, series_id: SeriesId, partition_id: PartitionId) {
        match self {
            Self::Memory(memory) => memory.forget_reset(series_id, partition_id),
            Self::Redis(store) => store.forget_reset(series_id, partition_id),
        }
    }

    /// Drops the states of every series that is not among `live`.
    pub fn retain(&self, live: &[SeriesId]) {
        match self {
            Self::Memory(memory) => memory.retain(live),
            Self::Redis(store) => store.retain(live),
        }
    }
}
