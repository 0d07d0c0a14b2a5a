//! What the limiter decided about a request: facts from which others make answers, fields and records.

use std::fmt::Write as _;

use smallvec::SmallVec;

use super::context::Limiter;
use super::held::HeldUnits;
use super::limit_info::{LimitInfo, tightest};
use super::noted_units::NotedUnits;
use crate::clock::Micros;
use crate::cost::{MissingCost, PriceRow, Settled};
use crate::index::PolicyIndex;
use crate::limit::plan::{PlanPolicy, SeriesId};
use crate::limit::{Decision, PartitionId, Retry};
use crate::metrics::PolicyOutcome;
use crate::request::{Facts, redacted};
use crate::snapshot::{AppliedPolicy, Override, OverrideOrigin, Policy, PolicyQuota, Snapshot};
use crate::store::Charge;

/// What was decided about one request; indices are the snapshot's unless they say otherwise.
#[derive(Debug, Default)]
pub struct Decided {
    /// What each policy of the route did, in the route's order.
    pub policies: SmallVec<[PolicyResult; 2]>,
    /// Decisions of the quotas that the client is told of.
    pub(super) shown: SmallVec<[ShownDecision; 2]>,
    /// What an admitted request spent, until that is settled.
    pub(super) charge: Option<Charge>,
    /// The units in flight that the request holds.
    pub(super) held: Option<Box<HeldUnits>>,
    /// Whether a decision was made without the store that should have made it.
    pub is_degraded: bool,
    /// Whether the store was asked over the network.
    pub is_asked: bool,
    /// The overrides that matched, in the form that may be shown: printable ASCII.
    pub tiers: String,
    /// The quotas that refused, or would have.
    pub(super) refusing: SmallVec<[RefusingQuota; 2]>,
    /// Units that were noted for operators and may still change.
    pub(super) noted: Vec<NotedUnits>,
}

/// A quota that refused, or would have.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusingQuota {
    /// Which of [`Decided::policies`] it belongs to.
    pub(super) of: PlanPolicy,
    /// Which quota it is.
    pub(super) place: QuotaPlace,
}

/// Identifies one of a policy's quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaPlace {
    /// The quota at this index of the policy or of its override.
    Own(u16),
    /// The candidate at this index.
    Candidate(u16),
    /// The penalty.
    Penalty,
    /// The credits that take what the policy refuses.
    Spill,
}

impl QuotaPlace {
    /// Says whether the quota is the policy's or its override's, and not an addition to them.
    pub(super) fn is_own(self) -> bool {
        matches!(self, Self::Own(_))
    }
}

/// What a policy did to a request.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub struct PolicyResult {
    /// Index of the policy.
    pub policy: PolicyIndex,
    /// What the policy did.
    pub outcome: PolicyOutcome,
    /// Whether one of the policy's candidates would have refused.
    pub is_candidate_refused: bool,
    /// Whether the request was admitted, and little of one of the policy's quotas is left after it.
    pub is_near_limit: bool,
    /// How long the policy's penalty still runs for the client; 0 if it does not.
    pub penalty: Micros,
    /// The override that matched, and decided instead of the policy's own quotas.
    pub matched: Option<Override>,
    /// Where [`Decided::tiers`] shows the override: its start and its end.
    pub(super) tier: (u32, u32),
    /// Units that the request was to cost under this policy when it was decided.
    pub asked: u64,
    /// The same as `asked`; once the request is answered, the units that it did cost.
    pub cost: u64,
    /// Whether a quota of the policy counted the request.
    pub(super) is_counted: bool,
    /// Whether a header field of the answer should have reported the cost and did not.
    pub is_cost_header_missing: bool,
    /// What was reserved, if a body tells the cost.
    pub reservation: Option<Reservation>,
}

/// Units that a request reserves until the body of its answer has reported its cost.
#[derive(Clone, Copy, Debug)]
pub struct Reservation {
    /// How many units are reserved.
    pub units: u64,
    /// The prices at which they are reserved.
    pub(super) price_row: PriceRow,
    /// Whether they were given back because of the head of the answer.
    pub(super) is_given_back: bool,
    /// What they were settled to; none before that, and if they were not charged.
    pub settled: Option<Settled>,
}

/// What one quota decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownDecision {
    /// Which of [`Decided::policies`] the quota belongs to.
    pub(super) of: PlanPolicy,
    pub(super) place: QuotaPlace,
    /// The series under which the store keeps the quota's states.
    pub(super) series_id: SeriesId,
    pub(super) decision: Decision,
}

