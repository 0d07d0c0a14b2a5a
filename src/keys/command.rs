//! Executes what `tollgate keys` asks for; the results are sent as JSON.

use std::collections::HashSet;
use std::time::Duration;

use super::client::NamedClients;
use super::context::Keys;
use super::directive::{Directive, DirectiveKind};
use super::error::KeysError;
use super::report::{ClientReport, DirectiveReport, Done, directive_report, time};
use crate::clock::{Micros, Timestamp};
use crate::config::compile::{GrantsBeside, checks_left_for, temporary_grant};
use crate::config::value::BLOCKED;
use crate::limit::plan::SeriesId;
use crate::limit::{Adjustment, Check};
use crate::snapshot::{Policy, PolicyMode};
use crate::store::directives::StoredDirective;
use crate::store::{Series, Store};

impl Keys<'_> {
    /// Lists the overrides and blocks in force.
    pub fn list(&self) -> Vec<DirectiveReport> {
        let directives = self.directives();
        let mut listed: Vec<&Directive> = directives.iter().collect();
        listed.sort_by_key(|one| (&one.text.policy, &one.text.shown, one.text.since_ms));
        listed.into_iter().filter_map(directive_report).collect()
    }

    /// Grants clients other quotas for a time.
    pub async fn set(
        &self,
        policy: &str,
        value: &str,
        quotas: &[String],
        lifetime: Duration,
    ) -> Result<Done, KeysError> {
        let (index, clients) = self.clients(policy, value)?;
        let parts = self.sources.parts();
        let temporary = self.snapshot.policies[index].temporary.as_ref();
        let beside = GrantsBeside {
            room: checks_left_for(self.snapshot, index),
            grants: temporary.map_or(&[], |of| &of.grants),
        };
        let mut number = |series: &Series| self.store.series_id(series);
        temporary_grant(
            &parts.file,
            self.snapshot,
            index,
            quotas,
            beside,
            &mut number,
        )
        .map_err(KeysError::Wrong)?;
        let done = format!("{} for {}", quotas.join(", "), clients.shown);
        let kind = DirectiveKind::Grant(quotas.to_vec());
        self.put(Some(policy), &clients, kind, lifetime, done).await
    }

    /// Ends the overrides that were set for clients.
    pub async fn unset(&self, policy: &str, value: &str) -> Result<Done, KeysError> {
        let (_, clients) = self.clients(policy, value)?;
        let is_set = |directive: &Directive| !directive.blocks();
        self.remove(policy, &clients, is_set, "override").await
    }

    /// Blocks clients under one policy, or under every policy that knows their parts.
    pub async fn block(
        &self,
        policy: &str,
        value: &str,
        is_everywhere: bool,
        lifetime: Duration,
    ) -> Result<Done, KeysError> {
        let (_, clients) = self.clients(policy, value)?;
        if is_everywhere && !clients.has_parts() {
            return Err(KeysError::Wrong(
                "an id is valid under one policy only: name the client by its value to block it everywhere"
                    .to_owned(),
            ));
        }
        let policy = (!is_everywhere).then_some(policy);
        let kind = DirectiveKind::Grant(vec![BLOCKED.to_owned()]);
        let done = format!("blocked {}", clients.shown);
        self.put(policy, &clients, kind, lifetime, done).await
    }

    /// Ends the blocks of clients, under one policy and everywhere.
    pub async fn unblock(&self, policy: &str, value: &str) -> Result<Done, KeysError> {
        let (_, clients) = self.clients(policy, value)?;
        self.remove(policy, &clients, Directive::blocks, "block")
            .await
    }

    /// Spends units of one client, or gives them back; returns what the client has then.
    pub async fn adjust(
        &self,
        policy: &str,
        value: &str,
        units: i64,
    ) -> Result<(ClientReport, Done), KeysError> {
        let (index, clients) = self.clients(policy, value)?;
        clients.expect_one()?;
        let (amount, client) = (units.unsigned_abs(), &clients.shown);
        let (adjustment, done) = if units < 0 {
            (
                Adjustment::Spend(amount),
                format!("spent {amount} of {client}"),
            )
        } else {
            (
                Adjustment::GiveBack(amount),
                format!("gave {amount} back to {client}"),
            )
        };
        let (quotas, grant, _) = self.quotas(index, &clients);
        if let Some(grant) = grant {
            return Err(KeysError::Wrong(format!(
                "{client} spends no quota: it is {grant}"
            )));
        }
        if quotas.iter().any(|(part, _)| part.quota.is_in_flight()) {
            let message =
                "units in flight cannot be adjusted: each comes back when its request ends";
            return Err(KeysError::Wrong(format!("`{policy}`: {message}")));
        }
        for partition_id in &clients.ids {
            let of = &self.snapshot.policies[index];
            let mut checks: Vec<Check<'_>> = Vec::new();
            for (quota, _) in &quotas {
                let counted = self.counted(index, quota, &clients).await;
                checks.extend(
                    counted
                        .into_iter()
                        .map(|one| of.check_alone(one, *partition_id, 0)),
                );
            }
            self.session.adjust(&checks, adjustment).await?;
        }
        let done = Done::now(done, &clients, vec![policy.to_owned()]);
        Ok((self.report(index, &clients).await, done))
    }

    /// Gives credits to one client; returns what the client has then.
    pub async fn grant(
        &self,
        policy: &str,
        value: &str,
        credits: u64,
    ) -> Result<(ClientReport, Done), KeysError> {
        let (index, clients) = self.clients(policy, value)?;
        clients.expect_one()?;
        let of = &self.snapshot.policies[index];
        let (quotas, _, _) = self.quotas(index, &clients);
        let balance = quotas.into_iter().find(|(part, _)| part.quota.is_balance());
        let Some((part, _)) = balance else {
            return Err(KeysError::Wrong(format!(
                "{} spends no credits under `{policy}`, expected one with `quota = \"credits\"`",
                clients.shown
            )));
        };
        for partition_id in &clients.ids {
            let check = of.check_alone((&part.quota, part.series_id), *partition_id, 0);
            self.session
                .adjust(&[check], Adjustment::GiveBack(credits))
                .await?;
        }
        let done = format!("granted {credits} credits to {}", clients.shown);
        let done = Done::now(done, &clients, vec![policy.to_owned()]);
        Ok((self.report(index, &clients).await, done))
    }

    /// Begins all windows of one client afresh; returns what the client had before. Credits and units in flight stay.
    ///
    /// First it announces the reset, and waits until every gateway has heard of it, so that none gives back what was
    /// charged before. Only then does it delete the counters.
    pub async fn reset(
        &self,
        policy: &str,
        value: &str,
    ) -> Result<(ClientReport, Done), KeysError> {
        let (index, clients) = self.clients(policy, value)?;
        clients.expect_one()?;
        let before = self.report(index, &clients).await;
        let policy = &self.snapshot.policies[index];
        let windows = || {
            policy
                .every_quota()
                .filter(|(quota, _)| quota.is_cleared_by_reset())
        };
        let lifetime = windows().map(|(quota, _)| quota.counts_for()).max();
        let lifetime = lifetime.ok_or_else(|| {
            let message = "has no window to reset: `grant` and `adjust` change credits, and units in flight come back \
                           when their requests end";
            KeysError::Wrong(format!("`{}` {message}", policy.name))
        })?;
        let directive = |at: Option<Timestamp>| {
            let kind = DirectiveKind::Reset(at.map(|at| at.0));
            let text = clients.directive(Some(&policy.name), kind, self.now_ms());
            // If the reset then fails, this directive ends soon, and charges can be given back again.
            let memory = at.map_or(Micros::from(RESET_WITHIN), |_| lifetime);
            Directive::new(text, self.clock.now() + memory)
        };
        if let Store::Redis(_) = self.store {
            self.put_directive(directive(None).stored()).await?;
            tokio::time::sleep(FLEET_HEARS_WITHIN).await;
        }
        let series: HashSet<SeriesId> = windows().map(|(_, series_id)| series_id).collect();
        let series: Vec<SeriesId> = series.into_iter().collect();
        let mut at = Timestamp(0);
        for partition_id in &clients.ids {
            at = at.max(self.session.reset(&series, *partition_id).await?);
        }
        self.put_directive(directive(Some(at)).stored()).await?;
        let done = format!("reset {}", clients.shown);
        let done = Done::now(done, &clients, vec![policy.name.to_string()]);
        Ok((before, done))
    }

    async fn put(
        &self,
        policy: Option<&str>,
        clients: &NamedClients,
        kind: DirectiveKind,
        lifetime: Duration,
        done: String,
    ) -> Result<Done, KeysError> {
        if lifetime.is_zero() || lifetime > LIFETIME_MAX {
            return Err(KeysError::Wrong(
                "the time is out of range, expected more than 0 and at most 366d".to_owned(),
            ));
        }
        let until = self.clock.now() + Micros::from(lifetime);
        let text = clients.directive(policy, kind, self.now_ms());
        let directive = Directive::new(text, until);
        self.put_directive(directive.stored()).await?;
        let known = self.snapshot.policies.iter().filter(|one| match policy {
            Some(policy) => *one.name == *policy,
            None => knows(one, &directive),
        });
        let known: Vec<&Policy> = known.collect();
        let idle = known
            .iter()
            .filter(|one| one.mode != Some(PolicyMode::Enforce));
        let notes =
            idle.map(|one| format!("`{}` refuses nobody: its mode is not `enforce`", one.name));
        let policies = known.iter().map(|one| one.name.to_string()).collect();
        Ok(Done {
            until: Some(time(until)),
            notes: notes.collect(),
            ..Done::now(done, clients, policies)
        })
    }

    async fn put_directive(&self, directive: StoredDirective) -> Result<(), KeysError> {
        if directive.text.len() > TEXT_MAX {
            return Err(KeysError::Wrong(format!(
                "the client takes more than {TEXT_MAX} bytes when stored, expected a shorter value"
            )));
        }
        let now = self.clock.now();
        self.session.put_directive(directive.clone(), now).await?;
        self.sources
            .comes_to(|all| all.iter().any(|one| one.stored() == directive))
            .await;
        Ok(())
    }

    async fn remove(
        &self,
        policy: &str,
        clients: &NamedClients,
        is_meant: impl Fn(&Directive) -> bool,
        what: &str,
    ) -> Result<Done, KeysError> {
        let directives = self.directives();
        let found = directives.iter().filter(|one| {
            let of_policy = one.text.policy.as_deref().is_none_or(|name| name == policy);
            matches!(one.text.kind, DirectiveKind::Grant(_))
                && of_policy
                && is_meant(one)
                && clients.are_those_of(&one.text)
        });
        let found: Vec<&Directive> = found.collect();
        if found.is_empty() {
            let message = format!("there is no {what} of {} to end", clients.shown);
            return Err(KeysError::Unknown(message));
        }
        let ids: Vec<String> = found.iter().map(|one| one.id.clone()).collect();
        self.session.remove_directives(&ids).await?;
        self.sources
            .comes_to(|all| !all.iter().any(|one| ids.contains(&one.id)))
            .await;
        let named = found.iter().map(|one| match &one.text.policy {
            Some(policy) => policy.clone(),
            None => "everywhere".to_owned(),
        });
        let done = format!("ended the {what} of {}", clients.shown);
        Ok(Done::now(done, clients, named.collect()))
    }
}

/// Whether a policy's partition has every part that a directive names.
fn knows(policy: &Policy, directive: &Directive) -> bool {
    let parts = directive.parts().unwrap_or_default();
    !parts.is_empty()
        && (parts.iter()).all(|(part, _)| policy.partition.parts().any(|own| own == part))
}

/// How long a reset may take after it was announced.
const RESET_WITHIN: Duration = Duration::from_mins(1);
/// Time within which every gateway of a fleet hears of a directive.
const FLEET_HEARS_WITHIN: Duration = Duration::from_secs(2);
/// Longest time for which a directive may be in force.
pub const LIFETIME_MAX: Duration = Duration::from_hours(366 * 24);
/// Most bytes of a directive's text.
const TEXT_MAX: usize = 4096;
