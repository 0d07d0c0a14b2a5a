//! What `tollgate keys` asks for, decided here and answered as JSON.

use std::time::Duration;

use serde::Serialize;

use super::client::{DigestKeys, NamedClients};
use super::directive::{Directive, Order, hex};
use super::error::KeysError;
use super::in_force::{InForce, is_about, reset_states};
use crate::access_log::rfc3339;
use crate::clock::{Clock, Micros, Timestamp};
use crate::config::compile::temporary_grant;
use crate::config::file::File;
use crate::config::value::{BLOCKED, did_you_mean};
use crate::index::PolicyIndex;
use crate::limit::plan::{CheckMode, PlanPolicy};
use crate::limit::{Adjustment, Check, PartitionId};
use crate::request::NamedClient;
use crate::snapshot::{Grant, Policy, PolicyMode, PolicyQuota, Snapshot};
use crate::store::directives::StoredDirective;
use crate::store::{Series, Session, Store};

/// What is needed to act on single clients.
pub struct Keys<'k> {
    /// The configuration in force.
    pub snapshot: &'k Snapshot,
    /// The file that it was compiled from.
    pub file: &'k File,
    /// The key of partition ids.
    pub partition_key: &'k [u8; 32],
    /// The key of the digests that people see.
    pub digest_key: &'k [u8; 32],
    /// The way to the counters.
    pub session: &'k Session,
    /// The time.
    pub clock: &'k Clock,
    /// What is in force for a time, as it was when the command came.
    pub directives: &'k [Directive],
    /// What is in force now.
    pub in_force: &'k InForce,
    /// The store of the process.
    pub store: &'k Store,
}

/// What one client has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientReport {
    /// The policy.
    pub policy: String,
    /// The client, as logs show it.
    pub client: String,
    /// Its partition ids, in hex.
    pub ids: Vec<String>,
    /// What is in force for it for a time.
    pub directives: Vec<DirectiveReport>,
    /// What the policy or the file's override lets it do, if that is no quota: `unlimited` or `blocked`.
    pub grant: Option<String>,
    /// Every quota that it spends.
    pub quotas: Vec<QuotaReport>,
    /// Whether this node's share says so, because Redis cannot be asked.
    #[serde(rename = "degraded")]
    pub is_degraded: bool,
    /// What cannot be told.
    pub notes: Vec<String>,
}

/// What one quota of a client has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaReport {
    /// The quota, with its policy's name.
    pub quota: String,
    /// Whether it is tried beside the policy's own.
    #[serde(rename = "candidate")]
    pub is_candidate: bool,
    /// Units that it holds at most.
    pub limit: u64,
    /// Units that would be admitted now; one more at once is refused.
    pub remaining: u64,
    /// Seconds until there is more; none if it is whole.
    pub next_seconds: Option<u64>,
    /// Seconds until it is whole.
    pub reset_seconds: u64,
}

/// What is in force for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirectiveReport {
    /// The policy; none: every policy that knows the client's parts.
    pub policy: Option<String>,
    /// The client, as logs show it.
    pub client: String,
    /// Its partition ids, in hex, if it is one client of one policy.
    pub ids: Vec<String>,
    /// What is granted: quotas, `unlimited` or `blocked`.
    pub grant: Vec<String>,
    /// When it was ordered (RFC 3339).
    pub since: String,
    /// When it ends (RFC 3339).
    pub until: String,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// What, in words.
    pub done: String,
    /// For whom, as logs show it.
    pub client: String,
    /// Which form the value took: one address, a network, a glob, an id.
    pub form: String,
    /// The policies that it is about.
    pub policies: Vec<String>,
    /// When it ends (RFC 3339).
    pub until: Option<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

