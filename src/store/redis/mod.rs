//! Redis: counters that a fleet of gateways shares.
//!
//! [`RedisStore`] is the process's part: key names, breakers, remembered refusals, this node's own
//! counts for when Redis is away. [`Session`] is a worker's part: its connections, which live on its
//! thread, and what it asks over them. What a request is answered when Redis is not is
//! [`guarded`](super::guarded)'s business.
//!
//! `wire` turns plans into arguments of the scripts in `lua/` and their replies into answers;
//! `link` sends them to one server; `cluster` and `sentinel` say which server that is.

mod cluster;
mod connect;
mod link;
mod nodes;
mod route;
mod sentinel;
mod session;
mod tally;
pub mod wire;

pub use session::Session;
pub(super) use tally::Lost;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};

use self::nodes::Nodes;
use self::tally::Tally;
use self::wire::Names;
use super::breaker::{Breaker, Change};
use super::fallback::Fallback;
use super::memory::MemoryStore;
use super::refusals::Refusals;
use super::series::Series;
use super::settings::{Location, RedisSettings, Settings};
use super::usage::{BreakerState, RedisUsage, Usage};
use crate::clock::{Clock, Micros};
use crate::limit::plan::SeriesId;

/// Counters in Redis: what the workers of a process share of it.
#[derive(Debug)]
pub struct RedisStore {
    pub(super) clock: Clock,
    settings: ArcSwap<InForce>,
    /// Counts changes of the settings, for sessions to see.
    changes: AtomicU64,
    names: Names,
    /// This node's own counts, for what Redis cannot decide; it names the series, too.
    pub(super) memory: Arc<MemoryStore>,
    pub(super) refusals: Refusals,
    breakers: Mutex<BTreeMap<Arc<str>, Weak<Breaker>>>,
    nodes: Nodes,
    /// What no one outside knows.
    secret: [u8; 32],
    tallies: Mutex<Vec<Arc<Tally>>>,
    is_eviction_told: Arc<AtomicBool>,
    /// Whether some server was not asked when last it was looked.
    is_troubled: AtomicBool,
}

/// The settings that may change while the process runs.
#[derive(Debug)]
pub(super) struct InForce {
    redis: RedisSettings,
    breaker: super::settings::BreakerSettings,
    pub(super) timeout: Duration,
    pub(super) refusal_cache: Micros,
}

impl RedisStore {
    /// Makes a store over Redis; nothing is connected before a worker opens a session.
    ///
    /// `memory` is what decides in its place, and has named the series so far; `secret` is what no
    /// one outside knows, and no other process has.
    pub fn new(
        redis: &RedisSettings,
        settings: &Settings,
        memory: Arc<MemoryStore>,
        clock: Clock,
        secret: &[u8; 32],
    ) -> Self {
        let names = Names::new(&redis.prefix);
        for (series_id, series) in (0..).map(SeriesId).zip(memory.series()) {
            names.note(series_id, &series);
        }
        Self {
            clock,
            settings: ArcSwap::from_pointee(InForce::new(redis, settings)),
            changes: AtomicU64::new(0),
            names,
            memory,
            refusals: Refusals::new(),
            breakers: Mutex::default(),
            nodes: Nodes::new(secret),
            secret: blake3::derive_key(
                "tollgate 2026-11 partition_ids of this node's own counts",
                secret,
            ),
            tallies: Mutex::default(),
            is_eviction_told: Arc::default(),
            is_troubled: AtomicBool::new(false),
        }
    }

    /// Goes by other settings from now on: all but the servers and the prefix.
    pub fn reload(&self, settings: &Settings) {
        self.memory.set_bytes_max(settings.memory_max);
        if let Location::Redis(redis) = &settings.location {
            let in_force = InForce::new(redis, settings);
            for breaker in self.breakers() {
                breaker.set(in_force.breaker);
            }
            self.settings.store(Arc::new(in_force));
            self.changes.fetch_add(1, Relaxed);
        }
    }

