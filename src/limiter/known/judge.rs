//! What another configuration would do to the known clients now.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::table::{KnownClient, KnownClients};
use crate::clock::monotonic;
use crate::index::PolicyIndex;
use crate::limit::Check;
use crate::limiter::Limiter;
use crate::request::{NamedClient, Partition};
use crate::snapshot::{Grant, Policy, PolicyMode};

/// How many known clients would be refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The counts of each policy in force that has known clients, in the order of the file.
    pub policies: Vec<JudgedPolicy>,
    /// Whether there was no time to judge all clients.
    pub is_partial: bool,
    /// Whether the store could not be asked, so that some were judged by this gateway's own counts.
    pub is_degraded: bool,
}

/// How many known clients of a policy would be refused a request that costs 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedPolicy {
    /// The policy's name.
    pub name: Arc<str>,
    /// How many known clients were judged.
    pub known: usize,
    /// How many of them would be refused if the other configuration were in force.
    pub refused: usize,
    /// How many of them are refused by the configuration in force.
    pub refused_already: usize,
}

/// Judges the clients of a policy under one configuration.
struct Judge<'l> {
    limiter: &'l Limiter<'l>,
    policy: &'l Policy,
    /// The policy in force, under which the clients' values were noted.
    known_from: &'l Policy,
    /// Set if the store could not be asked.
    is_degraded: &'l Cell<bool>,
}

/// Says what `other` would do to the known clients now, and what `running` does. Nothing is spent.
pub async fn judge(known: &KnownClients, running: &Limiter<'_>, other: &Limiter<'_>) -> Judged {
    let policies = |limiter: &Limiter<'_>| -> HashMap<Arc<str>, PolicyIndex> {
        let policies = limiter.snapshot.policies.iter_enumerated();
        policies
            .map(|(index, one)| (Arc::clone(&one.name), index))
            .collect()
    };
    let (in_running, in_other) = (policies(running), policies(other));
    let mut found: BTreeMap<PolicyIndex, JudgedPolicy> = BTreeMap::new();
    let (clients, until) = (known.all(), monotonic() + JUDGE_WITHIN);
    let (mut is_partial, is_degraded) = (false, Cell::new(false));
    for chunk in clients.chunks(CHUNK_LEN) {
        if monotonic() >= until {
            is_partial = true;
            break;
        }
        let judging = chunk.iter().filter_map(|client| {
            let index = *in_running.get(&client.policy)?;
            let policy = &running.snapshot.policies[index];
            let judge = |limiter, policy_there| Judge {
                limiter,
                policy: policy_there,
                known_from: policy,
                is_degraded: &is_degraded,
            };
            let now = judge(running, policy);
            now.knows(client).then_some(())?;
            let then = in_other.get(&client.policy);
            let then = then.map(|index| judge(other, &other.snapshot.policies[*index]));
            Some(async move {
                let refused = match then {
                    Some(then) => then.refuses(client).await,
                    None => false,
                };
                (index, refused, now.refuses(client).await)
            })
        });
        for (index, refused, refused_already) in join_all(judging).await {
            let policy = found.entry(index).or_insert_with(|| JudgedPolicy {
                name: Arc::clone(&running.snapshot.policies[index].name),
                known: 0,
                refused: 0,
                refused_already: 0,
            });
            policy.known += 1;
            policy.refused += usize::from(refused);
            policy.refused_already += usize::from(refused_already);
        }
        // The thread has other tasks to run.
        tokio::task::yield_now().await;
    }
    Judged {
        policies: found.into_values().collect(),
        is_partial,
        is_degraded: is_degraded.get(),
    }
}

impl Judge<'_> {
    /// Whether the client's values still make the partition id that it was noted with.
    fn knows(&self, client: &KnownClient) -> bool {
        let named = NamedClient::with_values(&self.policy.partition, &client.values);
        named.is_some_and(|named| {
            named.partition_id(self.limiter.partition_key) == client.partition_id
        })
    }

    /// Returns the client by its values for `of`: the policy's partition, or the one that chooses overrides, if that is
    /// the same as in the policy in force.
    fn named<'p>(&self, of: &'p Partition, client: &KnownClient) -> Option<NamedClient<'p>> {
        if std::ptr::eq(of, &raw const self.policy.partition) {
            return NamedClient::with_values(of, &client.values);
        }
        let is_same = *of == *self.known_from.overrides_by();
        let values = client.by.as_ref().filter(|_| is_same)?;
        NamedClient::with_values(of, values)
    }

    /// Whether a request of the client that costs 1 is refused.
    async fn refuses(&self, client: &KnownClient) -> bool {
        let policy = self.policy;
        let is_enforced = policy.mode == Some(PolicyMode::Enforce);
        // With other partitions all counts begin anew.
        if !is_enforced || policy.partition != self.known_from.partition {
            return false;
        }
        let named = |of| self.named(of, client);
        let Some(one) = named(&policy.partition) else {
            return false;
        };
        let partition_id = one.partition_id(self.limiter.partition_key);
        let matched = policy.find_override_of(&[partition_id], named);
        let grant = policy.grant_of(matched);
        if grant.quotas().is_empty() {
            return *grant == Grant::Blocked;
        }
        let quotas = grant.quotas().iter();
        let checks: Vec<Check<'_>> = quotas
            .map(|quota| quota.of_day(policy.own_day_in_file(matched, named)))
            .map(|quota| policy.check_alone(quota, partition_id, 1))
            .collect();
        let peeked = self.limiter.store.peek_checks(&checks).await;
        if peeked.iter().any(|check| check.is_degraded) {
            self.is_degraded.set(true);
        }
        peeked.iter().any(|check| !check.decision.admit)
    }
}

/// How many clients are judged at a time.
const CHUNK_LEN: usize = 64;
/// How long judging may take; after that, only the clients judged so far are reported.
const JUDGE_WITHIN: Duration = Duration::from_secs(5);
