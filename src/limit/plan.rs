//! A plan: all quotas that one request must satisfy together, decided all or nothing.
//!
//! [`decide`] peeks at every quota first and charges only if every enforced one admits, so "per day" is
//! never charged for a request that "per second" refused. The quotas of a policy that is only tried are
//! all charged or none, too. [`decide`] does not know where states live: a [`Ledger`] does.

use smallvec::SmallVec;

use super::charged::Charged;
use super::consistency::Consistency;
use super::partition_id::PartitionId;
use super::quota::{Count, Decision, Quota, Retry};
use crate::clock::{Micros, Timestamp};

/// One quota of a plan: which quota, whose, and how many units of it.
#[derive(Clone, Copy, Debug)]
pub struct Check<'s> {
    /// The policy of the plan that the check belongs to. The checks of one policy follow each other, its
    /// real quotas before its candidates.
    pub policy: PlanPolicy,
    /// The quota, from the snapshot.
    pub quota: &'s Quota,
    /// Where the store keeps this quota's states.
    pub series_id: SeriesId,
    /// The partition that the quota is counted for.
    pub partition_id: PartitionId,
    /// Units that the request spends; 0 spends nothing. For a penalty, 1 begins it even if nothing else refuses.
    pub cost: u64,
    /// Whether the quota can refuse.
    pub mode: CheckMode,
    /// What happens when the store cannot keep this quota's state.
    pub on_store_failure: OnStoreFailure,
    /// How exactly gateways that share the store keep the quota.
    pub consistency: Consistency,
}

impl<'s> Check<'s> {
    /// Returns the check by which a request spends one unit of an enforced quota of the plan's first policy. Gateways
    /// keep the quota exactly, or each for itself while the store fails.
    #[must_use]
    pub fn of(quota: &'s Quota, series_id: SeriesId, partition_id: PartitionId) -> Self {
        Self {
            policy: PlanPolicy(0),
            quota,
            series_id,
            partition_id,
            cost: 1,
            mode: CheckMode::Enforce,
            on_store_failure: OnStoreFailure::Local,
            consistency: Consistency::Exact,
        }
    }
}

/// A policy of a plan, counted from 0: not its index in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlanPolicy(pub u16);

impl PlanPolicy {
    /// Yields the indices of a plan's policies, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u16::MAX).map(Self)
    }
}

impl From<PlanPolicy> for usize {
    fn from(policy: PlanPolicy) -> Self {
        policy.0.into()
    }
}

/// Identifies the states of one quota in a store, by its policy, role, algorithm, shape and window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub u32);

/// Whether a quota's refusal counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckMode {
    /// Refuses what does not fit.
    #[default]
    Enforce,
    /// Counts and reports, never refuses.
    Shadow,
    /// Is tried in place of its policy's real quotas: counts what it would have admitted, and never
    /// refuses.
    Candidate,
    /// Takes the whole cost if the check before it refuses and the cost fits here. Never refuses by itself.
    Spill,
}

/// What a policy does when its store cannot answer or cannot hold one more partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// Limits by this node's own counts.
    #[default]
    Local,
    /// Admits without RateLimit fields.
    Open,
    /// Refuses with 503.
    Closed,
}

/// The quotas that one request must satisfy together.
pub type Plan<'s> = SmallVec<[Check<'s>; 4]>;

/// The answer of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether every enforced quota admits.
    pub admit: bool,
    /// The longest retry among the enforced quotas that refuse; `Retry::NOW` if admitted.
    pub retry: Retry,
    /// How long the admitted request is delayed: the longest wait among the enforced quotas.
    pub wait: Micros,
    /// One answer per check, in order.
    pub answers: SmallVec<[CheckResult; 4]>,
}

/// The answer of one check of a plan; the default one says that it is admitted without being counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckResult {
    /// The quota's decision; none if the quota is not counted: its state cannot be kept and its policy
    /// does not refuse for that, or a full Redis has no key of it.
    pub decision: Option<Decision>,
    /// What was charged, if it can be given back.
    pub charged: Option<Charged>,
}

/// Where [`decide`] finds the states of a plan's quotas.
///
/// Each check is committed once, after all calls of `peek`, which may be repeated.
pub trait Ledger {
    /// Brings the check's state to the ledger's time, and returns the time to decide at and whether its
    /// cost fits.
    fn peek(&mut self, index: usize, check: &Check<'_>) -> Peek;

    /// Charges the check's cost or leaves it; describes the state after that, with a `wait` of 0, and what was charged.
    /// An answer without a decision says that this check is admitted without being counted.
    fn commit(&mut self, index: usize, check: &Check<'_>, peek: Peek, step: Step) -> CheckResult;
}

/// What [`Ledger::peek`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// The time at which this quota is decided.
    pub at: Timestamp,
    /// Whether the cost fits.
    pub admit: bool,
}

/// What a plan does to one of its quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Spends the cost.
    Charge,
    /// Leaves the state as it is.
    Leave,
}

