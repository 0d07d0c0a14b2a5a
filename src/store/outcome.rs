//! What came of asking a store to decide a plan.

use std::pin::Pin;

use super::charge::Charge;
use super::holder::Holder;
use crate::clock::Micros;
use crate::limit::{Decision, Verdict};

/// What came of asking a store to decide a plan.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every outcome is the large one, and boxing it would allocate per request"
)]
#[derive(Debug)]
pub enum StoreVerdict {
    /// The plan was decided.
    Decided {
        /// The answer.
        verdict: Verdict,
        /// What it spent.
        charge: Charge,
        /// Whether a quota was decided without the store it lives in. If not, a check without a decision
        /// was not evaluated, because the plan is refused in any case.
        is_degraded: bool,
    },
    /// The store could not answer, and a policy of the plan is `closed`.
    Unavailable {
        /// When to try again.
        retry: Micros,
    },
}

/// Redis is asked to decide a plan. Boxed, so that requests to the memory store need no room for it.
pub type Asked<'p> = Pin<Box<dyn Future<Output = StoreVerdict> + 'p>>;

/// What a check of a plan would be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekedCheck {
    /// The answer.
    pub decision: Decision,
    /// Whether the store did not say so: it is what this node would answer in its place.
    pub is_degraded: bool,
    /// Which gateways of the fleet hold units in flight.
    pub holders: Vec<Holder>,
}

impl Default for StoreVerdict {
    /// Makes the outcome of a plan that is empty.
    fn default() -> Self {
        Self::without_charge(Verdict::default())
    }
}

impl StoreVerdict {
    /// Returns the outcome of a plan that spends nothing.
    pub(super) fn without_charge(verdict: Verdict) -> Self {
        Self::Decided {
            verdict,
            charge: Charge::default(),
            is_degraded: false,
        }
    }
}
