//! What the gateway counts about itself, for Prometheus.
//!
//! Every counter that a request touches is kept once per worker, on cache lines of its own, and summed when it is
//! scraped, so counting is an uncontended relaxed add. Series are looked up by name only when a snapshot is made
//! ([`Metrics::handles`]); a name keeps its counters across reloads. A gauge of what is open or delayed is the
//! difference of two counters: entered and left.
//!
//! Label values are names of the configuration, addresses of its endpoints or words of this program,
//! never a client's bytes.
//! `render` turns counters into text.

mod certificates;
mod configured;
mod duration;
mod endpoint;
mod exposition;
mod listener;
mod notifications;
mod outcome;
mod policy;
mod process;
mod refused;
mod render;
mod route;
mod shard;
mod store;
mod text;
mod upstream;
mod usage;

pub use configured::{ConfigInfo, ConfiguredQuota};
pub use endpoint::EndpointMetrics;
pub use exposition::Exposition;
pub use listener::ListenerMetrics;
pub use outcome::PolicyOutcome;
pub use policy::{PolicyMetrics, Refund};
#[cfg(test)]
pub(crate) use refused::is_counted;
pub use route::{RouteMetrics, UNROUTED_NAME};
pub use shard::{Sharded, WorkerIndex};
pub use upstream::UpstreamMetrics;
pub use usage::{BreakerState, ROUND_TRIP_BOUNDS_US, RedisUsage, ServerUsage, Usage};

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use http::StatusCode;
use prometheus_client::registry::Registry;

use crate::clock::Micros;
use crate::fault::Reason;
use crate::index::{PolicyIndex, RouteIndex, UpstreamIndex};
use certificates::Certificates;
use configured::Configured;
use duration::RouteDurations;
use endpoint::EndpointName;
use notifications::NotificationCounts;
use process::ProcessCollector;
use refused::Refused;
use route::{OTHERS, UNROUTED};
use shard::{ByName, add};
use typed_index_collections::TiVec;

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    series: Arc<MetricSeries>,
    registry: Registry,
}

/// Series in which the requests of one snapshot are counted; indices are the snapshot's.
#[derive(Debug)]
pub struct Handles {
    /// Series of each route.
    pub routes: TiVec<RouteIndex, RouteMetrics>,
    /// Series of each policy.
    pub policies: TiVec<PolicyIndex, PolicyMetrics>,
    /// Series of each upstream.
    pub upstreams: TiVec<UpstreamIndex, Arc<UpstreamMetrics>>,
    /// Series of requests that no route took.
    pub unrouted: RouteMetrics,
}

#[derive(Debug)]
struct MetricSeries {
    shards: usize,
    process: Sharded<ProcessShard>,
    routes: ByName<RouteMetrics>,
    policies: ByName<PolicyMetrics>,
    listeners: ByName<Arc<ListenerMetrics>>,
    upstreams: ByName<Arc<UpstreamMetrics>>,
    endpoints: ByName<Arc<EndpointMetrics>, EndpointName>,
    unrouted: RouteMetrics,
    durations: RouteDurations,
    /// How many times each thread has done its housekeeping.
    progress: Sharded<AtomicU64>,
    refused: Refused,
    reloads_applied: AtomicU64,
    reloads_rejected: AtomicU64,
    configured: Configured,
    notifications: NotificationCounts,
    store: OnceLock<StoreUsage>,
    certificates: Certificates,
    log_lines_dropped: OnceLock<Arc<AtomicU64>>,
}

/// Function that returns what the store holds; called at every scrape.
struct StoreUsage(Box<dyn Fn() -> Usage + Send + Sync>);

#[derive(Debug, Default)]
struct ProcessShard {
    errors: ErrorCounts,
    delayed_entered: AtomicU64,
    delayed_left: AtomicU64,
    panics: AtomicU64,
}

/// Counts of errors, by the indices of their reasons.
#[derive(Debug)]
struct ErrorCounts([AtomicU64; Reason::ALL.len()]);

