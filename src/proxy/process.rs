//! What the workers of one process share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Cache, Guard};
use tokio::sync::Notify;
use typed_index_collections::TiVec;

use super::downstream::capacity::Capacity;
use super::notifications::Notifications;
use super::trace::Traces;
use super::upstream::{Endpoints, UpstreamState};
use super::usage_cache::UsageCache;
use super::wire::sockets::Sockets;
use crate::clock::Clock;
use crate::index::{PolicyIndex, UpstreamIndex};
use crate::limiter::{ClientNotes, KnownClients, Limiter, SeenClients, TopClients};
use crate::logging;
use crate::logging::LogFormat;
use crate::metrics::{ConfiguredQuota, Handles, Metrics};
use crate::snapshot::Snapshot;
use crate::store::settings::{Location, Settings};
use crate::store::{Session, Store};

/// What the workers of one process share; the configuration in it is swapped whole.
#[derive(Debug)]
pub struct Process {
    live: Arc<ArcSwap<ActiveConfig>>,
    /// Earlier configurations that requests may still hold.
    retired: Mutex<Vec<Arc<ActiveConfig>>>,
    /// The process's clock.
    pub clock: Clock,
    /// The store of the counters.
    pub store: Store,
    /// The process's metrics.
    pub metrics: Arc<Metrics>,
    /// How many connections there are, and may be.
    pub(crate) capacity: Arc<Capacity>,
    /// What is known of the endpoints of upstreams.
    pub endpoints: Arc<Endpoints>,
    /// The clients that were seen lately.
    pub(crate) known_clients: Arc<KnownClients>,
    /// Reports clients that reach thresholds.
    pub(crate) notifications: Notifications,
    /// The watchers of requests.
    pub(crate) traces: Traces,
    /// Clients that have asked for their usage lately.
    pub(crate) usage_cache: UsageCache,
    /// A key that nobody outside the process knows.
    pub(crate) random_key: [u8; 32],
    /// Whether all connections end after their next answers as soon as the process drains, instead of a few at a time.
    drains_at_once: AtomicBool,
    is_forced: AtomicBool,
    forced: Notify,
    /// Charges that workers left unsettled when they ended.
    unsettled: AtomicUsize,
}

/// A worker's cache of the configuration in force: until that changes, loading it touches no shared reference count.
pub(super) type LiveCache = Cache<Arc<ArcSwap<ActiveConfig>>, Arc<ActiveConfig>>;

/// A configuration and the handles that measure its parts.
#[derive(Debug)]
pub struct ActiveConfig {
    /// The configuration.
    pub snapshot: Snapshot,
    /// Handles of the metrics of its parts.
    pub handles: Handles,
    /// What is known of the endpoints of its upstreams; none for built-in answers.
    pub(crate) upstreams: TiVec<UpstreamIndex, Option<Arc<UpstreamState>>>,
    /// The top clients of its policies.
    pub(crate) top_clients: TiVec<PolicyIndex, TopClients>,
    /// Whether any policy in use has thresholds.
    has_thresholds: bool,
    /// Format of event lines. It is decided once, because asking whether there is a terminal is a
    /// system call.
    pub log_format: LogFormat,
    /// Format of the access log's lines.
    pub(crate) access_format: LogFormat,
    /// The key of partition ids.
    pub(crate) partition_key: [u8; 32],
    /// The key of the digests by which clients are shown: in the log, and to upstreams.
    pub(crate) digest_key: [u8; 32],
}

impl ActiveConfig {
    /// Prepares `snapshot` to be put in force: finds the metrics and the states of its parts.
    ///
    /// Nobody outside the process knows `process_key`; it is the key of partition ids if no other process
    /// has to make the same ones.
    pub fn new(
        snapshot: Snapshot,
        metrics: &Metrics,
        endpoints: &Endpoints,
        process_key: &[u8; 32],
    ) -> Self {
        let handles = metrics.handles(
            snapshot.routes.iter().map(|route| &route.name),
            snapshot.policies.iter().map(|policy| &policy.name),
            snapshot.upstreams.iter().map(|upstream| &upstream.name),
        );
        metrics.show_quotas(configured_quotas(&snapshot));
        let thresholds = thresholds(&snapshot);
        let has_thresholds = !thresholds.is_empty();
        metrics.show_thresholds(thresholds);
        let (format, files) = (snapshot.log.format, snapshot.log.files());
        Self {
            log_format: logging::format_of(format, files.events),
            access_format: logging::format_of(format, files.access.or(files.events)),
            partition_key: partition_key(&snapshot.store, process_key),
            digest_key: secret_key(&snapshot.store).unwrap_or(*process_key),
            upstreams: endpoints.adopt(&snapshot.upstreams.raw).into(),
            top_clients: (snapshot.policies.iter())
                .map(|_| TopClients::new(metrics))
                .collect(),
            has_thresholds,
            snapshot,
            handles,
        }
    }

