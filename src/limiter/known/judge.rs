//! What another configuration would do to the known clients now.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::table::{KnownClient, KnownClients};
use crate::clock::monotonic;
use crate::index::PolicyIndex;
use crate::limit::Check;
use crate::limit::plan::{CheckMode, PlanPolicy};
use crate::limiter::Limiter;
use crate::request::NamedClient;
use crate::snapshot::{Grant, Policy, PolicyMode};

/// How many known clients would be refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Of each policy in force that has known clients, in the order of the file.
    pub policies: Vec<JudgedPolicy>,
    /// Whether there was no time for all.
    pub is_cut: bool,
}

/// How many known clients of a policy would be refused a request that costs 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedPolicy {
    /// The policy's name.
    pub name: Arc<str>,
    /// How many are known.
    pub known: usize,
    /// How many would be refused if the other configuration were in force.
    pub refused: usize,
    /// How many are refused by the one in force.
    pub refused_already: usize,
}

/// What decides the clients of a policy.
struct Judge<'l> {
    limiter: &'l Limiter<'l>,
    policy: &'l Policy,
    /// The policy that the clients' values are known from.
    known_from: &'l Policy,
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
    let mut found: HashMap<PolicyIndex, JudgedPolicy> = HashMap::new();
    let (clients, until) = (known.all(), monotonic() + JUDGE_WITHIN);
    let mut is_cut = false;
    for chunk in clients.chunks(CHUNK_LEN) {
        if monotonic() >= until {
            is_cut = true;
            break;
        }
        let judging = chunk.iter().filter_map(|client| {
            let index = *in_running.get(&client.policy)?;
            let policy = &running.snapshot.policies[index];
            let now = Judge::new(running, policy, policy);
            now.knows(client).then_some(())?;
            let then = in_other.get(&client.policy);
            let then =
                then.map(|index| Judge::new(other, &other.snapshot.policies[*index], policy));
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
        // The thread has others to serve.
        tokio::task::yield_now().await;
    }
    let mut policies: Vec<(PolicyIndex, JudgedPolicy)> = found.into_iter().collect();
    policies.sort_by_key(|(index, _)| usize::from(*index));
    Judged {
        policies: policies.into_iter().map(|(_, policy)| policy).collect(),
        is_cut,
    }
}

impl<'l> Judge<'l> {
    fn new(limiter: &'l Limiter<'l>, policy: &'l Policy, known_from: &'l Policy) -> Self {
        Self {
            limiter,
            policy,
            known_from,
        }
    }

    /// Whether the client would make the partition that it was noted with.
    fn knows(&self, client: &KnownClient) -> bool {
        let named = NamedClient::with_values(&self.policy.partition, &client.values);
        named.is_some_and(|named| {
            named.partition_id(self.limiter.partition_key) == client.partition_id
        })
    }

    /// Whether a request of the client that costs 1 is refused.
    async fn refuses(&self, client: &KnownClient) -> bool {
        let policy = self.policy;
        let is_enforced = policy.mode == Some(PolicyMode::Enforce);
        // With other partitions all counts begin anew.
        if !is_enforced || policy.partition != self.known_from.partition {
            return false;
        }
        let Some(named) = NamedClient::with_values(&policy.partition, &client.values) else {
            return false;
        };
        let partition_id = named.partition_id(self.limiter.partition_key);
        let by = policy.overrides_by();
        let values = client.by.as_ref();
        let values = values.filter(|_| *by == *self.known_from.overrides_by());
        let by = values.and_then(|values| NamedClient::with_values(by, values));
        let matched = policy.find_override_named(&[partition_id], Some(&named), by.as_ref());
        let grant = policy.grant_of(matched);
        if grant.quotas().is_empty() {
            return *grant == Grant::Blocked;
        }
        let checks = grant.quotas().iter().map(|quota| Check {
            quota: &quota.quota,
            series_id: quota.series_id,
            partition_id,
            cost: 1,
            mode: CheckMode::Enforce,
            policy: PlanPolicy(0),
            on_store_failure: policy.on_store_failure,
        });
        let checks: Vec<Check<'_>> = checks.collect();
        let peeked = self.limiter.store.peek_checks(&checks).await;
        peeked.iter().any(|check| !check.decision.admit)
    }
}

/// How many clients are judged at a time.
const CHUNK_LEN: usize = 64;
/// How long that may take; then it is told of those that were judged.
const JUDGE_WITHIN: Duration = Duration::from_secs(5);
