//! What the gateway counts of itself, for Prometheus.
//!
//! Every counter that a request touches is kept once per worker, on cache lines of its own, and
//! summed when it is scraped, so counting is an uncontended relaxed add. Series are looked up by
//! name only when a snapshot is made ([`Metrics::handles`]); a name keeps its counters across
//! reloads. Gauges of what is open or delayed are two counters: entered and left.
//!
//! Label values are names of the configuration, addresses of its endpoints or words of this program,
//! never a client's bytes.
//! `render` turns counters into text.

mod certificates;
mod endpoint;
mod listener;
mod outcome;
mod render;
mod shard;
mod store;
mod text;
mod upstream;
mod usage;

pub use endpoint::EndpointMetrics;
pub use listener::ListenerMetrics;
pub use outcome::PolicyOutcome;
pub use shard::WorkerIndex;
pub use upstream::UpstreamMetrics;
pub use usage::{BreakerState, ROUND_TRIP_BOUNDS_US, RedisUsage, ServerUsage, Usage};

pub(crate) use render::CONTENT_TYPE;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use http::StatusCode;
use prometheus_client::registry::Registry;
use smallvec::SmallVec;

use crate::cost::{MissingCost, Settled};
use crate::fault::Reason;
use crate::index::{PolicyIndex, RouteIndex, UpstreamIndex};
use certificates::Certificates;
use endpoint::EndpointName;
use shard::{ByName, Sharded, add};
use typed_index_collections::TiVec;

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    series: Arc<MetricSeries>,
    registry: Registry,
}

/// The series that the requests of one snapshot count in; indices are the snapshot's.
#[derive(Debug)]
pub struct Handles {
    /// One per route.
    pub routes: TiVec<RouteIndex, Arc<RouteMetrics>>,
    /// One per policy.
    pub policies: TiVec<PolicyIndex, Arc<PolicyMetrics>>,
    /// One per upstream.
    pub upstreams: TiVec<UpstreamIndex, Arc<UpstreamMetrics>>,
    /// For requests that no route took.
    pub unrouted: Arc<RouteMetrics>,
}

/// What is counted per route.
#[derive(Debug)]
pub struct RouteMetrics(Sharded<[AtomicU64; STATUS_CLASSES.len()]>);

/// What is counted per policy.
#[derive(Debug)]
pub struct PolicyMetrics(Sharded<PolicyShard>);

/// Units on their way back to policies because of how a request was answered. They count once they are
/// back, so not at all if that fails.
#[derive(Debug, Default)]
pub struct Refund(SmallVec<[(Arc<PolicyMetrics>, WorkerIndex, u64); 2]>);

/// What became of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The new configuration is in force.
    Applied,
    /// The file has mistakes; the old configuration stays.
    Rejected,
}

#[derive(Debug)]
struct MetricSeries {
    shards: usize,
    process: Sharded<ProcessShard>,
    routes: ByName<RouteMetrics>,
    policies: ByName<PolicyMetrics>,
    listeners: ByName<ListenerMetrics>,
    upstreams: ByName<UpstreamMetrics>,
    endpoints: ByName<EndpointMetrics, EndpointName>,
    unrouted: Arc<RouteMetrics>,
    reloads: [AtomicU64; 2],
    store: OnceLock<StoreUsage>,
    certificates: Certificates,
    log_lines_dropped: OnceLock<Arc<AtomicU64>>,
}

/// Asks the store what it holds, at every scrape.
struct StoreUsage(Box<dyn Fn() -> Usage + Send + Sync>);

#[derive(Debug, Default)]
struct ProcessShard {
    errors: ErrorCounts,
    delayed_entered: AtomicU64,
    delayed_left: AtomicU64,
    panics: AtomicU64,
}

/// Errors by the indices of their reasons.
#[derive(Debug)]
struct ErrorCounts([AtomicU64; Reason::ALL.len()]);

impl Default for ErrorCounts {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; Reason::ALL.len()])
    }
}