    /// Takes over the top clients of the previous configuration, for each policy of the same name.
    fn inherit(&mut self, before: &Self) {
        let names = before.snapshot.policies.iter().map(|policy| &policy.name);
        let known: HashMap<_, _> = names.zip(&before.top_clients).collect();
        for (policy, top) in self.snapshot.policies.iter().zip(&mut self.top_clients) {
            if let Some(found) = known.get(&policy.name) {
                *top = TopClients::clone(found);
            }
        }
    }

    /// Returns the limiter that decides requests by this configuration; it notes clients in `seen`, and thresholds
    /// that are reached in `observer`.
    pub(crate) fn limiter<'l>(
        &'l self,
        store: &'l Session,
        seen: Option<&'l SeenClients>,
        observer: Option<&'l Notifications>,
    ) -> Limiter<'l> {
        let observer = observer.filter(|_| self.has_thresholds);
        Limiter {
            thresholds: observer.map(|observer| observer as _),
            snapshot: &self.snapshot,
            partition_key: &self.partition_key,
            digest_key: &self.digest_key,
            store,
            notes: seen.map(|seen| ClientNotes {
                seen,
                top: &self.top_clients,
            }),
        }
    }
}

/// Returns the thresholds of the policies that are in use, in percent.
fn thresholds(snapshot: &Snapshot) -> Vec<(Arc<str>, u8)> {
    let policies = snapshot.policies.iter();
    let policies = policies.filter(|policy| policy.mode.is_some());
    let thresholds = policies.flat_map(|policy| {
        let thresholds = policy.notify.iter();
        thresholds.map(|threshold| (Arc::clone(&policy.name), threshold.percent()))
    });
    thresholds.collect()
}

/// Returns the quotas of the policies that are in use, for metrics.
fn configured_quotas(snapshot: &Snapshot) -> Vec<ConfiguredQuota> {
    let policies = snapshot.policies.iter();
    let policies = policies.filter(|policy| policy.mode.is_some());
    let quotas = policies.flat_map(|policy| {
        let quotas = policy.grant.quotas().iter();
        let bounded = quotas.filter(|quota| !quota.quota.is_balance());
        bounded.map(|quota| ConfiguredQuota {
            policy: Arc::clone(&policy.name),
            quota: quota.items.name().trim_matches('"').into(),
            units: quota.quota.limit,
            window: quota.quota.has_window().then_some(quota.quota.window),
            overshoot: match snapshot.store.location {
                Location::Memory => None,
                Location::Redis(_) => {
                    (policy.consistency).overshoot_max(&quota.quota, snapshot.store.min_nodes)
                }
            },
        })
    });
    quotas.collect()
}

impl Process {
    /// Begins a process with `live` as the configuration in force.
    pub fn new(
        live: ActiveConfig,
        clock: Clock,
        store: Store,
        metrics: Arc<Metrics>,
        endpoints: Arc<Endpoints>,
        random_key: [u8; 32],
    ) -> Self {
        Self {
            capacity: Arc::new(Capacity::new(
                &live.snapshot.listeners,
                Arc::new(Sockets::new(usize::MAX)),
                &metrics,
            )),
            notifications: Notifications::new(clock.clone(), Arc::clone(&metrics)),
            live: Arc::new(ArcSwap::from_pointee(live)),
            retired: Mutex::default(),
            clock,
            store,
            metrics,
            endpoints,
            known_clients: Arc::default(),
            traces: Traces::default(),
            usage_cache: UsageCache::default(),
            random_key,
            drains_at_once: AtomicBool::new(false),
            is_forced: AtomicBool::new(false),
            forced: Notify::new(),
            unsettled: AtomicUsize::new(0),
        }
    }

