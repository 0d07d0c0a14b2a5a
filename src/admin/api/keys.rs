//! `/api/keys`: what single clients have left, and what operators order for them.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::admin::reply::AdminReply;
use crate::admin::request::AdminRequest;
use crate::config::value::duration;
use crate::keys::command::LIFETIME_MAX;
use crate::keys::report::Done;
use crate::keys::{Keys, KeysError};
use crate::limit::quota::{COST_MAX, COUNT_MAX};
use crate::logging::NAMES_CLIENTS;
use crate::proxy::process::ActiveConfig;
use crate::store::directives::DirectiveError;

/// Lists the directives in force.
pub(in crate::admin) fn list(request: &AdminRequest) -> AdminReply {
    let context = Context::of(request);
    AdminReply::json(&json!({ "directives": context.keys(request).list() }))
}

/// Says what one client has left.
pub(in crate::admin) async fn get(request: &AdminRequest) -> Result<AdminReply, AdminReply> {
    let members = KeysMembers::read(request, &["policy", "value"])?;
    let context = Context::of(request);
    let (policy, value) = members.client()?;
    let report = context.keys(request).get(policy, value).await;
    Ok(AdminReply::json(&json!(report.map_err(refusal)?)))
}

/// Overrides the quotas of clients for a time, or ends that.
pub(in crate::admin) async fn set(request: &AdminRequest) -> Result<AdminReply, AdminReply> {
    let members = KeysMembers::read(request, &["policy", "value", "quota", "for", "end"])?;
    let context = Context::of(request);
    let keys = context.keys(request);
    let (policy, value) = members.client()?;
    let done = if members.flag("end")? {
        keys.unset(policy, value).await
    } else {
        let lifetime = members.lifetime()?;
        let lifetime =
            lifetime.ok_or_else(|| wrong("`for` is missing, expected how long, such as \"8h\""))?;
        keys.set(policy, value, &members.quotas()?, lifetime).await
    };
    Ok(done_with(request, "set", &done.map_err(refusal)?))
}

/// Spends units, or gives them back.
pub(in crate::admin) async fn adjust(request: &AdminRequest) -> Result<AdminReply, AdminReply> {
    let members = KeysMembers::read(request, &["policy", "value", "units"])?;
    let context = Context::of(request);
    let (policy, value) = members.client()?;
    let units = members.0.get("units").and_then(Value::as_i64);
    let units = units.filter(|units| *units != 0 && units.unsigned_abs() <= UNITS_MAX);
    let units = units.ok_or_else(|| {
        wrong(format!(
            "`units` is not right, expected a whole number from -{UNITS_MAX} to {UNITS_MAX} other than 0: above \
             0 gives back, below spends"
        ))
    })?;
    let adjusted = context.keys(request).adjust(policy, value, units).await;
    let (report, done) = adjusted.map_err(refusal)?;
    note(request, "adjust", &done);
    Ok(AdminReply::json(&json!(report)))
}

/// Gives credits to one client.
pub(in crate::admin) async fn grant(request: &AdminRequest) -> Result<AdminReply, AdminReply> {
    let members = KeysMembers::read(request, &["policy", "value", "credits"])?;
    let context = Context::of(request);
    let (policy, value) = members.client()?;
    let credits = members.0.get("credits").and_then(Value::as_u64);
    let credits = credits.filter(|credits| (1..=COUNT_MAX).contains(credits));
    let credits = credits.ok_or_else(|| {
        wrong(format!(
            "`credits` is not right, expected a whole number from 1 to {COUNT_MAX}"
        ))
    })?;
    let granted = context.keys(request).grant(policy, value, credits).await;
    let (report, done) = granted.map_err(refusal)?;
    note(request, "grant", &done);
    Ok(AdminReply::json(&json!(report)))
}

/// Resets one client, so that all its windows begin anew.
pub(in crate::admin) async fn reset(request: &AdminRequest) -> Result<AdminReply, AdminReply> {
    let members = KeysMembers::read(request, &["policy", "value"])?;
    let context = Context::of(request);
    let (policy, value) = members.client()?;
    let reset = context.keys(request).reset(policy, value).await;
    let (before, done) = reset.map_err(refusal)?;
    note(request, "reset", &done);
    let mut body = json!(done);
    body["before"] = json!(before);
    Ok(AdminReply::json(&body))
}

