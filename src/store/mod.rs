//! Where counters live, behind one interface: decide, peek, settle, reset.
//!
//! A store decides a whole plan, all or nothing. [`Charge`] is what the decision spent: if it is
//! dropped, the units stay spent; [`Session::settle_later`] gives them back or spends more.
//!
//! `memory` keeps counters in this process. `redis` asks servers that a fleet shares, and `guarded`
//! makes it bearable to lose them; `memory` and `redis` do not depend on each other. `charge`,
//! `outcome`, `password`, `series` and `settings` are plain types for all of them.

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
pub use outcome::{Asked, PeekedCheck, StoreVerdict};
pub use resets::RESET_NOT_YET;
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

/// What the workers of a process share of their store. The stores are a closed set.
#[derive(Clone, Debug)]
pub enum Store {
    /// This process's memory, shared by its workers.
    Memory(Arc<MemoryStore>),
    /// Redis, shared by a fleet.
    Redis(Arc<GuardedStore>),
}

/// A worker's way to the store; lives on the worker's thread.
#[derive(Clone, Debug)]
pub enum Session {
    /// Decides at once.
    Memory(Arc<MemoryStore>),
    /// Decides over connections of its own.
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

    /// As [`decide`](Self::decide), but if nobody has to be asked, the outcome is written to `outcome`,
    /// where it stays: it is large.
    pub fn begin<'p>(
        &'p self,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<Asked<'p>> {
        match self {
            Self::Memory(memory) => {
                memory.decide_into(plan, outcome);
                None
            }
            Self::Redis(session) => session.begin(plan, outcome),
        }
    }

    /// Refuses a plan that is known here to be refused, without asking anybody; none if it may be admitted.
    pub fn refuse_at_once(&self, plan: &[Check<'_>]) -> Option<StoreVerdict> {
        match self {
            Self::Memory(memory) => memory.refuse(plan),
            Self::Redis(session) => session.refuse_at_once(plan),
        }
    }

    /// Says what each check of a plan would be answered, and spends nothing.
    pub async fn peek(&self, plan: &[Check<'_>]) -> SmallVec<[Decision; 4]> {
        let peeked = self.peek_checks(plan).await;
        peeked.into_iter().map(|check| check.decision).collect()
    }

    /// As [`peek`](Self::peek), and says which answers are not the store's.
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

    /// Gives back or spends more in every quota that was charged, without a wait, so that a drop can do
    /// it. `adjustment` is told the policy of the plan. What still stands is noted in the charge.
    ///
    /// The memory store does it at once. Redis is told soon, or as soon as it can be reached; if too many
    /// charges of this worker wait already, the charge stays as it is. A quota that refused, or that a
    /// refused plan charged, is not settled.
    pub fn settle_later(&self, charge: &mut Charge, adjustment: impl Fn(PlanPolicy) -> Adjustment) {
        self.refund_later(charge, adjustment, Refund::default());
    }

    /// As [`settle_later`](Self::settle_later); `refund` counts once all of it is done.
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

    /// Waits, not for long, until what is to be settled has been; returns how many charges have not. To be
    /// called before a worker ends, once its requests have.
    pub async fn finish(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::Redis(session) => session.finish().await,
        }
    }

    /// Reports to the store, within a few seconds, what this process has counted of synced quotas; returns of how many it
    /// could not. To be called once all workers have ended.
    pub async fn report_all(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::Redis(session) => session.report_all().await,
        }
    }

    /// Does what a worker's way to the store needs a few times a second.
    pub fn tick(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(session) => session.tick(),
        }
    }

    /// Gives back of the newest bucket, of the newest entry or of what a bucket lacks, whoever charged it, or
    /// spends without asking, in the quotas of these checks, which are of one partition.
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

    /// Makes one partition's quotas of these series whole again; returns when, by the clock that dates its charges.
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

    /// Reads the directives, unless this version is known.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn directives(&self, known: u64) -> Result<Option<DirectiveSet>, DirectiveError> {
        match self {
            Self::Memory(memory) => Ok(memory.directives.changed_since(known)),
            Self::Redis(session) => Box::pin(session.directives(known)).await,
        }
    }

    /// Keeps a directive, in the place of another one of its id.
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

    /// Removes directives; returns how many there were.
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

    /// Writes the directives that are held back, if the store has only older ones; returns whether it had.
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
    /// `memory` has numbered the series so far; nobody outside knows `secret`.
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

    /// Opens a worker's way to the store, on that worker's runtime.
    pub fn session(&self) -> Session {
        match self {
            Self::Memory(memory) => Session::Memory(Arc::clone(memory)),
            Self::Redis(store) => Session::Redis(Rc::new(GuardedSession::open(store))),
        }
    }

    /// Returns the id of a series: the same as long as the process lives.
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

    /// Says what the store holds.
    pub fn usage(&self) -> Usage {
        match self {
            Self::Memory(memory) => memory.usage(),
            Self::Redis(store) => store.usage(),
        }
    }

    /// Returns by which number gateways that share a Redis know this one.
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

    /// Reads the passwords in force again that came from files.
    pub fn refresh_passwords(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.refresh_passwords(),
        }
    }

    /// Notes a reset that was ordered elsewhere: what this node remembers of the partition is forgotten, and
    /// what was charged until `at` gives nothing back.
    pub fn note_reset(&self, series_id: SeriesId, partition_id: PartitionId, at: Timestamp) {
        match self {
            // Nobody shares it.
            Self::Memory(_) => {}
            Self::Redis(store) => store.note_reset(series_id, partition_id, at),
        }
    }

    /// Forgets a reset, because no charge is left from before.
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