/// Whether a request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The request may go on.
    Admitted {
        /// How long the request is delayed first.
        wait: Micros,
    },
    /// An enforced quota refuses.
    Refused {
        /// When the same request would be admitted.
        retry: Retry,
    },
    /// The store cannot answer, and a policy is `closed`.
    Unavailable {
        /// Time after which to try again.
        retry: Micros,
    },
    /// A policy refuses requests that lack a part of its partition.
    Unidentified {
        /// Index of the policy.
        policy: PolicyIndex,
        /// Index of the partition's choice of which the request has no part.
        choice: usize,
    },
    /// An override of a policy blocks the client.
    Blocked {
        /// Index of the policy.
        policy: PolicyIndex,
    },
    /// The request's cost, as its client states it, is not a plain decimal.
    BadCost {
        /// Index of the policy.
        policy: PolicyIndex,
    },
    /// A policy has no price for what the request asks for.
    UnknownPrice {
        /// Index of the policy.
        policy: PolicyIndex,
    },
}

impl Decided {
    /// Yields what the client is told of the quotas that enforce or mark.
    pub fn infos<'s>(
        &'s self,
        snapshot: &'s Snapshot,
    ) -> impl Iterator<Item = LimitInfo<'s>> + Clone {
        self.shown.iter().map(|shown| self.info(snapshot, shown))
    }

    /// Yields what the client is told of the quotas of one of [`policies`](Self::policies).
    pub fn infos_of<'s>(
        &'s self,
        snapshot: &'s Snapshot,
        of: usize,
    ) -> impl Iterator<Item = LimitInfo<'s>> {
        let shown = self
            .shown
            .iter()
            .filter(move |shown| usize::from(shown.of) == of);
        shown.map(|shown| self.info(snapshot, shown))
    }

    /// Yields the quotas that refused; for a policy none of whose own quotas did, its penalty.
    pub fn violated<'s>(&'s self, snapshot: &'s Snapshot) -> impl Iterator<Item = &'s PolicyQuota> {
        let of = |one: &RefusingQuota| &self.policies[usize::from(one.of)];
        let is_own = |one: &RefusingQuota| one.place.is_own();
        let violated = self.refusing.iter().filter(move |one| {
            let is_counted = match one.place {
                QuotaPlace::Own(_) => true,
                QuotaPlace::Candidate(_) | QuotaPlace::Spill => false,
                QuotaPlace::Penalty => {
                    let mut all = self.refusing.iter();
                    !all.any(|other| other.of == one.of && is_own(other))
                }
            };
            is_counted && of(one).outcome == PolicyOutcome::Refused
        });
        violated.map(move |one| of(one).quota(snapshot, one.place))
    }

    /// Gives back the units in flight before the request ends, because its connection changes to another protocol.
    pub fn release_held(&mut self) {
        self.held = None;
    }

    /// Whether the policy that refused first does so because its penalty runs.
    pub fn is_punished(&self) -> bool {
        let refused = |one: &&PolicyResult| one.outcome == PolicyOutcome::Refused;
        let first = self.policies.iter().find(refused);
        first.is_some_and(|one| one.penalty > Micros(0))
    }

    fn info<'s>(&'s self, snapshot: &'s Snapshot, shown: &ShownDecision) -> LimitInfo<'s> {
        LimitInfo {
            quota: self.policies[usize::from(shown.of)].quota(snapshot, shown.place),
            decision: shown.decision,
        }
    }

    fn refuses(&self, shown: &ShownDecision) -> bool {
        let policy = &self.policies[usize::from(shown.of)];
        policy.outcome == PolicyOutcome::Refused && !shown.decision.admit
    }

    /// Describes a quota that refused because it can never hold what the request reserves, if there is one: printable
    /// ASCII without `"` and `\`.
    pub fn too_large(&self, snapshot: &Snapshot) -> Option<String> {
        self.shown.iter().find_map(|shown| {
            let result = &self.policies[usize::from(shown.of)];
            let reserved = result.reservation?.units;
            let capacity = result.quota(snapshot, shown.place).quota.capacity();
            let policy = &snapshot.policies[result.policy];
            let (name, unit) = (&policy.name, &policy.unit);
            let is_cause = result.outcome == PolicyOutcome::Refused && reserved > capacity;
            is_cause.then(|| format!("{name}: reserves {reserved} {unit}, quota {capacity}"))
        })
    }

    /// Adds the override that matched to [`Decided::tiers`]; returns its start and its end there.
    pub(super) fn note_tier(
        &mut self,
        limiter: &Limiter<'_>,
        policy: &Policy,
        matched: Override,
        (facts, partition_id): (&Facts<'_>, PartitionId),
    ) -> (u32, u32) {
        let (key, names) = (limiter.digest_key, limiter.snapshot.log.clients);
        let by = match (matched.origin, &policy.overrides) {
            (OverrideOrigin::File(_), Some(overrides)) => overrides.by.as_ref(),
            _ => None,
        };
        let mut client = redacted(key, by.unwrap_or(&policy.partition), facts, names);
        if by.is_none() && key == limiter.partition_key {
            client = client.identified(partition_id);
        }
        let place = |at| u32::try_from(at).expect("patterns are shown by a few hundred bytes");
        self.tiers.reserve(TIER_LEN);
        if !self.tiers.is_empty() {
            self.tiers.push_str(", ");
        }
        let start = self.tiers.len();
        let written = match (matched.origin, &policy.overrides) {
            (OverrideOrigin::File(pattern), Some(overrides)) => {
                write!(self.tiers, "{}", overrides.patterns.shown(pattern, client))
            }
            _ => write!(self.tiers, "{client}"),
        };
        written.expect("memory takes every byte");
        (place(start), place(self.tiers.len()))
    }

    /// Returns the override of a policy that matched, in the form that may be shown; empty if none did.
    pub fn tier(&self, of: &PolicyResult) -> &str {
        &self.tiers[of.tier.0 as usize..of.tier.1 as usize]
    }

    /// Yields the quotas that refused, or would have: for each, which of [`policies`](Self::policies) it
    /// belongs to, and whether it is a candidate of that policy.
    pub fn refusing<'s>(
        &'s self,
        snapshot: &'s Snapshot,
    ) -> impl Iterator<Item = (usize, &'s PolicyQuota, bool)> {
        self.refusing.iter().map(|one| {
            let quota = self.policies[usize::from(one.of)].quota(snapshot, one.place);
            let is_candidate = matches!(one.place, QuotaPlace::Candidate(_));
            (usize::from(one.of), quota, is_candidate)
        })
    }

    /// Returns the first quota that refused, otherwise the one with the smallest share left.
    pub fn decisive<'s>(&'s self, snapshot: &'s Snapshot) -> Option<LimitInfo<'s>> {
        let mut refusing = self.shown.iter().filter(|shown| self.refuses(shown));
        match refusing.next() {
            Some(shown) => Some(self.info(snapshot, shown)),
            None => tightest(self.infos(snapshot)).or_else(|| self.infos(snapshot).next()),
        }
    }

    /// Returns the index in the plan of the policy that is added next.
    pub(super) fn next(&self) -> PlanPolicy {
        PlanPolicy(u16::try_from(self.policies.len()).expect("the file bounds a plan"))
    }

    /// Notes that no quota was asked, because the request is refused in any case.
    pub(super) fn not_asked(&mut self) {
        for decision in &mut self.policies {
            if decision.outcome == PolicyOutcome::Admitted {
                decision.outcome = PolicyOutcome::NotAsked;
            }
        }
    }

    /// Returns the first policy that refused; none if none did.
    pub fn first_refusing<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s Policy> {
        let first = self.first_with(PolicyOutcome::Refused)?;
        Some(&snapshot.policies[first])
    }

    /// Returns the index of the first policy that did this.
    pub fn first_with(&self, outcome: PolicyOutcome) -> Option<PolicyIndex> {
        let found = self.policies.iter().find(|one| one.outcome == outcome);
        found.map(|one| one.policy)
    }
}

