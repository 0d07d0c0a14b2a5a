//! An explanation as JSON, for programs.

use serde_json::{Value, json};

use super::asked::ListenerChoice;
use super::explanation::{
    ClientView, CostView, Explanation, LeftView, PolicyView, PreflightView, QuotaView, RefusedView,
    RouteView,
};
use crate::clock::Micros;
use crate::config::display;
use crate::limit::{Algorithm, Retry};
use crate::metrics::PolicyOutcome;
use crate::request::route::Mismatch;

impl Explanation {
    /// Returns the explanation as a JSON object. What is not known is null.
    pub fn json(&self) -> Value {
        let other_routes = self.other_routes.iter().map(|(name, mismatch)| {
            json!({ "route": &**name, "why_not": word_of_mismatch(mismatch), "header": header(mismatch) })
        });
        let live = self.live.as_ref();
        json!({
            "method": self.method,
            "target": self.target,
            "host": self.host,
            "path": self.path,
            "listener": { "name": &*self.listener, "chosen_by": word_of_choice(self.listener_choice) },
            "client": self.client.json(),
            "preflight": self.preflight.map(word_of_preflight),
            "route": self.route.as_ref().map(RouteView::json),
            "other_routes": other_routes.collect::<Vec<_>>(),
            "more_routes": self.more_routes,
            "policies": self.policies.iter().map(PolicyView::json).collect::<Vec<_>>(),
            "refused": self.refused.as_ref().map(RefusedView::json),
            "live": live.map(|live| json!({
                "admitted": self.refused.is_none(),
                "delay_seconds": seconds(live.wait),
                "degraded": live.is_degraded,
            })),
            "notes": self.notes,
        })
    }
}

impl ClientView {
    fn json(&self) -> Value {
        json!({
            "address": self.address.map(|address| address.to_string()),
            "peer": self.peer.map(|peer| peer.to_string()),
            "peer_assumed": !self.is_peer_known,
            "peer_trusted": self.is_trusted,
            "field": self.field,
            "named_by_field": self.is_claimed,
        })
    }
}

impl RouteView {
    fn json(&self) -> Value {
        json!({
            "name": &*self.name,
            "upstream": &*self.upstream,
            "forwarded_path": self.forwarded,
            "readable_by_page": self.is_readable_by_page,
        })
    }
}

impl PolicyView {
    fn json(&self) -> Value {
        json!({
            "name": &*self.name,
            "mode": display::word(display::MODES, &self.mode),
            "client": self.client,
            "id": self.id,
            "outcome": self.outcome.map(PolicyOutcome::word),
            "override": self.matched,
            "quotas": self.quotas.iter().map(QuotaView::json).collect::<Vec<_>>(),
            "cost": self.cost.as_ref().map(CostView::json),
        })
    }
}

impl QuotaView {
    fn json(&self) -> Value {
        let kind = match self.quota.algorithm {
            Algorithm::Credits { .. } => "credits",
            Algorithm::InFlight => "in_flight",
            Algorithm::Penalty { .. } => "penalty",
            _ => "quota",
        };
        let is_windowed = self.quota.has_window();
        let has_limit = is_windowed || self.quota.is_in_flight();
        json!({
            "kind": kind,
            "limit": has_limit.then_some(self.quota.limit),
            "window_seconds": is_windowed.then(|| seconds(self.quota.window)),
            "algorithm": display::algorithm(&self.quota),
            "candidate": self.is_candidate,
            "left": self.left.as_ref().map(LeftView::json),
        })
    }
}

impl LeftView {
    fn json(&self) -> Value {
        json!({
            "remaining": self.remaining,
            "debt": self.debt,
            "next_seconds": self.next.map(seconds),
            "reset_seconds": seconds(self.reset),
            "fits": self.admit,
            "fits_in_seconds": match self.retry {
                Retry::After(retry) => Some(seconds(retry)),
                Retry::Never => None,
            },
            "degraded": self.is_degraded,
        })
    }
}

impl CostView {
    fn json(&self) -> Value {
        json!({
            "units": self.units,
            "unit": &*self.unit,
            "at_least": self.is_at_least,
            "known_later": self.known_later,
        })
    }
}

impl RefusedView {
    fn json(&self) -> Value {
        json!({
            "status": self.status.as_u16(),
            "reason": self.reason.word(),
            "detail": self.detail,
            "policy": self.policy,
            "quotas": self.quotas,
            "retry_after_seconds": self.retry_after_secs,
        })
    }
}

fn word_of_choice(choice: ListenerChoice) -> &'static str {
    match choice {
        ListenerChoice::Named => "name",
        ListenerChoice::Only => "only",
        ListenerChoice::Port => "port",
        ListenerChoice::Scheme => "scheme",
        ListenerChoice::First => "first",
    }
}

fn word_of_preflight(preflight: PreflightView) -> &'static str {
    match preflight {
        PreflightView::Announced => "announced",
        PreflightView::NoPolicies => "no_policies",
        PreflightView::SaysMore => "says_more",
    }
}

fn word_of_mismatch(mismatch: &Mismatch) -> &'static str {
    match mismatch {
        Mismatch::Host => "host",
        Mismatch::Path { .. } => "path",
        Mismatch::Method => "method",
        Mismatch::MethodCase => "method_case",
        Mismatch::HeaderValue(_) => "header_value",
        Mismatch::NoHeader(_) => "header_missing",
        Mismatch::LessSpecific => "less_specific",
    }
}

fn header(mismatch: &Mismatch) -> Option<&str> {
    match mismatch {
        Mismatch::HeaderValue(name) | Mismatch::NoHeader(name) => Some(name),
        _ => None,
    }
}

/// Converts a span to seconds, with decimals.
#[expect(
    clippy::cast_precision_loss,
    reason = "below 2^53 microseconds, 285 years, it is exact enough"
)]
fn seconds(span: Micros) -> f64 {
    span.0 as f64 / 1e6
}
