//! What is known of a gateway: counts of the last ten minutes, its state, and how old that is.

use super::series::{NamedPoints, Points};
use super::text::SafeText;
use super::wire::{LiveHistory, LiveStep, RequestCounts, RequestHistory};
use crate::clock::Timestamp;

/// What is known of a gateway.
#[derive(Debug)]
pub(super) struct GatewayView {
    pub(super) totals: Points<3>,
    pub(super) policies: NamedPoints<4>,
    pub(super) routes: NamedPoints<3>,
    /// Steps that have been seen, those of the history among them.
    pub(super) steps: usize,
    /// Steps that were received live: only these count what would have been refused, and what was near a limit.
    pub(super) steps_followed: usize,
    /// The latest step, with the gateway's state; empty before the first one.
    pub(super) latest: LiveStep,
    /// When the latest step or history arrived.
    pub(super) updated: Timestamp,
    /// The outage, while no updates arrive.
    pub(super) outage: Option<Outage>,
    step_ms: u64,
}

/// A stream that broke.
#[derive(Debug)]
pub(super) struct Outage {
    pub(super) reason: SafeText,
    pub(super) retry_at: Timestamp,
}

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) count: u64,
    tenths_per_second: u64,
}

impl GatewayView {
    pub(super) fn new(history: LiveHistory, now: Timestamp) -> Self {
        let policies = history.policies.into_iter().map(|one| {
            let points = Points::of(&[&one.admitted, &one.refused]);
            (one.name, points)
        });
        let routes = history.routes.into_iter().map(|one| {
            let points = request_points(&one);
            (one.name, points)
        });
        let totals = request_points(&history.totals);
        Self {
            steps: totals.count(),
            totals,
            policies: NamedPoints::of(REFUSED, policies),
            routes: NamedPoints::of(REFUSED, routes),
            steps_followed: 0,
            latest: LiveStep::default(),
            updated: now,
            outage: None,
            step_ms: history.step_ms.max(1),
        }
    }

    /// Makes a view of a history whose last step is `step`, as `/api/live` answers a client that accepts no stream.
    pub(super) fn once(history: LiveHistory, step: LiveStep, now: Timestamp) -> Self {
        let mut view = Self::new(history, now);
        view.totals.forget_last();
        view.policies.forget_last();
        view.routes.forget_last();
        view.step(step, now);
        view
    }

    /// Starts again with the history of another stream; keeps the state until that stream's first step.
    pub(super) fn resume(&mut self, history: LiveHistory, now: Timestamp) {
        let latest = std::mem::take(&mut self.latest);
        *self = Self {
            latest,
            ..Self::new(history, now)
        };
    }

    pub(super) fn step(&mut self, mut step: LiveStep, now: Timestamp) {
        step.bound();
        self.totals.push(request_counts(&step.totals));
        let policies = std::mem::take(&mut step.policies).into_iter();
        self.policies.step(policies.map(|one| {
            let counts = [one.admitted, one.refused, one.would_refuse, one.near_limit];
            (one.name, counts)
        }));
        let routes = std::mem::take(&mut step.routes).into_iter();
        self.routes.step(routes.map(|one| {
            let counts = request_counts(&one);
            (one.name, counts)
        }));
        self.steps = self.steps.wrapping_add(1);
        self.steps_followed = self.steps_followed.saturating_add(1);
        self.latest = step;
        self.updated = now;
        self.outage = None;
    }

    /// Returns how often something happened lately.
    pub(super) fn rate<const N: usize>(&self, points: &Points<N>, counter: usize) -> Rate {
        self.rate_over(points, counter, self.totals.count().clamp(1, STEPS_LATELY))
    }

    /// Like `rate`, for counters that histories do not have; returns `None` if no step has come yet.
    pub(super) fn rate_followed<const N: usize>(
        &self,
        points: &Points<N>,
        counter: usize,
    ) -> Option<Rate> {
        let steps = self.steps_followed.min(STEPS_LATELY);
        (steps > 0).then(|| self.rate_over(points, counter, steps))
    }

    /// Returns how many seconds `rate` covers.
    pub(super) fn seconds_lately(&self) -> u64 {
        let steps = self.totals.count().clamp(1, STEPS_LATELY) as u64;
        (steps * self.step_ms / 1000).max(1)
    }

    /// Returns how often something happened if it happened `count` times in a step.
    pub(super) fn rate_of_step(&self, count: u64) -> Rate {
        Rate::of(count, self.step_ms)
    }