impl Keys<'_> {
    /// Says what one client has left.
    pub async fn get(&self, policy: &str, value: &str) -> Result<ClientReport, KeysError> {
        let (index, clients) = self.clients(policy, value)?;
        clients.expect_one()?;
        Ok(self.report(index, &clients).await)
    }

    /// Lists what is in force for a time.
    pub fn list(&self) -> Vec<DirectiveReport> {
        let mut listed: Vec<&Directive> = self.directives.iter().collect();
        listed.sort_by_key(|one| (&one.text.policy, &one.text.shown, one.text.since_ms));
        listed.into_iter().filter_map(directive_report).collect()
    }

    /// Lets clients do something else for a time.
    pub async fn set(
        &self,
        policy: &str,
        value: &str,
        quotas: &[String],
        lifetime: Duration,
    ) -> Result<Done, KeysError> {
        let (index, clients) = self.clients(policy, value)?;
        let mut number = |series: &Series| self.store.series_id(series);
        temporary_grant(self.file, self.snapshot, index, quotas, &mut number)
            .map_err(KeysError::Wrong)?;
        let done = format!("{} for {}", quotas.join(", "), clients.shown);
        let order = Order::Grant(quotas.to_vec());
        self.put(Some(policy), &clients, order, lifetime, done)
            .await
    }

    /// Ends what was set for clients.
    pub async fn unset(&self, policy: &str, value: &str) -> Result<Done, KeysError> {
        let (_, clients) = self.clients(policy, value)?;
        let is_set = |directive: &Directive| !directive.blocks();
        self.remove(policy, &clients, is_set, "override").await
    }

    /// Blocks clients: under one policy, or under each that knows the parts.
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
                "an id names a client of one policy alone, expected its value to block it everywhere"
                    .to_owned(),
            ));
        }
        let policy = (!is_everywhere).then_some(policy);
        let order = Order::Grant(vec![BLOCKED.to_owned()]);
        let done = format!("blocked {}", clients.shown);
        self.put(policy, &clients, order, lifetime, done).await
    }

    /// Ends the blocks of clients, under one policy and everywhere.
    pub async fn unblock(&self, policy: &str, value: &str) -> Result<Done, KeysError> {
        let (_, clients) = self.clients(policy, value)?;
        self.remove(policy, &clients, Directive::blocks, "block")
            .await
    }

    /// Spends units of one client, or gives them back.
    pub async fn adjust(
        &self,
        policy: &str,
        value: &str,
        units: i64,
    ) -> Result<ClientReport, KeysError> {
        let (index, clients) = self.clients(policy, value)?;
        clients.expect_one()?;
        let amount = units.unsigned_abs();
        let adjustment = if units < 0 {
            Adjustment::Spend(amount)
        } else {
            Adjustment::GiveBack(amount)
        };
        for (quota, _) in self.quotas(index, &clients).0 {
            for partition_id in &clients.ids {
                let check = self.check(index, quota, *partition_id);
                self.session.adjust(&check, adjustment).await?;
            }
        }
        Ok(self.report(index, &clients).await)
    }

    /// Begins all windows of one client afresh; returns what it had used.
    ///
    /// First every gateway is told, and has the time to hear of it: from then on none gives back what was charged
    /// before. Only then the counters go.
    pub async fn reset(
        &self,
        policy: &str,
        value: &str,
    ) -> Result<(ClientReport, Done), KeysError> {
        let (index, clients) = self.clients(policy, value)?;
        clients.expect_one()?;
        let before = self.report(index, &clients).await;
        let policy = &self.snapshot.policies[index];
        let lifetime = (policy.every_quota().map(|quota| quota.quota.memory()))
            .max()
            .unwrap_or_default();
        let until = self.clock.now() + lifetime;
        let directive = |at: Option<Timestamp>| {
            let order = Order::Reset(at.map(|at| at.0));
            let text = clients.directive(Some(&policy.name), order, self.now_ms());
            Directive::new(text, until)
        };
        if let Store::Redis(_) = self.store {
            self.put_directive(directive(None).stored()).await?;
            tokio::time::sleep(FLEET_HEARS_WITHIN).await;
        }
        let mut at = Timestamp(0);
        for (series_id, partition_id) in reset_states(&directive(None), self.snapshot) {
            at = at.max(self.session.reset(series_id, partition_id).await?);
        }
        self.put_directive(directive(Some(at)).stored()).await?;
        let done = Done {
            done: format!("reset {}", clients.shown),
            client: clients.shown.clone(),
            form: clients.form.clone(),
            policies: vec![policy.name.to_string()],
            until: None,
            notes: Vec::new(),
        };
        Ok((before, done))
    }

    async fn put(
        &self,
        policy: Option<&str>,
        clients: &NamedClients,
        order: Order,
        lifetime: Duration,
        done: String,
    ) -> Result<Done, KeysError> {
        if lifetime.is_zero() || lifetime > LIFETIME_MAX {
            return Err(KeysError::Wrong(
                "the time is out of range, expected more than 0 and at most 366d".to_owned(),
            ));
        }
        let until = self.clock.now() + Micros::from(lifetime);
        let text = clients.directive(policy, order, self.now_ms());
        let directive = Directive::new(text, until);
        self.put_directive(directive.stored()).await?;
        let known = self.snapshot.policies.iter().filter(|one| match policy {
            Some(policy) => *one.name == *policy,
            None => knows(one, &directive),
        });
        let known: Vec<&Policy> = known.collect();
        let notes = known
            .iter()
            .filter(|one| one.mode != Some(PolicyMode::Enforce));
        let notes =
            notes.map(|one| format!("`{}` refuses nobody: its mode is not `enforce`", one.name));
        Ok(Done {
            done,
            client: clients.shown.clone(),
            form: clients.form.clone(),
            policies: known.iter().map(|one| one.name.to_string()).collect(),
            until: Some(time(until)),
            notes: notes.collect(),
        })
    }

    async fn put_directive(&self, directive: StoredDirective) -> Result<(), KeysError> {
        if directive.text.len() > TEXT_MAX {
            return Err(KeysError::Wrong(format!(
                "the client takes more than {TEXT_MAX} bytes to write down, expected a shorter value"
            )));
        }
        Ok(self
            .session
            .put_directive(directive, self.clock.now())
            .await?)
    }

    async fn remove(
        &self,
        policy: &str,
        clients: &NamedClients,
        is_meant: impl Fn(&Directive) -> bool,
        what: &str,
    ) -> Result<Done, KeysError> {
        let found = self.directives.iter().filter(|one| {
            let of_policy = one.text.policy.as_deref().is_none_or(|name| name == policy);
            matches!(one.text.order, Order::Grant(_))
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
        self.in_force
            .comes_to(|all| !all.iter().any(|one| ids.contains(&one.id)))
            .await;
        let named = found.iter().map(|one| match &one.text.policy {
            Some(policy) => policy.clone(),
            None => "everywhere".to_owned(),
        });
        Ok(Done {
            done: format!("ended the {what} of {}", clients.shown),
            client: clients.shown.clone(),
            form: clients.form.clone(),
            policies: named.collect(),
            until: None,
            notes: Vec::new(),
        })
    }

    fn clients(&self, policy: &str, value: &str) -> Result<(PolicyIndex, NamedClients), KeysError> {
        let mut policies = self.snapshot.policies.iter_enumerated();
        let Some((index, found)) = policies.find(|(_, one)| *one.name == *policy) else {
            let known = self.snapshot.policies.iter().map(|one| &*one.name);
            let hint = did_you_mean(policy, known).map(|hint| format!("; {hint}"));
            let hint = hint.unwrap_or_default();
            return Err(KeysError::Unknown(format!(
                "there is no policy `{policy}`{hint}"
            )));
        };
        let keys = DigestKeys {
            partition: self.partition_key,
            shown: self.digest_key,
        };
        let clients = NamedClients::read(value, found, self.snapshot, keys);
        Ok((index, clients.map_err(KeysError::Wrong)?))
    }

    /// Returns the quotas that a client spends, and whether each is a candidate; and what is not a quota.
    fn quotas<'s>(
        &'s self,
        index: PolicyIndex,
        clients: &NamedClients,
    ) -> (Vec<(&'s PolicyQuota, bool)>, Option<String>, Vec<String>) {
        let policy = &self.snapshot.policies[index];
        let (mut notes, mut candidates) = (Vec::new(), &*policy.candidates);
        let mut grant = &policy.grant;
        let named = self.named(policy, clients);
        let temporary = policy.temporary.as_ref().and_then(|of| {
            let grant = of.find_named(&clients.ids, named.as_ref());
            grant.map(|grant| &of.grants[grant])
        });
        if let Some(granted) = temporary {
            (grant, candidates) = (granted, &[]);
        } else if let Some(overrides) = &policy.overrides {
            match (&overrides.by, named) {
                (None, Some(client)) => {
                    if let Some(found) = overrides.patterns.find_named(&client) {
                        let granted = overrides.grant_of[found] as usize;
                        (grant, candidates) = (&overrides.grants[granted], &[]);
                    }
                }
                (Some(_), _) => notes.push(
                    "which override of the file applies, `overrides_by` decides for each request: \
                     the policy's own quotas are shown"
                        .to_owned(),
                ),
                (None, None) => notes.push(
                    "an id does not tell which override of the file applies: the policy's own \
                     quotas are shown; name the client by its value"
                        .to_owned(),
                ),
            }
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

    /// Returns the client, if its values are known and it is one; where listeners differ in what of an address is
    /// one client, as the first one has it.
    fn named<'c>(
        &'c self,
        policy: &'c Policy,
        clients: &'c NamedClients,
    ) -> Option<NamedClient<'c>> {
        let prefixes = self.snapshot.listeners.first()?.identity.prefixes;
        NamedClient::of(&policy.partition, clients.pattern()?, prefixes)
    }

    fn check<'s>(
        &'s self,
        index: PolicyIndex,
        quota: &'s PolicyQuota,
        partition_id: PartitionId,
    ) -> Check<'s> {
        Check {
            quota: &quota.quota,
            series_id: quota.series_id,
            partition_id,
            cost: 0,
            mode: CheckMode::Enforce,
            policy: PlanPolicy(0),
            on_store_failure: self.snapshot.policies[index].on_store_failure,
        }
    }

    async fn report(&self, index: PolicyIndex, clients: &NamedClients) -> ClientReport {
        let (quotas, grant, notes) = self.quotas(index, clients);
        let (mut reports, mut is_degraded) = (Vec::new(), false);
        for (quota, is_candidate) in quotas {
            for partition_id in &clients.ids {
                let check = [self.check(index, quota, *partition_id)];
                for peeked in self.session.peek_checks(&check).await {
                    is_degraded |= peeked.is_degraded;
                    let decision = peeked.decision;
                    reports.push(QuotaReport {
                        quota: quota.log_name.to_string(),
                        is_candidate,
                        limit: quota.quota.capacity(),
                        remaining: decision.remaining,
                        next_seconds: decision.next.map(|next| next.0.div_ceil(US_PER_S)),
                        reset_seconds: decision.reset.0.div_ceil(US_PER_S),
                    });
                }
            }
        }
        let policy = &self.snapshot.policies[index];
        let named = self.named(policy, clients);
        let in_force = self.directives.iter().filter(|one| {
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
            is_degraded,
            notes,
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().0 / US_PER_MS
    }
}

/// Whether a policy's partition has every part that a directive is about.
fn knows(policy: &Policy, directive: &Directive) -> bool {
    let parts = directive.parts().unwrap_or_default();
    !parts.is_empty()
        && (parts.iter()).all(|(part, _)| policy.partition.parts().any(|own| own == part))
}

/// Describes what is in force for a time; none for a reset, which is over.
fn directive_report(directive: &Directive) -> Option<DirectiveReport> {
    let Order::Grant(grant) = &directive.text.order else {
        return None;
    };
    Some(DirectiveReport {
        policy: directive.text.policy.clone(),
        client: directive.text.shown.clone(),
        ids: directive.text.ids.clone(),
        grant: grant.clone(),
        since: time(Timestamp(directive.text.since_ms * US_PER_MS)),
        until: time(directive.until),
    })
}

fn time(at: Timestamp) -> String {
    String::from_utf8_lossy(&rfc3339(at)).into_owned()
}

/// How soon every gateway of a fleet has heard of a directive.
const FLEET_HEARS_WITHIN: Duration = Duration::from_secs(2);
/// How long a directive may be in force at most.
pub const LIFETIME_MAX: Duration = Duration::from_hours(366 * 24);
/// Most bytes of a directive's text.
const TEXT_MAX: usize = 4096;
const US_PER_S: u64 = 1_000_000;
const US_PER_MS: u64 = 1000;