#[derive(Debug, Default)]
struct PolicyShard {
    outcomes: [AtomicU64; PolicyOutcome::ALL.len()],
    refunded_units: AtomicU64,
    reserved_units: AtomicU64,
    charged_units: AtomicU64,
    capped_costs: AtomicU64,
    missing_costs: [AtomicU64; MissingCost::ALL.len()],
}

impl Metrics {
    /// Makes the metrics of a process with this many workers.
    pub fn new(workers: usize) -> Self {
        let shards = workers + 1;
        let series = Arc::new(MetricSeries {
            shards,
            process: Sharded::new(shards),
            routes: ByName::default(),
            policies: ByName::default(),
            listeners: ByName::default(),
            upstreams: ByName::default(),
            endpoints: ByName::default(),
            unrouted: Arc::new(RouteMetrics(Sharded::new(shards))),
            reloads: Default::default(),
            store: OnceLock::new(),
            certificates: Certificates::default(),
            log_lines_dropped: OnceLock::new(),
        });
        let mut registry = Registry::with_prefix("tollgate");
        registry.register_collector(Box::new(Arc::clone(&series)));
        Self { series, registry }
    }

    /// Returns the index of the `n`th worker, counted from 0. If there are fewer workers, returns
    /// the index of the threads that are not workers.
    pub fn worker(&self, n: usize) -> WorkerIndex {
        WorkerIndex(n.min(self.series.shards - 1))
    }

    /// Returns the index of the threads that are not workers.
    pub fn control(&self) -> WorkerIndex {
        WorkerIndex(self.series.shards - 1)
    }

    /// Finds or makes the series of a snapshot, given the names it has.
    ///
    /// Series of earlier snapshots that no request holds any more are forgotten.
    pub fn handles<'n>(
        &self,
        routes: impl Iterator<Item = &'n Arc<str>>,
        policies: impl Iterator<Item = &'n Arc<str>>,
        upstreams: impl Iterator<Item = &'n Arc<str>>,
    ) -> Handles {
        let series = &*self.series;
        let handles = Handles {
            routes: routes.map(|name| self.route(name)).collect(),
            policies: policies.map(|name| self.policy(name)).collect(),
            upstreams: upstreams.map(|name| self.upstream(name)).collect(),
            unrouted: Arc::clone(&series.unrouted),
        };
        series.routes.forget_unheld();
        series.policies.forget_unheld();
        series.upstreams.forget_unheld();
        self.forget_endpoints();
        handles
    }

    /// Finds or makes a route's series.
    pub fn route(&self, name: &Arc<str>) -> Arc<RouteMetrics> {
        let make = || RouteMetrics(Sharded::new(self.series.shards));
        self.series.routes.find_or_make(name, make)
    }

    /// Finds or makes a policy's series.
    pub fn policy(&self, name: &Arc<str>) -> Arc<PolicyMetrics> {
        let make = || PolicyMetrics(Sharded::new(self.series.shards));
        self.series.policies.find_or_make(name, make)
    }

    /// Asks `certificates` at every scrape for each one's listener, its name and the seconds until it
    /// expires; the first call counts.
    pub fn observe_certificates(
        &self,
        certificates: impl Fn() -> Vec<(Arc<str>, Box<str>, i64)> + Send + Sync + 'static,
    ) {
        self.series.certificates.observe(certificates);
    }

    /// Finds or makes a listener's series.
    pub fn listener(&self, name: &Arc<str>) -> Arc<ListenerMetrics> {
        let make = || ListenerMetrics::new(self.series.shards);
        self.series.listeners.find_or_make(name, make)
    }

    /// Finds or makes an upstream's series.
    pub fn upstream(&self, name: &Arc<str>) -> Arc<UpstreamMetrics> {
        let make = || UpstreamMetrics::new(self.series.shards);
        self.series.upstreams.find_or_make(name, make)
    }

    /// Finds or makes the series of an endpoint of an upstream.
    pub fn endpoint(&self, upstream: &Arc<str>, endpoint: &Arc<str>) -> Arc<EndpointMetrics> {
        let name = (Arc::clone(upstream), Arc::clone(endpoint));
        let make = || EndpointMetrics::new(self.series.shards);
        self.series.endpoints.find_or_make(&name, make)
    }

    /// Forgets the series of endpoints that nobody holds any more.
    pub fn forget_endpoints(&self) {
        self.series.endpoints.forget_unheld();
    }

    /// Counts an error.
    pub fn error(&self, worker: WorkerIndex, reason: Reason) {
        add(&self.series.process.of(worker).errors.0[reason.index()]);
    }

    /// Counts a request that begins to be delayed.
    pub fn delayed(&self, worker: WorkerIndex) {
        add(&self.series.process.of(worker).delayed_entered);
    }

    /// Counts a request that is no longer delayed.
    pub fn let_go(&self, worker: WorkerIndex) {
        add(&self.series.process.of(worker).delayed_left);
    }

    /// Counts a panic that ended a connection.
    pub fn panicked(&self, worker: WorkerIndex) {
        add(&self.series.process.of(worker).panics);
    }

    /// Counts a reload.
    pub fn reloaded(&self, reload: Reload) {
        add(&self.series.reloads[reload as usize]);
    }

    /// Asks `usage` for the store's size at every scrape; the first call counts.
    pub fn observe_store(&self, usage: impl Fn() -> Usage + Send + Sync + 'static) {
        let _ = self.series.store.set(StoreUsage(Box::new(usage)));
    }

    /// Returns what the store says of itself, once it is observed.
    pub fn store_usage(&self) -> Usage {
        let usage = self.series.store.get().map(|store| (store.0)());
        usage.unwrap_or_default()
    }

    /// Shows the counter of lines that the log lost; the first call counts.
    pub fn observe_log(&self, lines_dropped: Arc<AtomicU64>) {
        let _ = self.series.log_lines_dropped.set(lines_dropped);
    }
}