    fn rate_over<const N: usize>(&self, points: &Points<N>, counter: usize, steps: usize) -> Rate {
        let span_ms = steps as u64 * self.step_ms;
        Rate::of(points.lately(counter, steps), span_ms)
    }
}

impl Rate {
    fn of(count: u64, span_ms: u64) -> Self {
        Self {
            count,
            tenths_per_second: count.saturating_mul(10_000) / span_ms,
        }
    }

    /// Whether the rate is at least ten a second.
    pub(super) fn is_high(self) -> bool {
        self.tenths_per_second >= 100
    }

    /// Shows the rate per second.
    pub(super) fn per_second(self) -> String {
        let tenths = self.tenths_per_second;
        match tenths {
            0 if self.count > 0 => "<0.1".to_owned(),
            0 => "0".to_owned(),
            1..100 => format!("{}.{}", tenths / 10, tenths % 10),
            _ => tenths.saturating_add(5).div_euclid(10).to_string(),
        }
    }
}

fn request_points(history: &RequestHistory) -> Points<3> {
    Points::of(&[&history.requests, &history.refused, &history.failed])
}

fn request_counts(counts: &RequestCounts) -> [u64; 3] {
    [counts.requests, counts.refused, counts.failed]
}

/// Indices of the counters of requests.
pub(super) const REQUESTS: usize = 0;
pub(super) const FAILED: usize = 2;
/// Index of the counter of refusals, of requests and of policies.
pub(super) const REFUSED: usize = 1;
/// Indices of the counters of policies.
pub(super) const ADMITTED: usize = 0;
pub(super) const WOULD_REFUSE: usize = 2;
pub(super) const NEAR_LIMIT: usize = 3;
/// Steps over which rates are taken: ten seconds.
const STEPS_LATELY: usize = 5;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn history() -> LiveHistory {
        serde_json::from_value(json!({
            "step_ms": 2000,
            "totals": { "requests": [9, 10, 20], "refused": [0, 0, 5], "failed": [0, 0, 0] },
            "policies": [{ "name": "p", "admitted": [9, 10, 15], "refused": [0, 0, 5] }],
            "routes": [],
        }))
        .expect("a history")
    }

    fn step(refused: u64, would_refuse: u64) -> LiveStep {
        serde_json::from_value(json!({
            "totals": { "requests": 20, "refused": refused },
            "policies": [{ "name": "p", "refused": refused, "would_refuse": would_refuse }],
            "reload": null,
        }))
        .expect("a step")
    }

    fn shown(view: &GatewayView) -> (String, Option<String>) {
        let (_, points) = view.policies.iter().next().expect("a policy");
        let refused = view.rate(points, REFUSED).per_second();
        let would = view.rate_followed(points, WOULD_REFUSE);
        (refused, would.map(Rate::per_second))
    }

    #[test]
    fn rates_are_those_of_the_last_ten_seconds_or_since_they_are_known() {
        let mut view = GatewayView::new(history(), Timestamp(1));
        assert_eq!(shown(&view), ("0.8".into(), None));
        view.step(step(15, 4), Timestamp(2));
        assert_eq!(shown(&view), ("2.5".into(), Some("2.0".into())));
        for _ in 0..5 {
            view.step(step(40, 0), Timestamp(3));
        }
        assert_eq!(shown(&view), ("20".into(), Some("0".into())));
        assert_eq!(view.rate_of_step(0).per_second(), "0");
        assert_eq!(Rate::of(1, 20_000).per_second(), "<0.1");
    }

    #[test]
    fn an_answer_counts_its_last_step_once() {
        let view = GatewayView::once(history(), step(5, 1), Timestamp(1));
        assert_eq!(view.totals.values(REFUSED), [0, 0, 5]);
        assert_eq!(shown(&view), ("0.8".into(), Some("0.5".into())));
    }

    #[test]
    fn another_stream_replaces_what_was_counted_and_keeps_how_things_stand() {
        let mut view = GatewayView::new(history(), Timestamp(1));
        let ready = json!({ "overview": { "ready": true }, "totals": { "requests": 1 } });
        view.step(serde_json::from_value(ready).expect("a step"), Timestamp(2));
        view.resume(history(), Timestamp(3));
        assert_eq!(view.totals.values(REQUESTS), [9, 10, 20]);
        assert_eq!((view.latest.overview.ready, view.steps_followed), (true, 0));
    }
}
