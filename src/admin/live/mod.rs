//! Recent counts of requests, refusals and failures, step by step, and the clients that watch them.

mod series;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use self::series::{CountersByName, RecentSteps, STEPS_MAX, StepCounters};
use crate::metrics::{PolicyMetrics, PolicyOutcome, RedisUsage, UNROUTED_NAME};
use crate::proxy::process::{ActiveConfig, Process};

/// Recent counts, and the clients that watch them.
#[derive(Debug)]
pub(super) struct LiveFeed {
    recent: Mutex<RecentCounts>,
    /// Channel of rendered steps to the watchers.
    steps: broadcast::Sender<Bytes>,
}

/// Counts of the last steps.
#[derive(Debug, Default)]
pub(super) struct RecentCounts {
    steps: usize,
    pub(super) totals: RecentSteps<{ ROUTE_COUNTERS.len() }>,
    pub(super) policies: CountersByName<Arc<str>, { POLICY_COUNTERS.len() }>,
    pub(super) routes: CountersByName<Arc<str>, { ROUTE_COUNTERS.len() }>,
    /// How plans were decided, if Redis is the store.
    pub(super) decisions: StepCounters<{ DECISIONS.len() }>,
}

impl LiveFeed {
    /// Takes a step; if there are watchers, sends them what `render` makes of it.
    pub(super) fn step(&self, process: &Process, render: impl FnOnce(&RecentCounts) -> Bytes) {
        let mut recent = self.recent();
        recent.step(process);
        if self.steps.receiver_count() > 0 {
            // The last watcher may have gone meanwhile.
            let _ = self.steps.send(render(&recent));
        }
    }

    /// Returns what `render` makes of the last steps, and a receiver of those that follow.
    pub(super) fn follow(
        &self,
        render: impl FnOnce(&RecentCounts) -> Bytes,
    ) -> (Bytes, broadcast::Receiver<Bytes>) {
        // Under the lock, so that a new watcher misses no step.
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

    /// Shows the counts of each of the last steps.
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
    /// Shows the growth of the first counters, one for each of `names`, in each of the last `steps` steps.
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

/// Returns the counters of each route, and of the requests that no route took.
fn route_counters(live: &ActiveConfig) -> Vec<(Arc<str>, [u64; ROUTE_COUNTERS.len()])> {
    let routes = live.snapshot.routes.iter().zip(&live.handles.routes);
    let routes = routes.map(|(route, handle)| (Arc::clone(&route.name), handle.totals()));
    let unrouted = (Arc::from(UNROUTED_NAME), live.handles.unrouted.totals());
    routes.chain([unrouted]).collect()
}

/// Returns the counters of a policy, in the order of [`POLICY_COUNTERS`].
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

/// Returns how many plans were decided in which way, in the order of [`DECISIONS`].
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

/// Names of a route's counters.
pub(super) const ROUTE_COUNTERS: [&str; 3] = ["requests", "refused", "failed"];
/// Names of a policy's counters.
pub(super) const POLICY_COUNTERS: [&str; 6] = [
    "admitted",
    "refused",
    "would_refuse",
    "blocked",
    "unanswered",
    "near_limit",
];
/// Index of `refused` in both arrays of names.
pub(super) const REFUSED: usize = 1;
/// Ways in which plans are decided, if Redis is the store.
pub(super) const DECISIONS: [&str; 6] =
    ["redis", "remembered", "leased", "synced", "late", "failed"];

/// How often counters are read.
pub(super) const STEP: Duration = Duration::from_secs(2);
/// How many steps a watcher may fall behind; after that, it misses some.
const STEPS_BEHIND_MAX: usize = 4;
