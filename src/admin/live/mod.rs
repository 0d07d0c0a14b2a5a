//! How many requests came lately, and how many of them were refused or failed, step by step; and those that watch.

mod series;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use self::series::{CountersByName, RecentSteps, STEPS_MAX, StepCounters};
use crate::metrics::{PolicyMetrics, PolicyOutcome, RedisUsage, UNROUTED_NAME};
use crate::proxy::process::{ActiveConfig, Process};

/// What was counted lately, and who watches.
#[derive(Debug)]
pub(super) struct LiveFeed {
    recent: Mutex<RecentCounts>,
    /// Each step, rendered.
    steps: broadcast::Sender<Bytes>,
}

/// What was counted in the last steps.
#[derive(Debug, Default)]
pub(super) struct RecentCounts {
    steps: usize,
    pub(super) totals: RecentSteps<{ ROUTE_COUNTERS.len() }>,
    pub(super) policies: CountersByName<Arc<str>, { POLICY_COUNTERS.len() }>,
    pub(super) routes: CountersByName<Arc<str>, { ROUTE_COUNTERS.len() }>,
    /// How plans were decided where Redis is the store.
    pub(super) decisions: StepCounters<{ DECISIONS.len() }>,
}

impl LiveFeed {
    /// Counts a step; `render` renders it, for those that watch, if there are any.
    pub(super) fn step(&self, process: &Process, render: impl FnOnce(&RecentCounts) -> Bytes) {
        let mut recent = self.recent();
        recent.step(process);
        if self.steps.receiver_count() > 0 {
            // Whoever watched may have gone meanwhile.
            let _ = self.steps.send(render(&recent));
        }
    }

    /// Returns what `render` makes of the last steps, and what receives those that follow.
    pub(super) fn follow(
        &self,
        render: impl FnOnce(&RecentCounts) -> Bytes,
    ) -> (Bytes, broadcast::Receiver<Bytes>) {
        // Under the lock, so that who begins to watch misses no step.
        let recent = self.recent();
        (render(&recent), self.steps.subscribe())
    }

    pub(super) fn recent(&self) -> MutexGuard<'_, RecentCounts> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for LiveFeed {
    fn default() -> Self {
        Self {
            recent: Mutex::default(),
            steps: broadcast::Sender::new(STEPS_BEHIND_MAX),
        }
    }
}

impl RecentCounts {
    fn step(&mut self, process: &Process) {
        let live = process.live();
        self.steps = STEPS_MAX.min(self.steps + 1);
        let routes = route_counters(&live).into_iter();
        self.totals.add(self.routes.step(routes, REFUSED));
        let policies = live.snapshot.policies.iter().zip(&live.handles.policies);
        let used = policies.filter(|(policy, _)| policy.mode.is_some());
        let policies = used.map(|(policy, of)| (Arc::clone(&policy.name), policy_counters(of)));
        self.policies.step(policies, REFUSED);
        if let Some(redis) = &process.metrics.store_usage().redis {
            self.decisions.step(decisions(redis), 0);
        }
    }

    /// Shows what was counted in each of the last steps.
    pub(super) fn history(&self, until: &str) -> Value {
        let policies = self.policies.kept().into_iter();
        let policies = policies
            .map(|(name, one)| named(name, one.history(&POLICY_COUNTERS[..=REFUSED], self.steps)));
        let routes = self.routes.kept().into_iter();
        let routes =
            routes.map(|(name, one)| named(name, one.history(&ROUTE_COUNTERS, self.steps)));
        json!({
            "step_ms": STEP.as_millis(),
            "until": until,
            "totals": self.totals.history(&ROUTE_COUNTERS, self.steps),
            "policies": policies.collect::<Value>(),
            "routes": routes.collect::<Value>(),
        })
    }
}

impl<const N: usize> RecentSteps<N> {
    /// Shows by how much the first few counters grew in each of the last `steps` steps.
    fn history(&self, names: &[&str], steps: usize) -> Value {
        let counters = names.iter().enumerate();
        let shown = counters.map(|(counter, name)| {
            let growth = Value::from(self.growth(counter, steps));
            ((*name).to_owned(), growth)
        });
        Value::Object(shown.collect())
    }
}

fn named(name: &str, mut shown: Value) -> Value {
    shown["name"] = name.into();
    shown
}

/// Returns what is counted of each route, and of the requests that none took.
fn route_counters(live: &ActiveConfig) -> Vec<(Arc<str>, [u64; ROUTE_COUNTERS.len()])> {
    let routes = live.snapshot.routes.iter().zip(&live.handles.routes);
    let routes = routes.map(|(route, handle)| (Arc::clone(&route.name), handle.totals()));
    let unrouted = (Arc::from(UNROUTED_NAME), live.handles.unrouted.totals());
    routes.chain([unrouted]).collect()
}

/// Returns what is counted of a policy, in the order of [`POLICY_COUNTERS`].
fn policy_counters(policy: &PolicyMetrics) -> [u64; POLICY_COUNTERS.len()] {
    use PolicyOutcome as Outcome;
    let sum = |outcomes: &[PolicyOutcome]| outcomes.iter().map(|one| policy.total(*one)).sum();
    [
        sum(&[Outcome::Admitted, Outcome::Unlimited]),
        sum(&[Outcome::Refused, Outcome::Blocked, Outcome::Unidentified]),
        sum(&[
            Outcome::ShadowRefused,
            Outcome::Marked,
            Outcome::CandidateRefused,
        ]),
        sum(&[Outcome::Blocked]),
        sum(&[Outcome::Unanswered]),
        policy.near_limit_total(),
    ]
}

/// Returns how many plans were decided how, in the order of [`DECISIONS`].
fn decisions(redis: &RedisUsage) -> [u64; DECISIONS.len()] {
    [
        redis.answered,
        redis.remembered,
        redis.leased,
        redis.synced,
        redis.late,
        redis.failed + redis.unsent + redis.unasked,
    ]
}

/// What is counted of routes.
pub(super) const ROUTE_COUNTERS: [&str; 3] = ["requests", "refused", "failed"];
/// What is counted of policies.
pub(super) const POLICY_COUNTERS: [&str; 6] = [
    "admitted",
    "refused",
    "would_refuse",
    "blocked",
    "unanswered",
    "near_limit",
];
/// The place of what is refused, among both.
pub(super) const REFUSED: usize = 1;
/// How plans are decided where Redis is the store.
pub(super) const DECISIONS: [&str; 6] =
    ["redis", "remembered", "leased", "synced", "late", "failed"];

/// How often counters are read.
pub(super) const STEP: Duration = Duration::from_secs(2);
/// How many steps whoever watches may fall behind; then it misses some.
const STEPS_BEHIND_MAX: usize = 4;
