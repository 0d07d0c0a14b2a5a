//! `/api/events`: the latest events of the log; for a client that asks for an event stream, also those that follow.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admin::reply::{AdminReply, EVENT_STREAM};
use crate::admin::request::AdminRequest;
use crate::admin::sse;

/// Answers with the latest events; if the client accepts a stream, with a stream of them and of each that follows.
pub(in crate::admin) fn events(request: &AdminRequest) -> AdminReply {
    let events = request.state.events();
    if !request.accepts(EVENT_STREAM) {
        let lines = events.lines();
        let events = lines.iter().map(|line| {
            // An event that was cut short is no longer JSON.
            serde_json::from_str(line).unwrap_or_else(|_| Value::from(&**line))
        });
        return AdminReply::json(&json!({ "events": events.collect::<Vec<_>>() }));
    }
    let (lines, added) = events.follow();
    let message = |line: Arc<str>| sse::message(None, line);
    let lines = lines.into_iter().map(message).collect();
    AdminReply::stream(sse::follow(lines, added, message))
}