/// Blocks clients.
pub(in crate::admin) async fn block(request: &AdminRequest) -> Result<AdminReply, AdminReply> {
    let members = KeysMembers::read(request, &["policy", "value", "for", "everywhere"])?;
    let context = Context::of(request);
    let (policy, value) = members.client()?;
    let is_everywhere = members.flag("everywhere")?;
    let lifetime = members.lifetime()?.unwrap_or(LIFETIME_MAX);
    let keys = context.keys(request);
    let done = keys.block(policy, value, is_everywhere, lifetime).await;
    Ok(done_with(request, "block", &done.map_err(refusal)?))
}

/// Ends the blocks of clients.
pub(in crate::admin) async fn unblock(request: &AdminRequest) -> Result<AdminReply, AdminReply> {
    let members = KeysMembers::read(request, &["policy", "value"])?;
    let context = Context::of(request);
    let (policy, value) = members.client()?;
    let done = context.keys(request).unblock(policy, value).await;
    Ok(done_with(request, "unblock", &done.map_err(refusal)?))
}

/// The configuration that was in force when a command arrived; the whole command is decided on it.
struct Context(Arc<ActiveConfig>);

impl Context {
    fn of(request: &AdminRequest) -> Self {
        Self(Arc::clone(&request.state.process.live()))
    }

    fn keys<'k>(&'k self, request: &'k AdminRequest) -> Keys<'k> {
        let process = &request.state.process;
        Keys {
            snapshot: &self.0.snapshot,
            partition_key: &self.0.partition_key,
            digest_key: &self.0.digest_key,
            session: &request.session,
            clock: &process.clock,
            sources: &request.state.sources,
            store: &process.store,
        }
    }
}

/// Logs what was done, and answers with it.
fn done_with(request: &AdminRequest, command: &str, done: &Done) -> AdminReply {
    note(request, command, done);
    AdminReply::json(&json!(done))
}

fn note(request: &AdminRequest, command: &str, done: &Done) {
    tracing::info!(
        target: NAMES_CLIENTS,
        command,
        policies = done.policies.join(", "),
        client = done.client,
        until = done.until,
        done = done.done,
        from = %request.peer,
        "an operator acted on a client"
    );
}

/// The members of a command.
struct KeysMembers(Map<String, Value>);

impl KeysMembers {
    fn read(request: &AdminRequest, known: &[&str]) -> Result<Self, AdminReply> {
        request.members(known).map(Self)
    }

    fn text(&self, name: &str) -> Result<&str, AdminReply> {
        let text = self.0.get(name).and_then(Value::as_str);
        text.ok_or_else(|| wrong(format!("`{name}` is missing, expected a text")))
    }

    /// Returns the policy, and the value that names the client.
    fn client(&self) -> Result<(&str, &str), AdminReply> {
        Ok((self.text("policy")?, self.text("value")?))
    }

    fn quotas(&self) -> Result<Vec<String>, AdminReply> {
        let texts = match self.0.get("quota") {
            Some(Value::String(text)) => Some(vec![text.clone()]),
            Some(Value::Array(list)) => {
                let texts = list.iter().map(|text| text.as_str().map(str::to_owned));
                texts.collect()
            }
            _ => None,
        };
        texts.ok_or_else(|| {
            wrong("`quota` is missing, expected a text, or a list of texts, as `overrides` have it")
        })
    }

    fn flag(&self, name: &str) -> Result<bool, AdminReply> {
        match self.0.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(wrong(format!(
                "`{name}` is not right, expected true or false"
            ))),
        }
    }

    fn lifetime(&self) -> Result<Option<Duration>, AdminReply> {
        if !self.0.contains_key("for") {
            return Ok(None);
        }
        let read = duration(self.text("for")?);
        read.map(Some)
            .map_err(|error| wrong(format!("`for` {}", error.in_a_line())))
    }
}

/// Answers a command, whether it was carried out or refused.
pub(in crate::admin) async fn answer(
    reply: impl Future<Output = Result<AdminReply, AdminReply>>,
) -> AdminReply {
    reply.await.unwrap_or_else(|refused| refused)
}

fn wrong(detail: impl AsRef<str>) -> AdminReply {
    AdminReply::problem(StatusCode::BAD_REQUEST, detail)
}

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn refusal(error: KeysError) -> AdminReply {
    let status = match &error {
        KeysError::Wrong(_) => StatusCode::BAD_REQUEST,
        KeysError::Unknown(_) => StatusCode::NOT_FOUND,
        KeysError::Store(DirectiveError::Full) => StatusCode::CONFLICT,
        KeysError::Store(DirectiveError::Unreachable) => StatusCode::SERVICE_UNAVAILABLE,
    };
    AdminReply::problem(status, error.to_string())
}

/// Most units that are given back or spent at once, which is also the most that a request may cost.
const UNITS_MAX: u64 = COST_MAX;
