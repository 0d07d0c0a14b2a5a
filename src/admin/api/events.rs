//! `/api/events`: the last events of the log, and for whoever asks for an event stream those that follow.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use crate::admin::reply::{AdminReply, EVENT_STREAM};
use crate::admin::request::AdminRequest;

/// Answers with the last events; if that is accepted, with a stream of them and of each that follows.
pub(in crate::admin) fn events(request: &AdminRequest) -> AdminReply {
    let events = request.state.events();
    if !accepts_stream(&request.head.headers) {
        let lines = events.lines();
        let events = lines.iter().map(|line| {
            // One that was cut is no JSON any more.
            serde_json::from_str(line).unwrap_or_else(|_| Value::from(&**line))
        });
        return AdminReply::json(&json!({ "events": events.collect::<Vec<_>>() }));
    }
    let (lines, added) = events.follow();
    let lines = stream::iter(lines).map(|line| message(&line));
    AdminReply::stream(lines.chain(stream::unfold(added, next)).boxed())
}

fn accepts_stream(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut accepted = values.flat_map(|value| value.split(','));
    accepted.any(|range| {
        let essence = range.split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(EVENT_STREAM)
    })
}

/// Waits for the next event. When there is none for a while, a comment shows that the stream stands.
async fn next(mut added: Receiver<Arc<str>>) -> Option<(Bytes, Receiver<Arc<str>>)> {
    let said = match timeout(HEARTBEAT_AFTER, added.recv()).await {
        Ok(Ok(line)) => message(&line),
        Ok(Err(RecvError::Lagged(missed))) => {
            Bytes::from(format!("event: missed\ndata: {missed}\n\n"))
        }
        Ok(Err(RecvError::Closed)) => return None,
        Err(_) => Bytes::from_static(b":\n\n"),
    };
    Some((said, added))
}

fn message(line: &str) -> Bytes {
    Bytes::from(format!("data: {line}\n\n"))
}

const HEARTBEAT_AFTER: Duration = Duration::from_secs(10);
