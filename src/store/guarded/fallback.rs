//! Decides plans that Redis cannot decide: as `local`, `open` or `closed`, check by check.
//!
//! `local` runs the same algorithm in this node's memory, on this node's share of the quota. All nodes together then
//! admit at most one more quota per window, or one unit per node if the fleet has more nodes than the quota has units.

use smallvec::SmallVec;

use crate::clock::Micros;
use crate::limit::partition_id::PartitionHasher;
use crate::limit::plan::{CheckMode, OnStoreFailure};
use crate::limit::{
    Algorithm, Check, CheckResult, Consistency, Decision, PartitionId, Plan, Quota, Retry, Verdict,
};
use crate::store::charge::Charge;
use crate::store::memory::MemoryStore;
use crate::store::outcome::StoreVerdict;

/// Decides in place of Redis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fallback<'s> {
    /// This node's own counts.
    pub(super) memory: &'s MemoryStore,
    /// Key of the partition ids used here, so that clients cannot choose where in memory they are counted.
    pub(super) partition_key: &'s [u8; 32],
    /// The number of nodes that share each quota.
    pub(super) nodes: u32,
    /// How long a server that fails is not asked.
    pub(super) cooldown: Micros,
}

impl Fallback<'_> {
    /// Decides a plan, or a part of one, that Redis did not decide.
    pub(super) fn decide(&self, plan: &[Check<'_>]) -> StoreVerdict {
        let unavailable = StoreVerdict::Unavailable {
            retry: self.cooldown,
        };
        if plan.iter().any(is_closed) {
            return unavailable;
        }
        let scaled = self.scaled(plan);
        let locals = self.locals(plan, &scaled);
        if locals.is_empty() {
            return StoreVerdict::Decided {
                verdict: Verdict::unanswered(plan),
                charge: Charge::default(),
                is_degraded: true,
            };
        }
        match self.memory.decide(&locals) {
            StoreVerdict::Unavailable { .. } => unavailable,
            StoreVerdict::Decided {
                verdict, charge, ..
            } => StoreVerdict::Decided {
                verdict: self.spread(plan, verdict),
                charge,
                is_degraded: true,
            },
        }
    }

    /// Returns what each check would be answered here; a quota that is not counted here is described as whole.
    pub(super) fn peek(&self, plan: &[Check<'_>]) -> SmallVec<[Decision; 4]> {
        let scaled = self.scaled(plan);
        let mut decisions = self.memory.peek(&self.locals(plan, &scaled)).into_iter();
        let one = |check: &Check<'_>| match check.on_store_failure {
            OnStoreFailure::Local => (decisions.next()).map_or_else(
                || whole(check),
                |decision| self.of_the_whole(check, decision),
            ),
            _ => whole(check),
        };
        plan.iter().map(one).collect()
    }

    fn scaled(&self, plan: &[Check<'_>]) -> SmallVec<[Quota; 4]> {
        let share = |check: &Check<'_>| share(check.quota, self.nodes);
        plan.iter().map(share).collect()
    }

    /// Returns the checks that are decided here, each with this node's share of its quota.
    fn locals<'q>(&self, plan: &[Check<'_>], scaled: &'q [Quota]) -> Plan<'q> {
        (plan.iter().zip(scaled))
            .filter(|(check, _)| check.on_store_failure == OnStoreFailure::Local)
            .map(|(check, quota)| Check {
                policy: check.policy,
                quota,
                series_id: check.series_id,
                partition_id: self.partition_id(check.partition_id),
                cost: check.cost,
                mode: check.mode,
                on_store_failure: OnStoreFailure::Local,
                consistency: Consistency::Exact,
            })
            .collect()
    }

    /// Returns the partition id under which a partition is counted here.
    pub(super) fn partition_id(&self, partition_id: PartitionId) -> PartitionId {
        let mut hasher = PartitionHasher::new(self.partition_key);
        hasher.part("", &partition_id.bits().to_le_bytes());
        hasher.finish()
    }

    /// Returns what a client is told of a decision on a share. A cost that the share can never hold may fit in the
    /// whole quota, so it is not refused for good.
    fn of_the_whole(&self, check: &Check<'_>, decision: Decision) -> Decision {
        let retry = match decision.retry {
            Retry::Never if check.cost <= check.quota.capacity() => Retry::After(self.cooldown),
            retry => retry,
        };
        Decision { retry, ..decision }
    }

    /// Gives each check of `plan` its answer; `verdict` has those of the checks that were decided here.
    fn spread(&self, plan: &[Check<'_>], verdict: Verdict) -> Verdict {
        let mut decided = verdict.answers.into_iter();
        let mut retry = Retry::NOW;
        let mut answer = |check: &Check<'_>| {
            if check.on_store_failure != OnStoreFailure::Local {
                return CheckResult::default();
            }
            let mut answer = decided.next().unwrap_or_default();
            if let Some(decision) = &mut answer.decision {
                *decision = self.of_the_whole(check, *decision);
                if check.mode == CheckMode::Enforce {
                    retry = retry.max(decision.retry);
                }
            }
            answer
        };
        let answers = plan.iter().map(&mut answer).collect();
        Verdict {
            retry,
            answers,
            ..verdict
        }
    }
}

/// Says whether a plan with this check cannot be decided without Redis.
pub(super) fn is_closed(check: &Check<'_>) -> bool {
    // A shadow quota never refuses, even if Redis is away.
    check.on_store_failure == OnStoreFailure::Closed && check.mode == CheckMode::Enforce
}

/// Returns one node's share of a quota: at least one unit.
fn share(quota: &Quota, nodes: u32) -> Quota {
    let share = |units: u64| (units / u64::from(nodes.max(1))).max(1);
    Quota {
        limit: share(quota.limit),
        // What is charged here is given back if Redis refuses the rest of the plan.
        can_come_back: true,
        algorithm: match quota.algorithm {
            Algorithm::Gcra { burst } => Algorithm::Gcra {
                burst: share(burst),
            },
            Algorithm::LeakyBucket { queue } => Algorithm::LeakyBucket {
                queue: share(queue + 1) - 1,
            },
            other => other,
        },
        ..*quota
    }
}

/// Describes a quota of which nothing has been spent.
fn whole(check: &Check<'_>) -> Decision {
    let admit = check.cost <= check.quota.whole();
    Decision {
        admit,
        remaining: check.quota.whole(),
        debt: 0,
        next: None,
        reset: Micros(0),
        retry: if admit { Retry::NOW } else { Retry::Never },
        wait: Micros(0),
    }
}

#[cfg(test)]
mod tests;