impl Verdict {
    /// Makes the answer of a plan whose checks are not counted: it is admitted.
    pub fn unanswered(plan: &[Check<'_>]) -> Self {
        Self {
            answers: plan.iter().map(|_| CheckResult::default()).collect(),
            ..Self::default()
        }
    }
}

impl Default for Verdict {
    /// Makes the answer of an empty plan: it is admitted. [`decide`] fills it in.
    fn default() -> Self {
        Self {
            admit: true,
            retry: Retry::NOW,
            wait: Micros(0),
            answers: SmallVec::new(),
        }
    }
}

/// Decides a plan over `ledger`, all or nothing. `verdict` must be new; it is filled in place, because it is large.
pub fn decide(ledger: &mut impl Ledger, plan: &[Check<'_>], verdict: &mut Verdict) {
    let mut peeks: SmallVec<[Peek; 4]> = SmallVec::new();
    for (index, check) in plan.iter().enumerate() {
        peeks.push(ledger.peek(index, check));
    }
    let fits = |index: usize| peeks[index].admit;
    let refusals = RefusingPolicies::of(plan, fits);
    let admit = refusals == RefusingPolicies::None;
    verdict.admit = admit;
    for (index, (check, &peek)) in plan.iter().zip(&peeks).enumerate() {
        let mut answer = if check.quota.is_penalty() {
            let begins = check.cost > 0 || is_punished(plan, index, fits);
            let cost = u64::from(begins);
            let answer = ledger.commit(index, &Check { cost, ..*check }, peek, Step::Charge);
            CheckResult {
                charged: None,
                ..answer
            }
        } else {
            let counts_all = check.quota.count == Count::All;
            let counts = counts_all
                || (peek.admit && refusals.lets_count(check) && all_admit(plan, &peeks, index));
            let step = if counts { Step::Charge } else { Step::Leave };
            ledger.commit(index, check, peek, step)
        };
        answer.charged = answer.charged.filter(|_| admit && peek.admit);
        if !peek.admit && spills(plan, index, fits) {
            answer.decision = answer.decision.map(Decision::spilled);
        }
        if let (Some(decision), CheckMode::Enforce) = (&mut answer.decision, check.mode) {
            decision.wait =
                (answer.charged).map_or(Micros(0), |charged| check.quota.wait(&charged));
            verdict.wait = verdict.wait.max(decision.wait);
            if !decision.admit {
                verdict.retry = verdict.retry.max(decision.retry);
            }
        }
        verdict.answers.push(answer);
    }
}

/// Says whether all quotas admit that are charged together with the one at `index`: those of its policy in the same
/// mode. Enforced ones need no look: if one refuses, the plan is refused or another quota takes the cost.
fn all_admit(plan: &[Check<'_>], peeks: &[Peek], index: usize) -> bool {
    let check = &plan[index];
    let is_mate = |other: &Check<'_>| other.policy == check.policy && other.mode == check.mode;
    match check.mode {
        CheckMode::Enforce => true,
        CheckMode::Spill => !peeks[index - 1].admit,
        CheckMode::Shadow | CheckMode::Candidate => {
            (plan.iter().zip(peeks)).all(|(other, peek)| peek.admit || !is_mate(other))
        }
    }
}

/// Says whether another quota takes what the one at `index` refuses; `fits` says for which checks the cost fits.
pub fn spills(plan: &[Check<'_>], index: usize, fits: impl Fn(usize) -> bool) -> bool {
    let spill = plan.get(index + 1);
    spill.is_some_and(|spill| spill.mode == CheckMode::Spill) && fits(index + 1)
}

/// Says whether the penalty at `index` is due: a quota of its policy and mode refuses, and may admit the cost at
/// another time; `fits` says for which checks the cost fits.
pub fn is_punished(plan: &[Check<'_>], index: usize, fits: impl Fn(usize) -> bool) -> bool {
    let penalty = &plan[index];
    let is_its = |other: &Check<'_>| {
        other.policy == penalty.policy && other.mode == penalty.mode && !other.quota.is_penalty()
    };
    let refuses = |(at, other): (usize, &Check<'_>)| {
        is_its(other) && !fits(at) && other.cost <= other.quota.capacity()
    };
    plan.iter().enumerate().any(refuses)
}

/// Which policies refuse a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusingPolicies {
    /// No policy: the plan is admitted.
    None,
    /// This one alone.
    Of(PlanPolicy),
    /// Several policies.
    Several,
}

impl RefusingPolicies {
    /// Finds the policies that refuse a plan; `fits` says for which checks the cost fits.
    pub fn of(plan: &[Check<'_>], fits: impl Fn(usize) -> bool) -> Self {
        let refuses = |(index, check): &(usize, &Check<'_>)| {
            check.mode == CheckMode::Enforce && !fits(*index) && !spills(plan, *index, &fits)
        };
        let refusing = plan.iter().enumerate().filter(refuses);
        refusing.fold(Self::None, |refusals, (_, check)| {
            refusals.and(check.policy)
        })
    }

    /// Adds a policy that refuses.
    fn and(self, policy: PlanPolicy) -> Self {
        match self {
            Self::None => Self::Of(policy),
            Self::Of(known) if known == policy => self,
            _ => Self::Several,
        }
    }

    /// Says whether a check that admits is charged: if no policy refuses, or for a candidate also if only its own does.
    pub fn lets_count(self, check: &Check<'_>) -> bool {
        match self {
            Self::None => true,
            Self::Of(policy) => check.mode == CheckMode::Candidate && check.policy == policy,
            Self::Several => false,
        }
    }
}

/// Most checks of a plan, because the scripts' arguments count them in one byte.
pub const CHECKS_MAX: usize = 255;
