//! The limiter: decides whether a request may spend its policies' quotas.
//!
//! [`Limiter::decide`] identifies the client, plans what its route's policies ask of the store, lets the
//! store decide, and returns the result: a [`Decided`]. Once the request is answered,
//! [`Decided::settle`] gives back or spends what the head of the answer says; once the answer has ended,
//! [`Decided::settle_bodies`] does so with what the bodies say. The limiter knows no socket, no log and
//! no response; its caller makes those from the result.

mod context;
mod decided;
mod first_cost;
mod held;
mod known;
mod limit_info;
mod note_clients;
mod noted_units;
mod plan;
mod preflight;
mod preview;
mod reached;
mod settle;
mod thresholds;
mod top;

use std::cell::RefCell;

pub use context::{ClientNotes, Limiter};
pub use decided::{Admission, Decided, PolicyResult, Reservation};
pub use first_cost::Reserve;
pub use known::{Judged, JudgedPolicy, KnownClients, SeenClients, judge};
pub use limit_info::{LimitInfo, tightest};
pub use plan::BodyNeeds;
pub use preview::{PeekedCost, Preview, PreviewedQuota};
pub use reached::{ReachedThreshold, ThresholdObserver};
pub use settle::{ResponseFacts, Settler};
pub use top::{CountedClient, CountedEvents, NearClient, SeenRequest, TopClients};

use self::held::HeldUnits;
use self::plan::Planned;
use crate::clock::Micros;
use crate::cost::Numbers;
use crate::index::PolicyIndex;
use crate::metrics::PolicyOutcome;
use crate::request::{Facts, LatestPartition};
use crate::snapshot::AppliedPolicy;
use crate::store::{PendingVerdict, Session, StoreVerdict};

impl Limiter<'_> {
    /// Decides a request to which these policies apply, and notes in `decided` what each policy did.
    ///
    /// `latest` remembers the partition of the connection's latest request; `numbers` is what its body says, on routes
    /// that read bodies.
    pub async fn decide(
        &self,
        policies: &[AppliedPolicy],
        facts: &Facts<'_>,
        latest: &RefCell<LatestPartition>,
        numbers: Option<&Numbers>,
        decided: &mut Decided,
    ) -> Admission {
        let (mut planned, reserve) = (Planned::default(), numbers.map(Reserve::Read));
        let plan = self.plan(policies, facts, latest, reserve, &mut planned, decided);
        self.note_blocked(&planned, facts);
        if let Err(refused) = plan {
            decided.not_asked();
            return refused;
        }
        if planned.checks.is_empty() {
            return Admission::NOW;
        }
        match self.decide_at_once(&planned, facts, decided) {
            Ok(admission) => admission,
            Err(asked) => {
                decided.is_asked = true;
                self.conclude(&planned, facts, &mut asked.await, decided)
            }
        }
    }

    /// Refuses a request whose body has not been read, if it is known here that the request must be refused whatever
    /// the body says; `numbers` is what its head says of the body. Otherwise notes nothing in `decided`, and returns
    /// what must be read of the body.
    pub fn refuse_unread(
        &self,
        policies: &[AppliedPolicy],
        facts: &Facts<'_>,
        latest: &RefCell<LatestPartition>,
        numbers: &Numbers,
        decided: &mut Decided,
    ) -> Result<BodyNeeds, Admission> {
        let (mut planned, reserve) = (Planned::default(), Some(Reserve::Unread(numbers)));
        if let Err(refused) = self.plan(policies, facts, latest, reserve, &mut planned, decided) {
            self.note_blocked(&planned, facts);
            decided.not_asked();
            return Err(refused);
        }
        if let Some(mut outcome) = self.store.refuse_at_once(&planned.checks) {
            self.note_blocked(&planned, facts);
            return Err(self.conclude(&planned, facts, &mut outcome, decided));
        }
        *decided = Decided::default();
        Ok(planned.needs)
    }

    /// Refuses a request that is refused before any quota is asked, such as one whose client is unknown or blocked;
    /// otherwise notes nothing in `decided`.
    pub fn refuse_before_store(
        &self,
        policies: &[AppliedPolicy],
        facts: &Facts<'_>,
        latest: &RefCell<LatestPartition>,
        decided: &mut Decided,
    ) -> Option<Admission> {
        let mut planned = Planned::default();
        let Err(refused) = self.plan(policies, facts, latest, None, &mut planned, decided) else {
            *decided = Decided::default();
            return None;
        };
        self.note_blocked(&planned, facts);
        decided.not_asked();
        Some(refused)
    }

    /// Decides a plan if no server has to be asked; otherwise returns the future that asks.
    fn decide_at_once<'p>(
        &'p self,
        planned: &'p Planned<'_>,
        facts: &Facts<'_>,
        decided: &mut Decided,
    ) -> Result<Admission, PendingVerdict<'p>> {
        let mut outcome = StoreVerdict::default();
        match self.store.begin(&planned.checks, &mut outcome) {
            None => Ok(self.conclude(planned, facts, &mut outcome, decided)),
            Some(asked) => Err(asked),
        }
    }

    /// Notes the outcome of a plan, and returns what it means for the request.
    fn conclude(
        &self,
        planned: &Planned<'_>,
        facts: &Facts<'_>,
        outcome: &mut StoreVerdict,
        decided: &mut Decided,
    ) -> Admission {
        let admission = planned.admission(self.store, outcome, decided);
        self.note_outcome(planned, outcome, facts, decided);
        admission
    }
}

impl Planned<'_> {
    /// Notes the outcome of the plan, and returns what it means for the request.
    fn admission(
        &self,
        store: &Session,
        outcome: &mut StoreVerdict,
        decided: &mut Decided,
    ) -> Admission {
        match outcome {
            StoreVerdict::Unavailable { retry } => {
                self.note_unanswered(decided);
                Admission::Unavailable { retry: *retry }
            }
            StoreVerdict::Decided {
                verdict,
                charge,
                is_degraded,
            } => {
                decided.is_degraded |= *is_degraded;
                self.note(verdict, *is_degraded, decided);
                if !verdict.admit {
                    return Admission::Refused {
                        retry: verdict.retry,
                    };
                }
                decided.held = HeldUnits::take(store, charge);
                decided.charge = Some(std::mem::take(charge));
                Admission::Admitted { wait: verdict.wait }
            }
        }
    }
}

impl Admission {
    /// The request is neither refused nor delayed.
    const NOW: Self = Self::Admitted { wait: Micros(0) };
}

impl PolicyResult {
    /// Makes the result of a policy that did `outcome`, before anything else is known of it.
    fn new(policy: PolicyIndex, outcome: PolicyOutcome) -> Self {
        Self {
            policy,
            outcome,
            is_candidate_refused: false,
            is_near_limit: false,
            penalty: Micros(0),
            matched: None,
            tier: (0, 0),
            asked: 0,
            cost: 0,
            is_counted: false,
            is_cost_header_missing: false,
            reservation: None,
        }
    }
}
