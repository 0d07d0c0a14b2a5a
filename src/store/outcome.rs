//! The outcome of asking a store to decide a plan.

use std::pin::Pin;

use super::charge::Charge;
use super::holder::Holder;
use crate::clock::Micros;
use crate::limit::{Decision, Verdict};

/// The outcome of asking a store to decide a plan.
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
        /// What the plan spent.
        charge: Charge,
        /// Whether a quota was decided without the store that keeps it. If none was, a check without a
        /// decision was not evaluated, because the plan is refused in any case.
        is_degraded: bool,
    },
    /// The store could not answer, and a policy of the plan is `closed`.
    Unavailable {
        /// Time after which to try again.
        retry: Micros,
    },
}

/// The future in which Redis decides a plan. It is boxed, so that requests to the memory store need no room for it.
pub type PendingVerdict<'p> = Pin<Box<dyn Future<Output = StoreVerdict> + 'p>>;

/// The answer that a check of a plan would get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekedCheck {
    /// The answer.
    pub decision: Decision,
    /// Whether the answer is not the store's, but this node's in its place.
    pub is_degraded: bool,
    /// Gateways of the fleet that hold units in flight of the quota.
    pub holders: Vec<Holder>,
}

impl Default for StoreVerdict {
    /// Makes the outcome of an empty plan.
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
