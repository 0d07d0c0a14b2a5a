//! Reports that commands return.

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
    /// Partition ids of the client, in hex.
    pub ids: Vec<String>,
    /// Overrides and blocks in force for the client.
    pub directives: Vec<DirectiveReport>,
    /// What is granted to the client, if that is not quotas: `unlimited` or `blocked`.
    pub grant: Option<String>,
    /// Every quota that the client spends.
    pub quotas: Vec<QuotaReport>,
    /// Seconds for which the client's penalty still refuses it; `None` if no penalty runs.
    pub penalty_seconds: Option<u64>,
    /// Whether the numbers are of this node's share, because Redis cannot be asked.
    #[serde(rename = "degraded")]
    pub is_degraded: bool,
    /// Notes on what the report cannot tell.
    pub notes: Vec<String>,
}

/// What one quota of a client has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaReport {
    /// Name of the quota, which begins with its policy's.
    pub quota: String,
    /// Whether the quota is a candidate, tried beside the policy's own.
    #[serde(rename = "candidate")]
    pub is_candidate: bool,
    /// Units that the quota holds at most; `None` for a balance.
    pub limit: Option<u64>,
    /// Units that would be admitted now; one more at once is refused.
    pub remaining: u64,
    /// Units by which a balance is below 0.
    pub debt: u64,
    /// Seconds until more is left; `None` if the quota is whole.
    pub next_seconds: Option<u64>,
    /// Seconds until the quota is whole.
    pub reset_seconds: u64,
    /// Gateways that hold units in flight, if they share a Redis.
    pub held_by: Vec<HolderReport>,
}

/// Units in flight that the requests of one gateway hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HolderReport {
    /// The gateway, as `/api/store` names it.
    pub gateway: String,
    /// Whether this gateway is the one that reports.
    #[serde(rename = "this")]
    pub is_this: bool,
    /// Units that the gateway's requests hold.
    pub units: u64,
}

/// An override or a block in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirectiveReport {
    /// Name of the policy; `None` means every policy that knows the client's parts.
    pub policy: Option<String>,
    /// The client, as logs show it.
    pub client: String,
    /// Partition ids of the client, in hex, if the directive is for one client of one policy.
    pub ids: Vec<String>,
    /// What is granted: quotas, `unlimited` or `blocked`.
    pub grant: Vec<String>,
    /// When it was ordered (RFC 3339).
    pub since: String,
    /// When it ends (RFC 3339).
    pub until: String,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// What was done, in words.
    pub done: String,
    /// The client for which it was done, as logs show it.
    pub client: String,
    /// How the client was named, in words: by an address, a network, a glob or an id.
    pub form: String,
    /// Names of the policies for which it was done.
    pub policies: Vec<String>,
    /// When the directive ends (RFC 3339), if the command gave one.
    pub until: Option<String>,
    /// What else should be known.
    pub notes: Vec<String>,
}

impl Done {
    /// Reports what was done for clients of these policies, at once.
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

/// Describes an override or a block; `None` for a reset, which is not listed.
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

/// Writes a point in time (RFC 3339).
pub(super) fn time(at: Timestamp) -> String {
    String::from_utf8_lossy(&rfc3339(at)).into_owned()
}
