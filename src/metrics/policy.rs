//! What is counted per policy.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smallvec::SmallVec;

use super::outcome::PolicyOutcome;
use super::shard::{Sharded, SharedSeries, WorkerIndex, add};
use crate::cost::{MissingCost, Settled};

/// What is counted per policy.
#[derive(Clone, Debug)]
pub struct PolicyMetrics(pub(super) Sharded<PolicyShard>);

/// Units that are being given back to policies because of a response. They are counted once they are back, so they are
/// not if that fails.
#[derive(Debug, Default)]
pub struct Refund(SmallVec<[(PolicyMetrics, WorkerIndex, u64); 2]>);

#[derive(Debug, Default)]
pub(super) struct PolicyShard {
    pub(super) outcomes: [AtomicU64; PolicyOutcome::ALL.len()],
    pub(super) near_limit: AtomicU64,
    pub(super) refunded_units: AtomicU64,
    pub(super) reserved_units: AtomicU64,
    pub(super) charged_units: AtomicU64,
    pub(super) capped_costs: AtomicU64,
    pub(super) missing_costs: [AtomicU64; MissingCost::ALL.len()],
}

impl SharedSeries for PolicyMetrics {
    fn has_other_holders(&self) -> bool {
        self.0.has_other_holders()
    }
}

impl PolicyMetrics {
    pub(super) fn new(shards: usize) -> Self {
        Self(Sharded::new(shards))
    }

    /// Counts what the policy did to a request.
    pub fn decided(&self, worker: WorkerIndex, outcome: PolicyOutcome) {
        add(&self.0.of(worker).outcomes[outcome as usize], 1);
    }

    /// Counts an admitted request after which at least 80 % of a quota is used.
    pub fn near_limit(&self, worker: WorkerIndex) {
        add(&self.0.of(worker).near_limit, 1);
    }

    /// Counts the units that were reserved, and those that were charged in the end.
    pub fn charged(&self, worker: WorkerIndex, reserved: u64, charged: u64) {
        let shard = self.0.of(worker);
        add(&shard.reserved_units, reserved);
        add(&shard.charged_units, charged);
    }

    /// Counts a response whose body should have reported what the request cost.
    pub fn settled(&self, worker: WorkerIndex, settled: Settled) {
        let shard = self.0.of(worker);
        if settled.is_capped {
            add(&shard.capped_costs, 1);
        }
        if let Some(missing) = settled.missing_cost {
            add(&shard.missing_costs[missing as usize], 1);
        }
    }

    /// Counts a response whose header field should have reported what the request cost, but did not.
    pub fn cost_header_missing(&self, worker: WorkerIndex) {
        add(
            &self.0.of(worker).missing_costs[MissingCost::Header as usize],
            1,
        );
    }
}

impl PolicyMetrics {
    /// Returns how many requests had this outcome under the policy.
    pub fn total(&self, outcome: PolicyOutcome) -> u64 {
        self.0.sum(|shard| &shard.outcomes[outcome as usize])
    }

    /// Returns how many requests the policy admitted after which at least 80 % of a quota was used.
    pub fn near_limit_total(&self) -> u64 {
        self.0.sum(|shard| &shard.near_limit)
    }
}

impl Refund {
    /// Adds units that go back to a policy; `worker` counts them.
    pub fn add(&mut self, policy: &PolicyMetrics, worker: WorkerIndex, units: u64) {
        self.0.push((policy.clone(), worker, units));
    }

    /// Counts the units, because they are back.
    pub fn count(self) {
        for (policy, worker, units) in self.0 {
            (policy.0.of(worker).refunded_units).fetch_add(units, Relaxed);
        }
    }
}