impl Default for ErrorCounts {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; Reason::ALL.len()])
    }
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
            unrouted: RouteMetrics::new(shards, UNROUTED),
            durations: RouteDurations::new(shards),
            progress: Sharded::new(shards),
            refused: Refused::new(shards),
            reloads_applied: AtomicU64::new(0),
            reloads_rejected: AtomicU64::new(0),
            configured: Configured::default(),
            notifications: NotificationCounts::default(),
            store: OnceLock::new(),
            certificates: Certificates::default(),
            log_lines_dropped: OnceLock::new(),
        });
        let mut registry = Registry::default();
        let own = registry.sub_registry_with_prefix("tollgate");
        own.register_collector(Box::new(Arc::clone(&series)));
        registry.register_collector(Box::new(ProcessCollector::default()));
        Self { series, registry }
    }

    /// Returns the index of the `n`th worker, counted from 0. If there are fewer workers, returns
    /// the index of the control thread.
    pub fn worker(&self, n: usize) -> WorkerIndex {
        WorkerIndex(n.min(self.series.shards - 1))
    }

    /// Returns the index of the control thread. No other thread counts under it, because a counter has one writer.
    pub fn control(&self) -> WorkerIndex {
        WorkerIndex(self.series.shards - 1)
    }

    /// Makes one `T` for each worker, and one for the control thread.
    pub fn sharded<T: Default>(&self) -> Sharded<T> {
        Sharded::new(self.series.shards)
    }

    /// Notes that a thread has done its housekeeping.
    pub fn progressed(&self, thread: WorkerIndex) {
        add(self.series.progress.of(thread), 1);
    }

    /// Returns how many times each thread has done its housekeeping.
    pub fn progress(&self) -> Vec<u64> {
        let threads = self.series.progress.all();
        threads.map(|progress| progress.load(Relaxed)).collect()
    }

    /// Finds or makes the series of a snapshot with these names.
    ///
    /// Series of earlier snapshots that no request holds any more are forgotten.
    pub fn handles<'n>(
        &self,
        routes: impl Iterator<Item = &'n Arc<str>>,
        policies: impl Iterator<Item = &'n Arc<str>>,
        upstreams: impl Iterator<Item = &'n Arc<str>>,
    ) -> Handles {
        let series = &*self.series;
        let routes: Vec<_> = routes.map(|name| (name, self.route(name))).collect();
        series.durations.give_free_places(&routes);
        let handles = Handles {
            routes: routes.into_iter().map(|(_, route)| route).collect(),
            policies: policies.map(|name| self.policy(name)).collect(),
            upstreams: upstreams.map(|name| self.upstream(name)).collect(),
            unrouted: series.unrouted.clone(),
        };
        series.routes.forget_unheld();
        series.policies.forget_unheld();
        series.upstreams.forget_unheld();
        self.forget_endpoints();
        handles
    }

    /// Finds or makes a route's series.
    pub fn route(&self, name: &Arc<str>) -> RouteMetrics {
        let make = || RouteMetrics::new(self.series.shards, OTHERS);
        self.series.routes.find_or_make(name, make)
    }

    /// Finds or makes a policy's series.
    pub fn policy(&self, name: &Arc<str>) -> PolicyMetrics {
        let make = || PolicyMetrics::new(self.series.shards);
        self.series.policies.find_or_make(name, make)
    }

    /// Calls `certificates` at every scrape for the listener, name and expiry, in seconds since 1970, of each
    /// certificate. Only the first observer counts.
    pub fn observe_certificates(
        &self,
        certificates: impl Fn() -> Vec<(Arc<str>, Box<str>, i64)> + Send + Sync + 'static,
    ) {
        self.series.certificates.observe(certificates);
    }

    /// Finds or makes a listener's series.
    pub fn listener(&self, name: &Arc<str>) -> Arc<ListenerMetrics> {
        let make = || Arc::new(ListenerMetrics::new(self.series.shards));
        self.series.listeners.find_or_make(name, make)
    }

    /// Finds or makes an upstream's series.
    pub fn upstream(&self, name: &Arc<str>) -> Arc<UpstreamMetrics> {
        let make = || Arc::new(UpstreamMetrics::new(self.series.shards));
        self.series.upstreams.find_or_make(name, make)
    }

    /// Finds or makes the series of an endpoint of an upstream.
    pub fn endpoint(&self, upstream: &Arc<str>, endpoint: &Arc<str>) -> Arc<EndpointMetrics> {
        let name = (Arc::clone(upstream), Arc::clone(endpoint));
        let make = || Arc::new(EndpointMetrics::new(self.series.shards));
        self.series.endpoints.find_or_make(&name, make)
    }

    /// Forgets the series of endpoints that are no longer in use.
    pub fn forget_endpoints(&self) {
        self.series.endpoints.forget_unheld();
    }

    /// Counts an error.
    pub fn error(&self, worker: WorkerIndex, reason: Reason) {
        add(&self.series.process.of(worker).errors.0[reason.index()], 1);
    }

    /// Counts a request that begins to be delayed.
    pub fn delayed(&self, worker: WorkerIndex) {
        add(&self.series.process.of(worker).delayed_entered, 1);
    }

    /// Counts a request that is no longer delayed.
    pub fn delay_ended(&self, worker: WorkerIndex) {
        add(&self.series.process.of(worker).delayed_left, 1);
    }

    /// Counts a panic that ended a connection.
    pub fn panicked(&self, worker: WorkerIndex) {
        add(&self.series.process.of(worker).panics, 1);
    }

    /// Counts a request of a route by how long it took.
    pub fn took(&self, worker: WorkerIndex, route: &RouteMetrics, took: Micros) {
        self.series.durations.took(worker, route, took);
    }

    /// Counts a response with which the gateway itself refuses a request.
    pub fn refused(&self, worker: WorkerIndex, status: StatusCode, reason: Reason) {
        self.series.refused.count(worker, status, reason);
    }

    /// Shows these quotas from now on, and no others.
    pub fn show_quotas(&self, quotas: Vec<ConfiguredQuota>) {
        self.series.configured.show_quotas(quotas);
    }

    /// Shows how often clients reach these thresholds of policies, in percent, from now on, and no other thresholds.
    pub fn show_thresholds(&self, thresholds: Vec<(Arc<str>, u8)>) {
        self.series.notifications.show(thresholds);
    }

    /// Counts a client that has reached a threshold.
    pub fn notified(&self, policy: &Arc<str>, percent: u8) {
        self.series.notifications.count(policy, percent);
    }

    /// Shows the configuration with which the process begins.
    pub fn started(&self, in_force: ConfigInfo) {
        self.series.configured.applied(in_force);
    }

    /// Counts a reload, and shows that its configuration is in force.
    pub fn reloaded(&self, in_force: ConfigInfo) {
        self.series.reloads_applied.fetch_add(1, Relaxed);
        self.series.configured.applied(in_force);
    }

    /// Counts a reload whose file has mistakes: the old configuration stays in force.
    pub fn reload_rejected(&self) {
        self.series.reloads_rejected.fetch_add(1, Relaxed);
        self.series.configured.rejected();
    }

    /// Calls `usage` at every scrape for what the store holds. Only the first observer counts.
    pub fn observe_store(&self, usage: impl Fn() -> Usage + Send + Sync + 'static) {
        let _ = self.series.store.set(StoreUsage(Box::new(usage)));
    }

    /// Returns what the store says about itself, once it is observed.
    pub fn store_usage(&self) -> Usage {
        let usage = self.series.store.get().map(|store| (store.0)());
        usage.unwrap_or_default()
    }

    /// Shows the counter of lines that the log lost. Only the first observer counts.
    pub fn observe_log(&self, lines_dropped: Arc<AtomicU64>) {
        let _ = self.series.log_lines_dropped.set(lines_dropped);
    }
}

impl std::fmt::Debug for StoreUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreUsage")
    }
}
