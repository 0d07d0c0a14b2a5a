//! Reads the fleet's directives from the store, and puts them in force in addition to the file.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::clock::{Timestamp, monotonic};
use crate::keys::directive::DirectiveKind;
use crate::keys::{ActiveSources, ConfigSources, Directive, reset_states};
use crate::limit::PartitionId;
use crate::limit::plan::SeriesId;
use crate::proxy::process::{ActiveConfig, Process};
use crate::snapshot::Snapshot;
use crate::store::RESET_TIME_UNKNOWN;
use crate::store::directives::{DirectiveSet, StoredDirective};
use crate::store::{Session, Store};

/// Reads the directives once a second, and at once when this gateway was given one.
pub(crate) struct DirectiveFollower {
    process: Arc<Process>,
    session: Session,
    sources: Arc<ActiveSources>,
    /// Version of the directives in force; `None` until the store has answered.
    version: Option<u64>,
    resets: NotedResets,
    /// Until when an unreachable store is not logged, because connecting takes a moment.
    connects_until: Instant,
    /// Whether it was logged that the directives cannot be read.
    is_logged: bool,
}

impl DirectiveFollower {
    pub(crate) fn new(
        process: Arc<Process>,
        session: Session,
        sources: Arc<ActiveSources>,
    ) -> Self {
        Self {
            process,
            session,
            sources,
            version: None,
            resets: NotedResets::default(),
            connects_until: monotonic() + CONNECTS_WITHIN,
            is_logged: false,
        }
    }

    /// Follows the directives for as long as the gateway runs.
    pub(crate) async fn follow(mut self) {
        let sources = Arc::clone(&self.sources);
        // Requests arrive already, so blocks must not wait for a whole period.
        while self.version.is_none() && monotonic() < self.connects_until {
            self.read().await;
            tokio::time::sleep(CONNECTS_PERIOD).await;
        }
        let mut period = tokio::time::interval(PERIOD);
        period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = period.tick() => {}
                () = sources.given.notified() => {}
            }
            self.read().await;
            self.sources.read.notify_waiters();
        }
    }

    async fn read(&mut self) {
        let now = self.process.clock.now();
        // No store has the version `u64::MAX`, so the first answer is never "unchanged".
        let known = self.version.unwrap_or(u64::MAX);
        let mut new = None;
        match self.session.directives(known).await {
            Err(error)
                if self.version.is_none()
                    && !self.is_logged
                    && monotonic() >= self.connects_until =>
            {
                self.is_logged = true;
                tracing::warn!(
                    %error,
                    "directives for single clients (blocks, overrides for a time) are not known yet"
                );
            }
            Err(_) | Ok(None) => {}
            Ok(Some(set)) => {
                if set.version < self.version.unwrap_or_default() && self.restore(&set, now).await {
                    return;
                }
                self.note_known();
                self.version = Some(set.version);
                let read = set.entries.into_iter().filter_map(Directive::read);
                new = Some(read.collect::<Vec<_>>());
            }
        }
        let Some(directives) = self.changed(new, now) else {
            return;
        };
        let (process, sources) = (Arc::clone(&self.process), Arc::clone(&self.sources));
        let resets = std::mem::take(&mut self.resets);
        // Compiling takes time, and the acceptors run on this thread.
        let put = move || put_in_force(&process, &sources, resets, directives);
        match tokio::task::spawn_blocking(put).await {
            Ok(resets) => self.resets = resets,
            Err(error) => {
                tracing::error!(%error, "new directives could not be put in force");
            }
        }
    }

    fn note_known(&self) {
        if self.version.is_none() {
            self.sources.is_known.store(true, Relaxed);
            if self.is_logged {
                tracing::info!("directives for single clients are known");
            }
        }
    }

    /// Writes the directives back if the store has lost some, which an older version than this node's shows. Returns
    /// false if there are none to write, here or there.
    async fn restore(&self, found: &DirectiveSet, now: Timestamp) -> bool {
        let held = DirectiveSet {
            version: self.version.unwrap_or_default(),
            entries: self.held(now),
        };
        if held.entries.is_empty() && found.entries.is_empty() {
            return false;
        }
        let restored = self.session.restore_directives(&held).await;
        if restored.is_ok_and(|is_restored| is_restored) {
            let directives = held.entries.len();
            tracing::warn!(
                directives,
                "Redis had lost directives for single clients: they are written back"
            );
        }
        true
    }

    /// Returns the directives that have not ended.
    fn held(&self, now: Timestamp) -> Vec<StoredDirective> {
        let parts = self.sources.parts();
        let held = parts.directives.iter().filter(|one| one.until > now);
        held.map(Directive::stored).collect()
    }

    /// Returns the directives to put in force: the `new` ones, or those of the old ones that have not ended; `None` if
    /// they are the ones in force already.
    fn changed(&self, new: Option<Vec<Directive>>, now: Timestamp) -> Option<Vec<Directive>> {
        let parts = self.sources.parts();
        let has_ended = parts.directives.iter().any(|one| one.until <= now);
        if new.is_none() && !has_ended {
            return None;
        }
        let mut directives = new.unwrap_or_else(|| parts.directives.to_vec());
        directives.retain(|one| one.until > now);
        (*directives != *parts.directives).then_some(directives)
    }
}