impl PolicyResult {
    /// Says why the response did not report the cost, if it should have.
    pub fn missing_cost(&self) -> Option<MissingCost> {
        let by_body = self.reservation.and_then(|one| one.settled?.missing_cost);
        by_body.or(self.is_cost_header_missing.then_some(MissingCost::Header))
    }

    /// Returns the units that the request was charged under this policy in the end: those that a quota counted, and
    /// those of a marked request, which are billed.
    pub fn charged(&self) -> u64 {
        if self.is_counted || self.outcome == PolicyOutcome::Marked {
            self.cost
        } else {
            0
        }
    }

    /// Notes what the request was to cost, and that this is reserved, if a body tells the cost.
    pub(super) fn reserve(&mut self, applied: &AppliedPolicy, price_row: PriceRow) {
        self.asked = self.cost;
        self.reservation = applied.body_cost.is_some().then_some(Reservation {
            units: self.cost,
            price_row,
            is_given_back: false,
            settled: None,
        });
    }

    /// Returns one of the quotas that decided.
    pub(super) fn quota<'s>(&self, snapshot: &'s Snapshot, place: QuotaPlace) -> &'s PolicyQuota {
        let policy = &snapshot.policies[self.policy];
        match place {
            QuotaPlace::Own(index) => &self.quotas(snapshot)[usize::from(index)],
            QuotaPlace::Candidate(index) => &policy.candidates[usize::from(index)],
            QuotaPlace::Penalty => {
                let penalty = policy.penalty.as_ref();
                penalty.expect("a plan has the penalties that policies have")
            }
            QuotaPlace::Spill => {
                let spill = policy.spill.map(|index| &snapshot.policies[index]);
                let own = spill.and_then(|spill| spill.grant.quotas().first());
                own.expect("a plan has the credits that policies spill to")
            }
        }
    }

    /// Returns the quotas that decided: the policy's own, or those of an override.
    pub(super) fn quotas<'s>(&self, snapshot: &'s Snapshot) -> &'s [PolicyQuota] {
        let policy = &snapshot.policies[self.policy];
        policy.grant_of(self.matched).quotas()
    }
}

/// Bytes that are set aside for the override that matched: enough for most.
const TIER_LEN: usize = 32;
