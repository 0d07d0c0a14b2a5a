//! What the workers of a process share of a store over Redis: refusals, breakers, own counts.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use crossbeam_utils::CachePadded;
use serde::{Deserialize, Serialize};

use super::call_metrics::CallMetrics;
use super::fallback::Fallback;
use super::fleet::{Fleet, FleetView};
use super::followed::{self, FollowTerms, FollowedQuotas, SeenState};
use super::holdings::Holdings;
use super::leases::{LeaseTerms, Leases};
use super::quota_key::QuotaKey;
use super::refusals::{Interval, Refusals};
use super::servers::Servers;
use crate::clock::{Clock, Micros, Timestamp};
use crate::limit::plan::SeriesId;
use crate::limit::{Charged, Check, PartitionId};
use crate::metrics::{RedisUsage, ServerUsage, Usage};
use crate::store::holder::GatewayId;
use crate::store::memory::MemoryStore;
use crate::store::redis::wire::{self, Reply};
use crate::store::redis::{Observers, RedisSession, RedisShared};
use crate::store::resets::{PartitionResets, RESET_TIME_UNKNOWN};
use crate::store::series::Series;
use crate::store::settings::{Deployment, Location, RedisSettings, Settings};

/// Counters in Redis, and what is needed to answer while they cannot be reached.
#[derive(Debug)]
pub struct GuardedStore {
    pub(super) clock: Clock,
    settings: ArcSwap<LiveSettings>,
    /// Counts changes of the settings; sessions compare it with what they have applied.
    changes: AtomicU64,
    redis: RedisShared,
    /// This node's own counts, for decisions that Redis does not make. This store also numbers the series.
    pub(super) memory: Arc<MemoryStore>,
    pub(super) refusals: Refusals,
    /// When partitions in Redis were reset.
    pub(super) resets: PartitionResets,
    pub(super) servers: Arc<Servers>,
    pub(super) fleet: Fleet,
    /// Units in flight that this gateway's requests hold.
    pub(super) holdings: Holdings,
    /// Units that this gateway holds ahead.
    pub(super) leases: Leases,
    /// Synced quotas, which this gateway counts by itself.
    pub(super) followed: FollowedQuotas,
    /// The key of the partition ids in `memory`; nobody outside knows it.
    secret: [u8; 32],
    /// Counters of each worker's calls.
    metrics: Mutex<Vec<Arc<CachePadded<CallMetrics>>>>,
}

/// The settings that may change while the process runs.
#[derive(Debug)]
pub(super) struct LiveSettings {
    pub(super) redis: RedisSettings,
    pub(super) timeout: Duration,
    refusal_cache: Micros,
    min_nodes: u32,
}

/// What a process passes to the one that takes over, so that this can buy units ahead at once.
#[derive(Debug, Serialize, Deserialize)]
pub struct PassedLeasing {
    counters_at: String,
    fleet: FleetView,
}

impl GuardedStore {
    /// Makes a store over Redis; nothing is connected before a worker opens a session.
    ///
    /// `memory` decides in place of Redis, and has numbered the series so far. Nobody outside knows `secret`; only a
    /// process that takes over from this one has the same.
    pub fn new(
        redis: &RedisSettings,
        settings: &Settings,
        memory: Arc<MemoryStore>,
        clock: Clock,
        secret: &[u8; 32],
    ) -> Self {
        let shared = RedisShared::new(&redis.prefix, clock.clone());
        for (series_id, series) in (0..).map(SeriesId).zip(memory.series()) {
            shared.note(series_id, &series);
        }
        let servers = Servers::new(settings.breaker, clock.clone());
        Self {
            clock,
            settings: ArcSwap::from_pointee(LiveSettings::new(redis, settings)),
            changes: AtomicU64::new(0),
            redis: shared,
            memory,
            refusals: Refusals::new(),
            resets: PartitionResets::default(),
            servers: Arc::new(servers),
            fleet: Fleet::new(secret),
            // Each process draws its own, also after a hand-over.
            holdings: Holdings::new(GatewayId::draw()),
            leases: Leases::new(),
            followed: FollowedQuotas::new(),
            secret: blake3::derive_key(
                "tollgate 2026-11 partition_ids of this node's own counts",
                secret,
            ),
            metrics: Mutex::default(),
        }
    }

