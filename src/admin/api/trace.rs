//! `/api/trace`: the next requests that pass a client's filter, step by step, as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::{policy_named, time};
use crate::admin::reply::{AdminReply, EVENT_STREAM};
use crate::admin::request::AdminRequest;
use crate::admin::sse;
use crate::admin::state::AdminState;
use crate::clock::{Micros, Timestamp};
use crate::keys::directive::partition_id;
use crate::proxy::trace::{TraceClient, TraceFilter, TraceWatcher, TracedRequest, WATCHERS_MAX};
use crate::request::ClientNames;

/// A trace that a client asks for.
struct AskedTrace {
    filter: TraceFilter,
    count: u32,
}

/// A trace that is under way; it ends when this is dropped.
struct OpenTrace {
    state: Arc<AdminState>,
    watcher: Arc<TraceWatcher>,
    requests: Receiver<Arc<TracedRequest>>,
    traced: u32,
    count: u32,
    ends_at: Timestamp,
    is_over: bool,
}

/// Answers with the next requests that pass a filter.
pub(in crate::admin) fn trace(request: &AdminRequest) -> AdminReply {
    let asked = match AskedTrace::of(request) {
        Ok(asked) => asked,
        Err(refused) => return refused,
    };
    if !request.accepts(EVENT_STREAM) {
        let detail = "A trace is an event stream: ask with `Accept: text/event-stream`.";
        return AdminReply::problem(StatusCode::NOT_ACCEPTABLE, detail);
    }
    let Some((watcher, requests)) = request.state.process.traces.watch(asked.filter) else {
        let detail = format!("{WATCHERS_MAX} traces are under way, and there may be no more.");
        return AdminReply::problem(StatusCode::SERVICE_UNAVAILABLE, detail);
    };
    let open = OpenTrace {
        state: Arc::clone(&request.state),
        watcher,
        requests,
        traced: 0,
        count: asked.count,
        ends_at: request.state.process.clock.now() + DURATION_MAX,
        is_over: false,
    };
    let ready = stream::iter([Bytes::from_static(b": ready\n\n")]);
    let events = stream::unfold(open, |mut open| async move {
        let event = open.next().await?;
        Some((event, open))
    });
    AdminReply::stream(ready.chain(events).boxed())
}

impl AskedTrace {
    fn of(request: &AdminRequest) -> Result<Self, AdminReply> {
        let mut asked = request.query(&["client", "policy", "refused", "path", "count"])?;
        let wrong = |detail: &str| AdminReply::problem(StatusCode::BAD_REQUEST, detail);
        let policy = asked.remove("policy");
        let live = request.state.process.live();
        let policy = policy.map(|name| policy_named(&live, &name)).transpose()?;
        let policy = policy.map(|(policy, _)| Arc::clone(&policy.name));
        let client = asked
            .remove("client")
            .map(|client| match client.strip_prefix("id:") {
                Some(digits) => partition_id(digits)
                    .map(TraceClient::Id)
                    .ok_or("an id has 32 hex digits"),
                None => Ok(TraceClient::Shown(client)),
            });
        let client = client
            .transpose()
            .map_err(|error| wrong(&format!("`client`: {error}.")))?;
        let count = match asked.remove("count").map(|count| count.parse()) {
            None => COUNT,
            Some(Ok(count @ 1..=COUNT_MAX)) => count,
            Some(_) => return Err(wrong(&format!("`count` is 1 to {COUNT_MAX}."))),
        };
        let is_refused = match asked.remove("refused").as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(wrong("`refused` is `true` or `false`.")),
        };
        let path = asked.remove("path").unwrap_or_default();
        let names = live.snapshot.log.clients;
        if !path.is_empty() && names == ClientNames::Digest {
            return Err(wrong(
                "`path` cannot be used, because `[log] clients` hides paths.",
            ));
        }
        Ok(Self {
            filter: TraceFilter {
                client,
                policy,
                is_refused,
                path,
            },
            count,
        })
    }
}

impl OpenTrace {
    /// Waits for the next event to send; returns `None` after the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let missed = self.watcher.take_missed();
        if missed > 0 {
            return Some(sse::message(Some("missed"), missed));
        }
        if self.traced == self.count {
            return Some(self.end("count"));
        }
        let left = self.ends_at.since(self.state.process.clock.now());
        if left == Micros(0) {
            return Some(self.end("time"));
        }
        let wait = Duration::from(left).min(sse::HEARTBEAT_AFTER);
        match timeout(wait, self.requests.recv()).await {
            Ok(Some(request)) => {
                self.traced += 1;
                Some(sse::message(Some("trace"), described(&request)))
            }
            Ok(None) | Err(_) => Some(sse::heartbeat()),
        }
    }

    fn end(&mut self, reason: &str) -> Bytes {
        self.is_over = true;
        sse::message(
            Some("end"),
            json!({ "traced": self.traced, "reason": reason }),
        )
    }
}

impl Drop for OpenTrace {
    fn drop(&mut self) {
        self.state.process.traces.unwatch(&self.watcher);
    }
}

fn described(request: &TracedRequest) -> Value {
    let (end, steps) = (&request.end, request.steps.iter());
    let steps = steps.map(|one| json!({ "at_us": one.at_us, "step": one.step, "text": one.text }));
    json!({
        "id": end.id,
        "time": time(end.at),
        "method": end.method,
        "host": end.host,
        "path": end.path,
        "status": end.status.map(|status| status.as_u16()),
        "route": end.route.as_deref(),
        "client": end.client,
        "took_us": end.took_us,
        "steps": steps.collect::<Value>(),
    })
}

/// How many requests are traced unless the client says, and at most.
const COUNT: u32 = 10;
const COUNT_MAX: u32 = 100;
/// How long a trace may last.
const DURATION_MAX: Micros = Micros::from_secs(600);
