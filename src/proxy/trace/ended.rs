//! What a trace says of a request that is over.

use std::fmt::Write as _;
use std::sync::Arc;

use http::{HeaderValue, StatusCode};

use super::filter::TraceFilter;
use super::heads::ShownHeads;
use super::request_trace::RequestTrace;
use super::traced_request::TracedEnd;
use super::traces::Traces;
use crate::clock::Timestamp;
use crate::fault::Reason;
use crate::index::RouteIndex;
use crate::limiter::{Decided, PolicyResult};
use crate::metrics::PolicyOutcome;
use crate::proxy::upstream::Attempts;
use crate::request::redacted_address;
use crate::snapshot::{Policy, Snapshot};

/// A request that is over.
pub(crate) struct EndedRequest<'r> {
    pub(crate) snapshot: &'r Snapshot,
    pub(crate) digest_key: &'r [u8; 32],
    pub(crate) route: Option<RouteIndex>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) reason: Option<Reason>,
    pub(crate) decided: &'r Decided,
    pub(crate) attempts: &'r Attempts,
    pub(crate) id: Option<&'r HeaderValue>,
    pub(crate) sent_bytes: u64,
    pub(crate) now: Timestamp,
    /// `now` by wall time.
    pub(crate) wall: Timestamp,
}

impl RequestTrace {
    /// Sends a request that is over to those who want it.
    #[cold]
    pub(crate) fn end(mut self: Box<Self>, traces: &Traces, ended: &EndedRequest<'_>) {
        let snapshot = ended.snapshot;
        if !self.is_decided() {
            // It was refused before it was decided, or its client left.
            let is_refused = ended.reason.is_some() && ended.status.is_some();
            let wants = |filter: &TraceFilter| {
                filter.is_early()
                    && filter.wants_path(&self.path)
                    && (is_refused || !filter.is_refused)
            };
            let wanted_by = traces.wanted_by(wants);
            if wanted_by.is_empty() {
                return;
            }
            self.set_watchers(wanted_by);
            self.add_head(snapshot);
        }
        if let Some(text) = ended.attempts() {
            self.add(ended.now, "attempts", text);
        }
        self.add(ended.now, "answer", ended.answer());
        for (policy, result) in ended.charged() {
            let text = charge(policy, result);
            self.add(ended.now, "settled", text);
        }
        self.send(|trace| TracedEnd {
            id: ended
                .id
                .map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned()),
            at: ended.wall - trace.took(ended.now),
            method: trace.method.to_string(),
            host: trace.host.clone(),
            path: ShownHeads::new(snapshot, true).path(&trace.path).to_owned(),
            status: ended.status,
            route: ended
                .route
                .map(|route| Arc::clone(&ended.snapshot.routes[route].name)),
            client: redacted_address(ended.digest_key, trace.client, snapshot.log.clients)
                .to_string(),
            took_us: trace.took(ended.now).0,
        });
    }
}

impl<'r> EndedRequest<'r> {
    /// Says how many attempts there were, and at which endpoint the last one was.
    fn attempts(&self) -> Option<String> {
        let endpoint = self.attempts.endpoint()?;
        let mut text = match self.attempts.count() {
            1 => format!("1 attempt, at {}", &*endpoint),
            count => format!("{count} attempts, the last at {}", &*endpoint),
        };
        if let Some(took) = self.attempts.time_to_head() {
            write!(text, "; the response's head came after {} µs", took.0)
                .expect("memory takes every byte");
        }
        if let Some(cause) = self.attempts.cause() {
            write!(text, "; it broke off: {}", &*cause).expect("memory takes every byte");
        }
        Some(text)
    }

    fn answer(&self) -> String {
        let status = self.status.map(|status| status.as_str().to_owned());
        let status = status.unwrap_or_else(|| "none".to_owned());
        let reason = self.reason.map(|reason| format!(", {}", reason.word()));
        format!(
            "{status}{}, {} bytes of content",
            reason.unwrap_or_default(),
            self.sent_bytes
        )
    }

    /// Yields the policies that charged the request, or admitted it at a cost.
    fn charged(&self) -> impl Iterator<Item = (&'r Policy, &'r PolicyResult)> {
        let (snapshot, results) = (self.snapshot, self.decided.policies.iter());
        let is_charged = |result: &&PolicyResult| {
            result.charged() > 0 || result.asked > 0 && result.outcome == PolicyOutcome::Admitted
        };
        let charged = results.filter(is_charged);
        charged.map(move |result| (&snapshot.policies[result.policy], result))
    }
}

/// Says what a policy charged in the end.
fn charge(policy: &Policy, result: &PolicyResult) -> String {
    let (name, unit) = (&policy.name, &policy.unit);
    let mut text = format!("{name}: charged {} in {unit}", result.charged());
    if result.asked != result.charged() {
        write!(text, ", {} charged at first", result.asked).expect("memory takes every byte");
    }
    if let Some(missing) = result.missing_cost() {
        write!(
            text,
            "; the response did not report the cost ({})",
            missing.word()
        )
        .expect("memory takes every byte");
    }
    text
}
