//! The API's answers, each in JSON.
//!
//! A call that only shows something is a function from the state to a value. It is rendered on another thread, one call
//! at a time, because the time it takes grows with the file, and the acceptors run on the control thread.

mod archive;
mod configuration;
mod connections;
mod dump;
mod events;
mod explain;
pub(super) mod keys;
mod live;
mod overview;
mod policies;
mod reload;
mod routes;
mod store;
mod trace;
mod upgrade;
mod upstreams;
mod usage;

pub(super) use configuration::configuration;
pub(super) use connections::connections;
pub(super) use dump::dump;
pub(super) use events::events;
pub(super) use explain::explain;
pub(super) use live::{live, sample};
pub(super) use overview::{overview, version};
pub(super) use policies::policies;
pub(super) use reload::{last_reload, preview, reload};
pub(super) use routes::routes;
pub(super) use store::store;
pub(super) use trace::trace;
pub(super) use upgrade::upgrade;
pub(super) use upstreams::upstreams;
pub(super) use usage::usage;

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::reply::AdminReply;
use super::request::AdminRequest;
use super::state::AdminState;
use crate::access_log::rfc3339;
use crate::clock::Timestamp;
use crate::config::value::did_you_mean;
use crate::limiter::TopClients;
use crate::proxy::process::ActiveConfig;
use crate::snapshot::Policy;

/// Answers with the value that `show` makes of the state.
pub(super) async fn shown(request: &AdminRequest, show: fn(&AdminState) -> Value) -> AdminReply {
    rendered(request, move |state| AdminReply::json(&show(state))).await
}

/// Answers with the reply that `render` makes of the state, on another thread.
pub(super) async fn rendered(
    request: &AdminRequest,
    render: impl FnOnce(&AdminState) -> AdminReply + Send + 'static,
) -> AdminReply {
    let turn = request.state.rendering.lock().await;
    let state = Arc::clone(&request.state);
    let rendered = tokio::task::spawn_blocking(move || render(&state)).await;
    drop(turn);
    rendered.unwrap_or_else(|error| {
        tracing::error!(%error, "the admin port cannot render an answer");
        let detail = "The answer cannot be rendered: the log says why.";
        AdminReply::problem(StatusCode::INTERNAL_SERVER_ERROR, detail)
    })
}

/// Finds a policy by its name, and its top clients.
fn policy_named<'l>(
    live: &'l ActiveConfig,
    name: &str,
) -> Result<(&'l Policy, &'l TopClients), AdminReply> {
    let mut policies = live.snapshot.policies.iter().zip(&live.top_clients);
    if let Some((policy, top)) = policies.find(|(policy, _)| *policy.name == *name) {
        return Ok((policy, top));
    }
    let names = live.snapshot.policies.iter().map(|policy| &*policy.name);
    let hint = did_you_mean(name, names).map(|hint| format!("; {hint}"));
    let detail = format!("There is no such policy{}", hint.unwrap_or_default());
    Err(AdminReply::problem(StatusCode::NOT_FOUND, detail))
}

/// Returns the description of the API.
pub(super) fn openapi() -> AdminReply {
    AdminReply::new(StatusCode::OK, "application/json", OPENAPI)
}

/// Formats a point in wall time.
fn time(at: Timestamp) -> String {
    String::from_utf8_lossy(&rfc3339(at)).into_owned()
}

/// Description of the API for programs; a test compares it with the code.
const OPENAPI: &str = include_str!("../openapi.json");
