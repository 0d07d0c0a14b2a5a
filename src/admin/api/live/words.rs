//! The states of the store, of endpoints and of reloads, in words for operators.

use crate::admin::api::time;
use crate::admin::reloads::ReloadOutcome;
use crate::clock::Timestamp;
use crate::metrics::{RedisUsage, Usage};
use crate::proxy::upstream::EndpointStatus;

/// State of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreState {
    Ok,
    Degraded,
    Down,
}

impl StoreState {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

/// Returns the state of the store, and says what it means for decisions.
pub(super) fn store(usage: &Usage) -> (StoreState, String) {
    match &usage.redis {
        Some(redis) => redis_store(redis, usage.is_full),
        None if usage.is_full => (
            StoreState::Degraded,
            "Counters have filled max_memory: clients that are counted still are, new ones get what on_store_failure \
             says."
                .to_owned(),
        ),
        None => (
            StoreState::Ok,
            "Counters are in this gateway's memory.".to_owned(),
        ),
    }
}

fn redis_store(redis: &RedisUsage, is_full: bool) -> (StoreState, String) {
    let failing = redis.servers.iter().filter(|one| !one.breaker.is_closed());
    let failing: Vec<&str> = failing.map(|server| &*server.name).collect();
    if redis.connections == 0 || redis.servers.len() == failing.len() {
        let text =
            "Redis does not answer: until it does, requests are decided as on_store_failure says.";
        return (StoreState::Down, text.to_owned());
    }
    let mut wrong = Vec::new();
    if !failing.is_empty() {
        wrong.push(format!(
            "{} of {} Redis servers do not answer ({}): their clients are decided as on_store_failure says.",
            failing.len(),
            redis.servers.len(),
            failing.join(", ")
        ));
    }
    for server in redis.servers.iter().filter(|server| server.is_far) {
        let name = &server.name;
        wrong.push(format!(
            "[store] timeout is below two round trips to {name}."
        ));
    }
    if is_full {
        wrong.push("What this gateway counts by itself has filled max_memory.".to_owned());
    }
    if wrong.is_empty() {
        let text = match redis.nodes {
            ..=1 => "Redis answers, and only this gateway uses it.".to_owned(),
            nodes => format!("Redis answers, and {nodes} gateways share its counters."),
        };
        return (StoreState::Ok, text);
    }
    (StoreState::Degraded, wrong.join(" "))
}

/// Says what is wrong with an endpoint.
pub(super) fn endpoint(endpoint: &EndpointStatus) -> String {
    let mut wrong = Vec::new();
    if !endpoint.is_healthy {
        wrong.push("health checks fail".to_owned());
    }
    if let Some(until) = endpoint.ejected_until {
        wrong.push(format!("ejected until {}", time_of_day(until)));
    }
    if let Some(since) = endpoint.failing_since {
        wrong.push(format!("requests fail since {}", time_of_day(since)));
    }
    if wrong.is_empty() {
        wrong.push("gets no requests".to_owned());
    }
    wrong.join("; ")
}

/// Writes the hour, minute and second of a point in time.
fn time_of_day(at: Timestamp) -> String {
    let time = time(at);
    let seconds = time.split('T').nth(1).and_then(|time| time.get(..8));
    format!("{} UTC", seconds.unwrap_or(&time))
}

/// Describes the result of a reload.
pub(super) fn reload(outcome: &ReloadOutcome) -> String {
    match outcome {
        ReloadOutcome::Applied {
            changes,
            needs_restart,
            warnings,
        } => {
            let mut said = vec![match &changes[..] {
                [] => "Applied; nothing changed.".to_owned(),
                [only] => format!("Applied: {only}."),
                [first, ..] => format!("Applied, {} changes: {first}, …", changes.len()),
            }];
            if !needs_restart.is_empty() {
                said.push(format!("{} need a restart.", needs_restart.join(", ")));
            }
            said.extend(warnings.iter().map(|warning| format!("Warning: {warning}")));
            said.join(" ")
        }
        ReloadOutcome::Mistakes { lines, .. } => {
            let first = lines.first().map(String::as_str).unwrap_or_default();
            match lines.len() {
                1 => format!("One mistake, so the old configuration stays: {first}"),
                count => format!("{count} mistakes, so the old configuration stays: {first}"),
            }
        }
        ReloadOutcome::Unreadable { error } => {
            format!("The file cannot be read, so the old configuration stays: {error}")
        }
    }
}