    /// Says what this node's own counts hold, what was asked of Redis and how it went.
    pub(super) fn usage(&self) -> Usage {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut usage = RedisUsage::of(tallies.iter().map(|tally| &**tally));
        drop(tallies);
        usage.refusals_remembered = self.refusals.len();
        usage.nodes = self.nodes.count();
        usage.breakers = (self.breakers().iter())
            .map(|breaker| (Arc::clone(breaker.server()), breaker.state()))
            .collect();
        Usage {
            redis: Some(Box::new(usage)),
            ..self.memory.usage()
        }
    }

    pub(super) fn series_id(&self, series: &Series) -> SeriesId {
        let series_id = self.memory.series_id(series);
        self.names.note(series_id, series);
        series_id
    }

    pub(super) fn sweep(&self) {
        self.memory.sweep();
        self.refusals.sweep(self.clock.now());
        let breakers = self.breakers();
        for breaker in &breakers {
            breaker.sweep();
        }
        // The breaker of a primary that was replaced never closes; it goes away.
        if !breakers.iter().all(is_closed) {
            self.is_troubled.store(true, Relaxed);
        } else if self.is_troubled.swap(false, Relaxed) {
            self.memory.clear();
        }
    }

    /// Forgets what was remembered under the configuration before.
    pub(super) fn retain(&self, live: &[SeriesId]) {
        self.refusals.clear();
        self.memory.retain(live);
    }

    /// Counts the changes of the settings so far.
    fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    pub(super) fn in_force(&self) -> Guard<Arc<InForce>> {
        self.settings.load()
    }

    /// Returns what decides when Redis does not.
    pub(super) fn fallback(&self) -> Fallback<'_> {
        Fallback {
            memory: &self.memory,
            partition_key: &self.secret,
            nodes: self.nodes.count(),
            cooldown: self.cooldown(),
        }
    }

    /// Returns how long a server that fails is not asked.
    pub(super) fn cooldown(&self) -> Micros {
        self.in_force().breaker.cooldown.into()
    }

    /// Returns the breaker of a server, which lives as long as a session goes by it.
    fn breaker(&self, server: &str) -> Arc<Breaker> {
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(breaker) = breakers.get(server).and_then(Weak::upgrade) {
            return breaker;
        }
        breakers.retain(|_, breaker| breaker.strong_count() > 0);
        let name: Arc<str> = server.into();
        let settings = self.in_force().breaker;
        let breaker = Breaker::new(Arc::clone(&name), settings, self.clock.clone());
        let breaker = Arc::new(breaker);
        breakers.insert(name, Arc::downgrade(&breaker));
        breaker
    }

    /// Notes what became of a breaker.
    pub(super) fn note(&self, change: Change) {
        if change == Change::Closed {
            self.is_troubled.store(true, Relaxed);
        }
    }

    fn open_tally(&self) -> (usize, Arc<Tally>) {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = Arc::new(Tally::default());
        tallies.push(Arc::clone(&tally));
        (tallies.len() - 1, tally)
    }

    fn breakers(&self) -> Vec<Arc<Breaker>> {
        let breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        breakers.values().filter_map(Weak::upgrade).collect()
    }
}

fn is_closed(breaker: &Arc<Breaker>) -> bool {
    breaker.state() == BreakerState::Closed
}

/// Renders what a server said as one line of bounded length.
fn shown(said: &str) -> String {
    let printed = |c: char| if c.is_control() { ' ' } else { c };
    said.chars().take(SAID_CHARS_MAX).map(printed).collect()
}

impl InForce {
    fn new(redis: &RedisSettings, settings: &Settings) -> Self {
        Self {
            redis: redis.clone(),
            breaker: settings.breaker,
            timeout: settings.timeout,
            refusal_cache: settings.refusal_cache.into(),
        }
    }
}

/// Most characters kept of what a server says about an error.
const SAID_CHARS_MAX: usize = 200;
