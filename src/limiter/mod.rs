//! The limiter: decides whether a request may spend its policies' quotas.
//!
//! [`Limiter::decide`] identifies the client, plans what its route's policies ask of the store,
//! lets the store decide, and returns the result: a [`Decided`]. Once the request is answered,
//! [`Decided::settle`] gives back or spends what the answer says. It knows no socket, no log and no
//! response; its caller makes those of the result.

mod decided;
mod plan;
mod settle;

use std::cell::RefCell;

pub use decided::{Admission, Decided, LimitInfo, PolicyDecision, tightest};
pub use settle::Answer;

use crate::clock::Micros;
use crate::metrics::PolicyOutcome;
use crate::request::{Facts, LatestPartition};
use crate::snapshot::{Route, Snapshot};
use crate::store::{self, Session};

/// What decisions are made with.
#[derive(Clone, Copy, Debug)]
pub struct Limiter<'l> {
    /// The configuration in force.
    pub snapshot: &'l Snapshot,
    /// The key of partition ids.
    pub partition_key: &'l [u8; 32],
    /// The way to the counters.
    pub store: &'l Session,
}

impl Limiter<'_> {
    /// Decides a request of `route`, and notes in `decided` what each policy did.
    ///
    /// `latest` remembers the partition of the connection's latest request.
    pub async fn decide(
        &self,
        route: &Route,
        facts: &Facts<'_>,
        latest: &RefCell<LatestPartition>,
        decided: &mut Decided,
    ) -> Admission {
        let planned = match self.plan(route, facts, latest, decided) {
            Ok(planned) if planned.checks.is_empty() => return Admission::NOW,
            Ok(planned) => planned,
            Err(refused) => {
                decided.not_asked();
                return refused;
            }
        };
        match self.store.decide(&planned.checks).await {
            store::Outcome::Unavailable { retry } => {
                planned.note_unanswered(decided);
                Admission::Unavailable { retry }
            }
            store::Outcome::Decided {
                // Not moved: it is large.
                ref verdict,
                charge,
                is_degraded,
            } => {
                decided.is_degraded |= is_degraded;
                planned.note(verdict, is_degraded, decided);
                if !verdict.admit {
                    return Admission::Refused {
                        retry: verdict.retry,
                    };
                }
                decided.charge = Some(charge);
                Admission::Admitted { wait: verdict.wait }
            }
        }
    }
}

impl Admission {
    /// Nothing refuses it and nothing holds it.
    const NOW: Self = Self::Admitted { wait: Micros(0) };
}

impl PolicyDecision {
    /// Begins with a policy that decided by itself.
    fn new(policy: usize, outcome: PolicyOutcome) -> Self {
        Self {
            policy,
            outcome,
            is_candidate_refused: false,
            matched: None,
            cost: 0,
            refunded: 0,
            is_cost_untold: false,
        }
    }
}
