//! Follows the directives of the fleet, and puts them in force beside the file.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::keys::directive::Ordered;
use crate::keys::{Directive, InForce, in_force};
use crate::proxy::process::{ActiveConfig, Process};
use crate::snapshot::Snapshot;
use crate::store::Session;
use crate::store::directives::{DirectiveSet, StoredDirective};

/// Reads the directives each second, and when one was given here.
pub(crate) struct DirectiveFollower {
    process: Arc<Process>,
    session: Session,
    in_force: Arc<InForce>,
    /// The version that is in force; none before the store has been asked.
    version: Option<u64>,
    /// The resets that this node knows, and when they were.
    resets: HashMap<String, Option<u64>>,
    /// Whether it was logged that the store cannot be asked.
    is_logged: bool,
}

impl DirectiveFollower {
    pub(crate) fn new(process: Arc<Process>, session: Session, in_force: Arc<InForce>) -> Self {
        Self {
            process,
            session,
            in_force,
            version: None,
            resets: HashMap::new(),
            is_logged: false,
        }
    }

    /// Follows them as long as the gateway lives.
    pub(crate) async fn follow(mut self) {
        let in_force = Arc::clone(&self.in_force);
        let mut period = tokio::time::interval(PERIOD);
        period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = period.tick() => {}
                () = in_force.given.notified() => {}
            }
            self.read().await;
            self.in_force.read.notify_waiters();
        }
    }

    async fn read(&mut self) {
        let now = self.process.clock.now();
        // No store has such a version.
        let known = self.version.unwrap_or(u64::MAX);
        let mut new = None;
        match self.session.directives(known).await {
            Err(error) if self.version.is_none() && !self.is_logged => {
                self.is_logged = true;
                tracing::warn!(
                    %error,
                    "what operators ordered for single clients (blocks, overrides for a time) is not known yet"
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
        self.put_in_force(new, now);
    }

    fn note_known(&self) {
        if self.version.is_none() {
            self.in_force.is_known.store(true, Relaxed);
            if self.is_logged {
                tracing::info!("what operators ordered for single clients is known");
            }
        }
    }

    /// Writes back what the store has lost: it has an older version than this node holds. Returns whether there was
    /// anything to write.
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
                "Redis had lost what operators ordered for single clients: it is written back"
            );
        }
        true
    }

    /// Returns the directives that have not ended.
    fn held(&self, now: Timestamp) -> Vec<StoredDirective> {
        let parts = self.in_force.lock();
        let held = parts.directives.iter().filter(|one| one.until > now);
        held.map(Directive::stored).collect()
    }

    /// Puts `new` directives in force, or what is left of those that are.
    fn put_in_force(&mut self, new: Option<Vec<Directive>>, now: Timestamp) {
        let in_force = Arc::clone(&self.in_force);
        let mut parts = in_force.lock();
        let has_ended = parts.directives.iter().any(|one| one.until <= now);
        if new.is_none() && !has_ended {
            return;
        }
        let mut directives = new.unwrap_or_else(|| parts.directives.clone());
        directives.retain(|one| one.until > now);
        if directives == parts.directives {
            return;
        }
        let old = std::mem::replace(&mut parts.directives, directives);
        let live = Arc::clone(&self.process.live());
        self.note_resets(&old, &parts.directives, &live.snapshot);
        let are_grants = |one: &&Directive| matches!(one.text.order, Ordered::Grant(_));
        if old
            .iter()
            .filter(are_grants)
            .eq(parts.directives.iter().filter(are_grants))
        {
            return;
        }
        let mut snapshot = live.snapshot.clone();
        let process = &self.process;
        parts.apply_to(&mut snapshot, &live.partition_key, &process.store);
        let (metrics, endpoints) = (&process.metrics, &process.endpoints);
        let live = ActiveConfig::new(snapshot, metrics, endpoints, &process.random_key);
        process.swap(live);
    }

    /// Tells the store of resets that are new or over.
    fn note_resets(&mut self, old: &[Directive], new: &[Directive], snapshot: &Snapshot) {
        for directive in new {
            let Ordered::Reset(at) = directive.text.order else {
                continue;
            };
            if self.resets.insert(directive.id.clone(), at) == Some(at) {
                continue;
            }
            // Until it is known when it was, nothing comes back.
            let at = at.map_or(NOT_YET, Timestamp);
            for (series_id, partition_id) in in_force::reset_states(directive, snapshot) {
                self.process.store.note_reset(series_id, partition_id, at);
            }
        }
        let is_over = |one: &&Directive| !new.iter().any(|other| other.id == one.id);
        for directive in old.iter().filter(is_over) {
            if self.resets.remove(&directive.id).is_some() {
                for (series_id, partition_id) in in_force::reset_states(directive, snapshot) {
                    self.process.store.forget_reset(series_id, partition_id);
                }
            }
        }
    }
}

/// Later than any charge.
const NOT_YET: Timestamp = Timestamp(u64::MAX / 2);
/// How often the directives are read.
const PERIOD: Duration = Duration::from_secs(1);