    /// Applies other settings from now on: all but the servers and the prefix, which need a restart.
    pub fn reload(&self, settings: &Settings) {
        self.memory.set_bytes_max(settings.max_memory);
        if let Location::Redis(redis) = &settings.location {
            let mut live = LiveSettings::new(redis, settings);
            let old = &self.settings().redis;
            if live.redis == *old {
                // Keeps the password cells that connections use, so that these see what is read again below.
                live.redis = old.clone();
            }
            self.servers.set(settings.breaker);
            if live.refusal_cache == Micros(0) {
                self.refusals.retain(&[]);
            }
            self.settings.store(Arc::new(live));
            self.changes.fetch_add(1, Relaxed);
            // The old passwords may still be in force, so their files are read again, too.
            self.refresh_passwords();
        }
    }

    /// Reads again the passwords in force that came from files.
    pub fn refresh_passwords(&self) {
        self.settings().redis.refresh_passwords();
    }

    /// Returns the usage of this node's own counts, and how Redis is doing.
    pub(crate) fn usage(&self) -> Usage {
        let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let mut usage = RedisUsage::default();
        for metrics in &*metrics {
            metrics.add_to(&mut usage);
        }
        drop(metrics);
        usage.refusals_remembered = self.refusals.len();
        usage.units_leased = self.leases.held(self.clock.steady());
        usage.quotas_followed = self.followed.len();
        usage.nodes = self.fleet.count();
        usage.share_nodes = self.share_nodes();
        let servers = self.servers.all();
        usage.connections = servers.iter().map(|server| server.connections()).sum();
        usage.servers = (servers.iter())
            .map(|server| ServerUsage {
                name: Arc::clone(server.breaker.server()),
                breaker: server.breaker.state(),
                is_far: server.distance.is_far(),
                evicts_all: server.evicts_all(),
                is_forgetful: server.is_forgetful(),
            })
            .collect();
        Usage {
            redis: Some(Box::new(usage)),
            ..self.memory.usage()
        }
    }

    /// Returns the id of this gateway.
    pub(crate) fn gateway(&self) -> GatewayId {
        self.holdings.gateway()
    }

    /// Returns how many servers sessions use, and at least how many the settings name.
    pub(crate) fn servers(&self) -> usize {
        let named = match &self.settings().redis.deployment {
            Deployment::Cluster(nodes) => nodes.len(),
            Deployment::Single(_) | Deployment::Unix(_) | Deployment::Sentinel { .. } => 1,
        };
        self.servers.all().len().max(named)
    }

    /// Returns the id of a series, and notes the name that its keys have in Redis.
    pub(crate) fn series_id(&self, series: &Series) -> SeriesId {
        let series_id = self.memory.series_id(series);
        self.redis.note(series_id, series);
        series_id
    }

    /// Notes that a partition's quota of a series was reset at `at`, by the clock of Redis: this node's own counts and
    /// its refusals are forgotten, and charges from before give nothing back.
    pub(crate) fn note_reset(&self, series_id: SeriesId, partition_id: PartitionId, at: Timestamp) {
        self.resets.note(series_id, partition_id, at);
        let key = QuotaKey {
            series_id,
            partition_id,
        };
        self.leases.reset(key, |quota, charged| {
            charged.at <= at + quota.phase(partition_id)
        });
        // While the time of the reset is not known, synced counts stay.
        if at != RESET_TIME_UNKNOWN {
            self.followed.reset(key, at, self.clock.steady());
        }
        let own = self.fallback().partition_id(partition_id);
        self.memory.reset(&[series_id], own);
        let now = self.clock.now();
        self.refusals.given_back(series_id, partition_id, now);
    }

    /// Says whether a check's partition was reset after a charge.
    pub(super) fn was_reset_since(&self, check: &Check<'_>, charged: &Charged) -> bool {
        let phase = check.quota.phase(check.partition_id);
        (self.resets).was_reset_since(check.series_id, check.partition_id, charged.at, phase)
    }

    /// Forgets a reset, because no charge from before it is left.
    pub(crate) fn forget_reset(&self, series_id: SeriesId, partition_id: PartitionId) {
        self.resets.forget(series_id, partition_id);
        let own = self.fallback().partition_id(partition_id);
        self.memory.forget_reset(series_id, own);
    }

    /// Drops what has expired. To be called several times a second.
    pub(crate) fn sweep(&self) {
        self.memory.sweep();
        self.refusals.sweep(self.clock.now());
        self.servers.sweep(self.settings().timeout);
    }

