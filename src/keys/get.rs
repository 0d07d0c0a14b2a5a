//! What one client has left.

use super::apply::is_about;
use super::client::NamedClients;
use super::context::Keys;
use super::directive::hex;
use super::error::KeysError;
use super::report::{ClientReport, HolderReport, QuotaReport, directive_report};
use crate::config::value::BLOCKED;
use crate::index::PolicyIndex;
use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, PartitionId, Quota};
use crate::snapshot::{Grant, PolicyQuota};
use crate::store::Holder;

impl Keys<'_> {
    /// Returns what one client has left.
    pub async fn get(&self, policy: &str, value: &str) -> Result<ClientReport, KeysError> {
        let (index, clients) = self.clients(policy, value)?;
        clients.expect_one()?;
        Ok(self.report(index, &clients).await)
    }

    /// Returns a client's quotas and whether each is a candidate, `unlimited` or `blocked` if it has none, and notes.
    pub(super) fn quotas<'s>(
        &'s self,
        index: PolicyIndex,
        clients: &NamedClients,
    ) -> (Vec<(&'s PolicyQuota, bool)>, Option<String>, Vec<String>) {
        let policy = &self.snapshot.policies[index];
        let (mut notes, mut candidates) = (Vec::new(), &*policy.candidates);
        let named = |of| self.named(policy, of, clients);
        let matched = policy.find_override_of(&clients.ids, named);
        let grant = policy.grant_of(matched);
        match &policy.overrides {
            _ if matched.is_some() => candidates = &[],
            Some(overrides) if overrides.by.is_some() => notes.push(
                "`overrides_by` chooses an override for each request, so the policy's own quotas are \
                 shown"
                    .to_owned(),
            ),
            Some(_) if named(&policy.partition).is_none() => notes.push(
                "an id does not show which override of the file applies, so the policy's own \
                 quotas are shown: name the client by its value"
                    .to_owned(),
            ),
            _ => {}
        }
        let word = match grant {
            Grant::Quotas(_) => None,
            Grant::Unlimited => Some("unlimited".to_owned()),
            Grant::Blocked => Some(BLOCKED.to_owned()),
        };
        let real = grant.quotas().iter().map(|quota| (quota, false));
        let tried = candidates.iter().map(|quota| (quota, true));
        (real.chain(tried).collect(), word, notes)
    }

    /// Returns how clients are counted in one of their quotas, and in which series: by their own day if the file of
    /// overrides has it. If a claim names the day, only a request has it: so by each day on which something is spent.
    pub(super) async fn counted<'s>(
        &'s self,
        index: PolicyIndex,
        quota: &'s PolicyQuota,
        clients: &NamedClients,
    ) -> Vec<(&'s Quota, SeriesId)> {
        let policy = &self.snapshot.policies[index];
        let named = |of| self.named(policy, of, clients);
        let matched = policy.find_override_of(&clients.ids, named);
        let plain = vec![quota.of_day(policy.own_day_in_file(matched, named))];
        if policy.anchor_by.is_none() || quota.own.is_empty() {
            return plain;
        }
        let mut in_use = Vec::new();
        for one in quota.all() {
            let check = |id: &PartitionId| policy.check_alone(one, *id, 0);
            let checks: Vec<_> = clients.ids.iter().map(check).collect();
            let peeked = self.session.peek_checks(&checks).await;
            if peeked.iter().any(|check| check.decision.next.is_some()) {
                in_use.push(one);
            }
        }
        if in_use.is_empty() { plain } else { in_use }
    }

    /// Reports what clients have left of their quotas.
    pub(super) async fn report(&self, index: PolicyIndex, clients: &NamedClients) -> ClientReport {
        let policy = &self.snapshot.policies[index];
        let (quotas, grant, notes) = self.quotas(index, clients);
        let (mut reports, mut is_degraded) = (Vec::new(), false);
        let own = self.store.gateway();
        let holder = |holder: &Holder| HolderReport {
            gateway: holder.gateway.to_string(),
            is_this: Some(holder.gateway) == own,
            units: holder.units,
        };
        for (quota, is_candidate) in quotas {
            for (one, partition_id) in (self.counted(index, quota, clients).await.into_iter())
                .flat_map(|one| clients.ids.iter().map(move |id| (one, *id)))
            {
                let check = [policy.check_alone(one, partition_id, 0)];
                for peeked in self.session.peek_checks(&check).await {
                    is_degraded |= peeked.is_degraded;
                    let decision = peeked.decision;
                    let day = own_day(one.0).map(|day| format!(", from day {day}"));
                    reports.push(QuotaReport {
                        quota: format!("{}{}", quota.log_name, day.unwrap_or_default()),
                        is_candidate,
                        limit: (!one.0.is_balance()).then(|| one.0.capacity()),
                        remaining: decision.remaining,
                        debt: decision.debt,
                        next_seconds: decision.next.map(|next| next.0.div_ceil(US_PER_S)),
                        reset_seconds: decision.reset.0.div_ceil(US_PER_S),
                        held_by: peeked.holders.iter().map(holder).collect(),
                    });
                }
            }
        }
        let mut penalty = None;
        if let Some(part) = &policy.penalty {
            let check =
                |id: &PartitionId| policy.check_alone((&part.quota, part.series_id), *id, 0);
            let checks: Vec<_> = clients.ids.iter().map(check).collect();
            let peeked = self.session.peek_checks(&checks).await;
            is_degraded |= peeked.iter().any(|check| check.is_degraded);
            penalty = peeked.iter().filter_map(|check| check.decision.next).max();
        }
        let penalty_seconds = penalty.map(|left| left.0.div_ceil(US_PER_S));
        let named = self.named(policy, &policy.partition, clients);
        let directives = self.directives();
        let in_force = directives.iter().filter(|one| {
            let client = named.as_ref();
            (one.text.policy.as_deref()).is_none_or(|name| *name == *policy.name)
                && (clients.are_those_of(&one.text)
                    || client
                        .is_some_and(|client| is_about(one, policy, client, self.partition_key)))
        });
        ClientReport {
            policy: policy.name.to_string(),
            client: clients.shown.clone(),
            ids: clients.ids.iter().copied().map(hex).collect(),
            directives: in_force.filter_map(directive_report).collect(),
            grant,
            quotas: reports,
            penalty_seconds,
            is_degraded,
            notes,
        }
    }
}

/// Returns the day on which the client's own months begin, if the quota is counted by it.
fn own_day(quota: &Quota) -> Option<u8> {
    match quota.algorithm {
        Algorithm::Calendar(calendar) => {
            let shape = calendar.shape();
            shape.is_own.then_some(shape.anchor_day)
        }
        _ => None,
    }
}

const US_PER_S: u64 = 1_000_000;