/// Puts directives in force, and tells the store of their resets; returns the updated `resets`.
fn put_in_force(
    process: &Process,
    sources: &ActiveSources,
    mut resets: NotedResets,
    directives: Vec<Directive>,
) -> NotedResets {
    let change = sources.change();
    let before = change.before();
    let after = ConfigSources {
        file: Arc::clone(&before.file),
        directives: directives.into(),
    };
    let live = Arc::clone(&process.live());
    resets.note(&after.directives, &live.snapshot, &process.store);
    let is_grant = |one: &&Directive| matches!(one.text.kind, DirectiveKind::Grant(_));
    let grants = |parts: &ConfigSources| -> Vec<Directive> {
        parts.directives.iter().filter(is_grant).cloned().collect()
    };
    if grants(&before) != grants(&after) {
        let mut snapshot = live.snapshot.clone();
        after.apply_to(&mut snapshot, &live.partition_key, &process.store);
        let (metrics, endpoints) = (&process.metrics, &process.endpoints);
        let live = ActiveConfig::new(snapshot, metrics, endpoints, &process.random_key);
        process.swap(live);
    }
    change.end(after);
    resets
}

/// Resets that the store was told of, by directive id.
#[derive(Debug, Default)]
struct NotedResets(HashMap<String, NotedReset>);

/// A reset as the store was told of it.
#[derive(Debug, Default)]
struct NotedReset {
    /// Time of the reset, as the directive last stated it.
    at: Timestamp,
    states: HashSet<(SeriesId, PartitionId)>,
}

impl NotedResets {
    /// Tells the store of resets that are new or over.
    fn note(&mut self, directives: &[Directive], snapshot: &Snapshot, store: &Store) {
        let mut over = std::mem::take(&mut self.0);
        for directive in directives {
            let DirectiveKind::Reset(at) = directive.text.kind else {
                continue;
            };
            // Until the time of the reset is known, no charge is refunded.
            let at = at.map_or(RESET_TIME_UNKNOWN, Timestamp);
            let mut noted = over.remove(&directive.id).unwrap_or_default();
            if noted.at != at {
                noted.at = at;
                for (series_id, partition_id) in reset_states(directive, snapshot) {
                    store.note_reset(series_id, partition_id, at);
                    noted.states.insert((series_id, partition_id));
                }
            }
            self.0.insert(directive.id.clone(), noted);
        }
        for (series_id, partition_id) in over.into_values().flat_map(|noted| noted.states) {
            store.forget_reset(series_id, partition_id);
        }
    }
}

/// How long the first connection to the store may take, and how often the directives are tried meanwhile.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);
const CONNECTS_PERIOD: Duration = Duration::from_millis(20);
/// How often the directives are read.
const PERIOD: Duration = Duration::from_secs(1);
