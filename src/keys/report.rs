//! What commands answer.

use serde::Serialize;

use super::client::NamedClients;
use super::directive::{Directive, DirectiveKind};
use crate::access_log::rfc3339;
use crate::clock::Timestamp;

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
    /// Seconds for which its penalty still refuses it; none if none runs.
    pub penalty_seconds: Option<u64>,
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
    /// Units that it holds at most; none of a balance.
    pub limit: Option<u64>,
    /// Units that would be admitted now; one more at once is refused.
    pub remaining: u64,
    /// Units by which a balance is below 0.
    pub debt: u64,
    /// Seconds until there is more; none if it is whole.
    pub next_seconds: Option<u64>,
    /// Seconds until it is whole.
    pub reset_seconds: u64,
    /// Which gateways that share a Redis hold units in flight.
    pub held_by: Vec<HolderReport>,
}

/// What the requests of one gateway hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HolderReport {
    /// The gateway, as `/api/store` names it there.
    pub gateway: String,
    /// Whether it is this one.
    #[serde(rename = "this")]
    pub is_this: bool,
    /// Units.
    pub units: u64,
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

impl Done {
    /// Says what was done for clients of these policies, at once.
    pub(super) fn now(done: String, clients: &NamedClients, policies: Vec<String>) -> Self {
        Self {
            done,
            client: clients.shown.clone(),
            form: clients.form.clone(),
            policies,
            until: None,
            notes: Vec::new(),
        }
    }
}

/// Describes what is in force for a time; none for a reset, which is over.
pub(super) fn directive_report(directive: &Directive) -> Option<DirectiveReport> {
    let DirectiveKind::Grant(grant) = &directive.text.kind else {
        return None;
    };
    Some(DirectiveReport {
        policy: directive.text.policy.clone(),
        client: directive.text.shown.clone(),
        ids: directive.text.ids.clone(),
        grant: grant.clone(),
        since: time(Timestamp(directive.text.since_ms * 1000)),
        until: time(directive.until),
    })
}

/// Writes a point in time.
pub(super) fn time(at: Timestamp) -> String {
    String::from_utf8_lossy(&rfc3339(at)).into_owned()
}