impl Refund {
    /// Adds units of a policy; the worker counts them.
    pub fn add(&mut self, policy: &Arc<PolicyMetrics>, worker: WorkerIndex, units: u64) {
        self.0.push((Arc::clone(policy), worker, units));
    }

    /// Counts them, because they are back.
    pub fn count(self) {
        for (policy, worker, units) in self.0 {
            (policy.0.of(worker).refunded_units).fetch_add(units, Relaxed);
        }
    }
}

impl RouteMetrics {
    /// Counts a request that was answered with `status`, whoever answered.
    pub fn answered(&self, worker: WorkerIndex, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        let counters = self.0.of(worker);
        add(counters.get(class).unwrap_or(&counters[0]));
    }

    /// Counts a request whose client left before it was answered.
    pub fn unanswered(&self, worker: WorkerIndex) {
        add(&self.0.of(worker)[0]);
    }
}

impl PolicyMetrics {
    /// Counts what the policy did to a request.
    pub fn decided(&self, worker: WorkerIndex, outcome: PolicyOutcome) {
        add(&self.0.of(worker).outcomes[outcome as usize]);
    }

    /// Counts units that were reserved, and those that were charged in the end.
    pub fn charged(&self, worker: WorkerIndex, reserved: u64, charged: u64) {
        let shard = self.0.of(worker);
        shard.reserved_units.fetch_add(reserved, Relaxed);
        shard.charged_units.fetch_add(charged, Relaxed);
    }

    /// Counts an answer whose body should have told what the request cost.
    pub fn settled(&self, worker: WorkerIndex, settled: Settled) {
        let shard = self.0.of(worker);
        if settled.is_capped {
            add(&shard.capped_costs);
        }
        if let Some(missing) = settled.missing_cost {
            add(&shard.missing_costs[missing as usize]);
        }
    }

    /// Counts a response whose header field should have reported what the request cost.
    pub fn cost_header_missing(&self, worker: WorkerIndex) {
        add(&self.0.of(worker).missing_costs[MissingCost::Header as usize]);
    }
}

impl std::fmt::Debug for StoreUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreUsage")
    }
}

/// Labels of the status classes; the first is a request that was never answered.
const STATUS_CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