    /// Forgets the refusals and the states of series that are not live.
    pub(crate) fn retain(&self, live: &[SeriesId]) {
        self.refusals.retain(live);
        self.memory.retain(live);
    }

    /// Stops buying and spending units ahead, so that the next sweeps give back those held; returns what the process
    /// that takes over needs to know to buy them.
    pub fn pass_leasing_on(&self) -> PassedLeasing {
        self.leases.close();
        PassedLeasing {
            counters_at: self.settings().redis.counters_at(),
            fleet: self.fleet.view(),
        }
    }

    /// Buys units ahead again, because the process that was to take over has failed.
    pub fn resume_leasing(&self) {
        self.leases.reopen();
    }

    /// Takes over what the old process has seen of the fleet, so that this one may buy units ahead at once; does
    /// nothing unless both have the same Redis.
    pub fn take_leasing_over(&self, passed: &PassedLeasing) {
        if passed.counters_at == self.settings().redis.counters_at() {
            self.fleet.take_over(passed.fleet, self.clock.now());
        }
    }

    /// Returns the current terms on which units are bought ahead and spent.
    pub(super) fn lease_terms(&self) -> LeaseTerms {
        let (now, steady) = (self.clock.now(), self.clock.steady());
        LeaseTerms {
            now: steady,
            nodes: self.share_nodes(),
            counted_until: steady + self.fleet.counted_until().since(now),
            may_buy: self.fleet.is_known(now),
        }
    }

    /// Returns the current terms on which this gateway counts by itself.
    pub(super) fn follow_terms(&self) -> FollowTerms {
        FollowTerms {
            now: self.clock.steady(),
            nodes: self.share_nodes(),
        }
    }

    /// Follows the synced quotas of a plan that Redis decided; it was asked at `sent`.
    pub(super) fn follow(&self, plan: &[Check<'_>], reply: &Reply, sent: Timestamp) {
        if !plan.iter().any(followed::is_synced) {
            return;
        }
        let (now, took) = (self.clock.steady(), self.clock.now().since(sent));
        for (check, state) in plan
            .iter()
            .zip(wire::states(plan, reply).into_iter().flatten())
        {
            let seen = state.and_then(|state| SeenState::new(state, reply.time, (now - took, now)));
            if let Some(seen) = seen {
                self.followed.follow(check, seen);
            }
        }
    }

    /// Counts the changes of the settings so far.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    pub(super) fn settings(&self) -> Guard<Arc<LiveSettings>> {
        self.settings.load()
    }

    /// Returns the number of nodes among which a quota is divided where Redis does not decide.
    fn share_nodes(&self) -> u32 {
        self.fleet.count().max(self.settings().min_nodes)
    }

    /// Returns the fallback, which decides if Redis does not.
    pub(super) fn fallback(&self) -> Fallback<'_> {
        Fallback {
            memory: &self.memory,
            partition_key: &self.secret,
            nodes: self.share_nodes(),
            cooldown: self.servers.cooldown(),
        }
    }

    /// Remembers what Redis refused; it was asked at `sent`.
    pub(super) fn remember(&self, plan: &[Check<'_>], reply: &Reply, sent: Timestamp) {
        let cap = self.settings().refusal_cache;
        if let Ok(refused) = wire::refused(plan, reply) {
            let received = self.clock.now();
            let asked = Interval { sent, received };
            self.refusals.remember(plan, refused, asked, cap);
        }
    }

    /// Opens a worker's connections, on its runtime.
    pub(super) fn open_redis(&self, observers: Rc<dyn Observers>) -> RedisSession {
        let settings = self.settings();
        RedisSession::open(&self.redis, &settings.redis, settings.timeout, observers)
    }

    /// Returns a number and metrics for one more worker.
    pub(super) fn open_metrics(&self) -> (usize, Arc<CachePadded<CallMetrics>>) {
        let mut all = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics = Arc::default();
        all.push(Arc::clone(&metrics));
        (all.len() - 1, metrics)
    }
}

impl LiveSettings {
    fn new(redis: &RedisSettings, settings: &Settings) -> Self {
        Self {
            redis: redis.clone(),
            timeout: settings.timeout,
            refusal_cache: settings.refusal_cache.into(),
            min_nodes: settings.min_nodes,
        }
    }
}
