//! Notes for operators: which clients there are, what they spend, and whom a policy refuses.

use super::context::{ClientNotes, Limiter};
use super::decided::Decided;
use super::noted_units::NotedUnits;
use super::plan::Planned;
use super::top::SeenRequest;
use crate::index::PolicyIndex;
use crate::limit::{Adjustment, Decision, PartitionId, Quota};
use crate::metrics::PolicyOutcome;
use crate::request::{Facts, redacted};
use crate::store::StoreVerdict;

impl Limiter<'_> {
    /// Notes a client that a policy has identified.
    pub(super) fn note_client(&self, policy: PolicyIndex, client: PartitionId, facts: &Facts<'_>) {
        if let Some(notes) = &self.notes {
            let known = &self.snapshot.policies[policy];
            notes.seen.note(policy, known, client, facts);
        }
    }

    /// Notes clients that policies block, for which no quota is asked.
    pub(super) fn note_blocked(&self, planned: &Planned<'_>, facts: &Facts<'_>) {
        let Some(notes) = &self.notes else {
            return;
        };
        for (policy, client) in &planned.blocked {
            let request = SeenRequest {
                is_refused: true,
                ..notes.request(*client)
            };
            self.note_request(notes, *policy, &request, facts);
        }
    }

    /// Notes what each policy of a plan made of a request.
    pub(super) fn note_outcome(
        &self,
        planned: &Planned<'_>,
        outcome: &StoreVerdict,
        facts: &Facts<'_>,
        decided: &mut Decided,
    ) {
        let StoreVerdict::Decided { verdict, .. } = outcome else {
            return;
        };
        // Without the store, decisions are about this node's share of a quota and say nothing of the whole quota.
        let is_whole = verdict.admit && !decided.is_degraded;
        for (of, own) in planned.own_quotas() {
            let result = &decided.policies[of];
            let policy = &self.snapshot.policies[result.policy];
            if is_whole && !policy.notify.is_empty() {
                self.observe_thresholds((planned, own.clone()), verdict, facts, result);
            }
            let Some(notes) = &self.notes else {
                continue;
            };
            let (checks, answers) = (&planned.checks[own.clone()], &verdict.answers[own]);
            let quotas = checks.iter().zip(answers).filter(|_| is_whole);
            let quotas =
                quotas.filter_map(|(check, answer)| Some((check.quota, answer.decision.as_ref()?)));
            let tightest = quotas.reduce(tighter);
            let request = SeenRequest {
                is_refused: matches!(
                    result.outcome,
                    PolicyOutcome::Refused | PolicyOutcome::ShadowRefused | PolicyOutcome::Marked
                ),
                spent: result.charged(),
                tightest,
                ..notes.request(checks[0].partition_id)
            };
            self.note_request(notes, result.policy, &request, facts);
            if policy.is_settled_by_head() || result.reservation.is_some() {
                let (client, units) = (request.client, request.spent);
                decided.noted.push(NotedUnits { of, client, units });
            }
        }
    }

    #[inline]
    fn note_request(
        &self,
        notes: &ClientNotes<'_>,
        policy: PolicyIndex,
        request: &SeenRequest<'_>,
        facts: &Facts<'_>,
    ) {
        let name = || self.shown_client(policy, facts);
        notes.top[policy].note(notes.seen.worker(), request, name);
    }

    /// Returns how a policy's client is shown. This is called once for a slot of a table, not per request.
    #[cold]
    fn shown_client(&self, policy: PolicyIndex, facts: &Facts<'_>) -> Box<str> {
        let partition = &self.snapshot.policies[policy].partition;
        let names = self.snapshot.log.clients;
        let shown = redacted(self.digest_key, partition, facts, names);
        shown.to_string().into()
    }
}

impl Decided {
    /// Yields the noted units that have changed since: the policy, the client, and the change.
    pub fn changed_units(&self) -> impl Iterator<Item = (PolicyIndex, PartitionId, Adjustment)> {
        self.noted.iter().filter_map(|noted| {
            let policy = &self.policies[noted.of];
            let change = match policy.charged().checked_sub(noted.units) {
                Some(more) => Adjustment::Spend(more),
                None => Adjustment::GiveBack(noted.units - policy.charged()),
            };
            let is_changed = policy.charged() != noted.units;
            is_changed.then_some((policy.policy, noted.client, change))
        })
    }
}

/// A quota, and what it decided.
type Answered<'q> = (&'q Quota, &'q Decision);

/// Returns the one of two quotas that has the smaller share left.
fn tighter<'q>(one: Answered<'q>, other: Answered<'q>) -> Answered<'q> {
    let left = |of: Answered<'_>, capacity_of: Answered<'_>| {
        u128::from(of.1.remaining) * u128::from(capacity_of.0.capacity())
    };
    if left(other, one) < left(one, other) {
        other
    } else {
        one
    }
}

impl ClientNotes<'_> {
    fn request(&self, client: PartitionId) -> SeenRequest<'static> {
        SeenRequest {
            client,
            at: self.seen.now(),
            is_refused: false,
            spent: 0,
            tightest: None,
        }
    }
}