    /// Notes how many charges a worker leaves unsettled.
    pub(crate) fn note_unsettled(&self, charges: usize) {
        self.unsettled.fetch_add(charges, Relaxed);
    }

    /// Returns how many charges were left unsettled by workers that have ended.
    pub fn unsettled(&self) -> usize {
        self.unsettled.load(Relaxed)
    }

    /// Makes all connections end after their next answers as soon as the process drains, because the process that has
    /// taken over does not learn what they spend from then on.
    pub(crate) fn drain_at_once(&self) {
        self.drains_at_once.store(true, Relaxed);
    }

    pub(crate) fn drains_at_once(&self) -> bool {
        self.drains_at_once.load(Relaxed)
    }

    /// Makes a shutdown wait for nothing more.
    pub fn force_shutdown(&self) {
        self.is_forced.store(true, Relaxed);
        self.forced.notify_one();
    }

    /// Waits until a shutdown must wait for nothing more; only one task may call it.
    pub(crate) async fn forced(&self) {
        if !self.is_forced() {
            self.forced.notified().await;
        }
    }

    pub(crate) fn is_forced(&self) -> bool {
        self.is_forced.load(Relaxed)
    }

    /// Returns the configuration in force.
    pub fn live(&self) -> Guard<Arc<ActiveConfig>> {
        self.live.load()
    }

    /// Returns a cache of the configuration in force, for one worker.
    pub(super) fn live_cache(&self) -> LiveCache {
        Cache::new(Arc::clone(&self.live))
    }

    /// Returns how many sockets there are towards clients and origins.
    pub(crate) fn sockets(&self) -> &Arc<Sockets> {
        &self.capacity.sockets
    }

    /// Bounds the sockets towards clients and origins.
    pub(crate) fn bound_sockets(&self, max: usize) {
        self.capacity.bound(max);
    }

    /// Returns the key of partition ids under a store's settings.
    pub(crate) fn partition_key(&self, store: &Settings) -> [u8; 32] {
        partition_key(store, &self.random_key)
    }

    /// Puts `live` in force; requests that began with its predecessor keep that.
    pub fn swap(&self, mut live: ActiveConfig) {
        live.inherit(&self.live());
        self.capacity.reload(&live.snapshot.listeners);
        let old = self.live.swap(Arc::new(live));
        self.retired().push(old);
    }

    /// Frees earlier configurations that nobody holds any more, so that no worker has to.
    pub fn free_retired(&self) {
        self.retired().retain(|old| Arc::strong_count(old) > 1);
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Arc<ActiveConfig>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether all processes that count in the same store have the same key of partition ids.
pub fn is_partition_key_known(store: &Settings) -> bool {
    store.key_secret.is_some() || matches!(store.location, Location::Redis(_))
}

/// Returns the key of partition ids. It is the whole fleet's if the fleet shares counters.
///
/// If the fleet has no secret, its key is a constant, and anyone can tell under which key a
/// client's counters are. If counters are in memory, the key is this process's own, so nobody can
/// choose values whose partition ids collide.
pub fn partition_key(store: &Settings, process_key: &[u8; 32]) -> [u8; 32] {
    secret_key(store).unwrap_or_else(|| match &store.location {
        Location::Memory => *process_key,
        Location::Redis(_) => blake3::derive_key(PARTITION_CONTEXT, b""),
    })
}

/// Returns the key that all gateways with the same `key_secret` have; none if there is no secret.
pub fn secret_key(store: &Settings) -> Option<[u8; 32]> {
    let secret = store.key_secret.as_ref()?;
    Some(blake3::derive_key(PARTITION_CONTEXT, secret.0.as_bytes()))
}

/// The context that keys of partition ids are derived for: a secret that is used elsewhere too
/// gives another key there.
const PARTITION_CONTEXT: &str = "tollgate 2026-11 tags of partitions";

#[cfg(test)]
mod tests {
    use super::*;

    /// Another context would start every counter of every fleet afresh.
    #[test]
    fn partition_ids_of_a_fleet_stay_the_same_from_version_to_version() {
        let first_bytes =
            |secret: &[u8]| blake3::derive_key(PARTITION_CONTEXT, secret)[..4].to_vec();
        assert_eq!(first_bytes(b""), [85, 62, 18, 156]);
        assert_eq!(first_bytes(b"secret"), [37, 252, 231, 179]);
    }
}
