//! `POST /api/explain`: what would become of a request now, and why.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use crate::admin::reply::AdminReply;
use crate::admin::request::AdminRequest;
use crate::explain::{AskedRequest, BadQuestion, ExplainMode};

/// Says what would become of the request that the content describes; spends nothing.
pub(in crate::admin) async fn explain(request: &AdminRequest) -> AdminReply {
    let members = match request.members(&AskedRequest::MEMBERS) {
        Ok(members) => members,
        Err(refused) => return refused,
    };
    match explained(request, AskedRequest::from_members(&members)).await {
        Ok(explained) => AdminReply::json(&explained),
        Err(bad) => AdminReply::problem(StatusCode::BAD_REQUEST, bad.to_string()),
    }
}

async fn explained(
    request: &AdminRequest,
    asked: Result<AskedRequest, BadQuestion>,
) -> Result<Value, BadQuestion> {
    let process = &request.state.process;
    let live = Arc::clone(&process.live());
    let limiter = live.limiter(&request.session, None, None);
    let now = process.clock.wall();
    let explained = crate::explain::explain(limiter, &asked?, now, ExplainMode::Live).await?;
    let mut json = explained.json();
    json["text"] = explained.to_string().into();
    Ok(json)
}
