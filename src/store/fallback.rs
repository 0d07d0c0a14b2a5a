//! What becomes of a decision that its store cannot make: `local`, `open` or `closed`, ask by ask.
//!
//! `local` is the same algorithm in this node's memory, on this node's share of the quota. Over `n`
//! nodes that admits at most one more quota per window, or one unit per node if the quota is smaller
//! than the fleet.

use smallvec::SmallVec;

use super::{MemoryStore, Outcome};
use crate::clock::Micros;
use crate::limit::plan::{Mode, OnStoreFailure};
use crate::limit::{Algorithm, Answer, Ask, Decision, Plan, Quota, Retry, Tag, Verdict};
use crate::store::charge::Charge;

/// Decides in place of a store that cannot answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fallback<'s> {
    /// This node's own counts.
    pub(super) memory: &'s MemoryStore,
    /// What tags are changed with, so that nobody outside can choose where in memory they are kept.
    pub(super) tag_key: &'s [u8; 32],
    /// Nodes that share each quota.
    pub(super) nodes: u32,
    /// How long the store will not be asked.
    pub(super) cooldown: Micros,
}

impl Fallback<'_> {
    /// Decides a plan, or the part of one that cannot be decided where it should be.
    pub(super) fn decide(&self, plan: &[Ask<'_>]) -> Outcome {
        let unavailable = Outcome::Unavailable {
            retry: self.cooldown,
        };
        if plan.iter().any(is_closed) {
            return unavailable;
        }
        let scaled = self.scaled(plan);
        let locals = self.locals(plan, &scaled);
        if locals.is_empty() {
            let verdict = Verdict {
                admit: true,
                retry: Retry::NOW,
                wait: Micros(0),
                answers: plan.iter().map(|_| UNCOUNTED).collect(),
            };
            return Outcome::Decided {
                verdict,
                charge: Charge::default(),
                is_degraded: true,
            };
        }
        match self.memory.decide(&locals) {
            Outcome::Unavailable { .. } => unavailable,
            Outcome::Decided {
                verdict, charge, ..
            } => Outcome::Decided {
                verdict: self.spread(plan, verdict),
                charge,
                is_degraded: true,
            },
        }
    }

    /// Says what each ask would be answered; a quota that is not counted here is whole.
    pub(super) fn look(&self, plan: &[Ask<'_>]) -> SmallVec<[Decision; 4]> {
        let scaled = self.scaled(plan);
        let mut decisions = self.memory.look(&self.locals(plan, &scaled)).into_iter();
        let one = |ask: &Ask<'_>| match ask.on_store_failure {
            OnStoreFailure::Local => decisions.next().unwrap_or_else(|| whole(ask)),
            _ => whole(ask),
        };
        plan.iter().map(one).collect()
    }

    fn scaled(&self, plan: &[Ask<'_>]) -> SmallVec<[Quota; 4]> {
        let share = |ask: &Ask<'_>| share(ask.quota, self.nodes);
        plan.iter().map(share).collect()
    }

    /// Returns the asks that are decided here, each of its share of the quota.
    fn locals<'q>(&self, plan: &[Ask<'_>], scaled: &'q [Quota]) -> Plan<'q> {
        (plan.iter().zip(scaled))
            .filter(|(ask, _)| ask.on_store_failure == OnStoreFailure::Local)
            .map(|(ask, quota)| Ask {
                quota,
                slot: ask.slot,
                tag: self.tag(ask.tag),
                cost: ask.cost,
                mode: ask.mode,
                on_store_failure: OnStoreFailure::Local,
            })
            .collect()
    }

    /// Returns the tag under which a partition is counted here.
    pub(super) fn tag(&self, tag: Tag) -> Tag {
        let digest = blake3::keyed_hash(self.tag_key, &tag.bits().to_le_bytes());
        let mut first = [0; 16];
        first.copy_from_slice(&digest.as_bytes()[..16]);
        Tag::new(u128::from_le_bytes(first))
    }

    /// Gives each ask of `plan` its answer: those of the asks that were decided here, in order.
    fn spread(&self, plan: &[Ask<'_>], verdict: Verdict) -> Verdict {
        let mut decided = verdict.answers.into_iter();
        let mut retry = Retry::NOW;
        let mut answer = |ask: &Ask<'_>| {
            if ask.on_store_failure != OnStoreFailure::Local {
                return UNCOUNTED;
            }
            let mut answer = decided.next().unwrap_or(UNCOUNTED);
            if let Some(decision) = &mut answer.decision {
                // What the share can never hold the whole quota can.
                if decision.retry == Retry::Never && ask.cost <= ask.quota.capacity() {
                    decision.retry = Retry::After(self.cooldown);
                }
                if ask.mode == Mode::Enforce {
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

/// Says whether a plan with this ask cannot be decided without the store.
pub(super) fn is_closed(ask: &Ask<'_>) -> bool {
    // A shadow quota never refuses, not for want of a store either.
    ask.on_store_failure == OnStoreFailure::Closed && ask.mode == Mode::Enforce
}

/// Returns one node's share of a quota: at least one unit.
fn share(quota: &Quota, nodes: u32) -> Quota {
    let share = |units: u64| (units / u64::from(nodes.max(1))).max(1);
    Quota {
        limit: share(quota.limit),
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

/// Describes a quota of which nothing is spent.
fn whole(ask: &Ask<'_>) -> Decision {
    let admit = ask.cost <= ask.quota.capacity();
    Decision {
        admit,
        remaining: ask.quota.capacity(),
        next: None,
        reset: Micros(0),
        retry: if admit { Retry::NOW } else { Retry::Never },
        wait: Micros(0),
    }
}

/// The answer of an ask that is admitted without being counted.
pub(super) const UNCOUNTED: Answer = Answer {
    decision: None,
    charged: None,
};

#[cfg(test)]
mod tests;
