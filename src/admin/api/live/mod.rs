//! `/api/live`: what the dashboard shows first: how many requests come, which are refused, and the state of the rest.
//!
//! Counters are read every [`STEP`] even if nobody watches, so that a new watcher sees the last minutes. A step is
//! rendered once for all watchers, and only if there are any.

mod step;
mod words;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::time;
use crate::admin::live::{RecentCounts, STEP};
use crate::admin::reply::{AdminReply, EVENT_STREAM};
use crate::admin::request::AdminRequest;
use crate::admin::sse;
use crate::admin::state::AdminState;

/// Answers with the last minutes and the latest step; if a stream is accepted, with the minutes and then each step.
pub(in crate::admin) async fn live(request: &AdminRequest) -> AdminReply {
    let streams = request.accepts(EVENT_STREAM);
    let render = move |state: &AdminState| {
        let now = time(state.process.clock.wall());
        if streams {
            let history =
                |recent: &RecentCounts| sse::message(Some("history"), recent.history(&now));
            let (history, steps) = state.live.follow(history);
            return AdminReply::stream(sse::follow(vec![history], steps, |step| step));
        }
        let recent = state.live.recent();
        AdminReply::json(&json!({
            "history": recent.history(&now),
            "step": step::render(&recent, state),
        }))
    };
    super::rendered(request, render).await
}

/// Reads the counters every [`STEP`].
pub(in crate::admin) async fn sample(state: Arc<AdminState>) {
    let mut due = interval(STEP);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let shared = Arc::clone(&state);
        let read = move || {
            let render = |recent: &RecentCounts| message(recent, &shared);
            shared.live.step(&shared.process, render);
        };
        if let Err(error) = tokio::task::spawn_blocking(read).await {
            tracing::error!(%error, "the counters cannot be read for the dashboard");
        }
    }
}

fn message(recent: &RecentCounts, state: &AdminState) -> Bytes {
    sse::message(Some("step"), step::render(recent, state))
}
