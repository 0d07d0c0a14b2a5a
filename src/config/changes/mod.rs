//! Lists what a reload changes, one line each, and which changes wait for a restart.
//!
//! Files are compared key by key, as the options list them; tables are matched by name. A quota keeps its counters
//! exactly if its series (policy, role, algorithm's shape, window) and its partition stay the same; a line about a
//! quota says whether they do.

mod quotas;
mod store;
mod upstreams;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Loaded;
use super::compile::listener;
use super::file::{File, RawRoute, Table};
use super::options::{ADMIN, Change, Effect, JWT, LISTENER, LOG, ROUTE, TOP, UPSTREAM};
use crate::snapshot::Snapshot;

/// What a reload changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changes that apply at once, one line each.
    pub applied: Vec<String>,
    /// Changes that wait until the gateway is restarted, one line each.
    pub needs_restart: Vec<String>,
}

/// Says what changes when `new` takes the place of `old`.
pub fn changes(old: &File, new: &File) -> Changes {
    let mut all = Changes::default();
    all.add("", TOP.changes(&old.top.value, &new.top.value));
    all.add("admin: ", ADMIN.changes(&old.admin.value, &new.admin.value));
    let store = store::changes(&old.store.value, &new.store.value);
    all.add("store: ", store);
    all.add("jwt: ", JWT.changes(&old.jwt.value, &new.jwt.value));
    all.add("log: ", LOG.changes(&old.log.value, &new.log.value));
    let (applies, restart) = (Effect::Applies, Effect::NeedsRestart);
    for (of, old, new) in all.both("listener", restart, &old.listeners.raw, &new.listeners.raw) {
        all.add(&of, LISTENER.changes(old, new));
    }
    for (of, old, new) in all.both("upstream", applies, &old.upstreams.raw, &new.upstreams.raw) {
        all.add(&of, UPSTREAM.changes(old, new));
    }
    for (of, old, new) in all.both("policy", applies, &old.policies.raw, &new.policies.raw) {
        all.add(&of, quotas::changes(old, new));
    }
    for (of, old, new) in all.both("route", applies, &old.routes.raw, &new.routes.raw) {
        all.add(&of, ROUTE.changes(old, new));
    }
    all.applied
        .extend(another_order(&old.routes.raw, &new.routes.raw));
    all
}

/// Gives `new` the old values of all keys that need a restart, so that the other changes can apply.
///
/// The listeners stay those that run, in their order; each takes its new settings from the listener of the same name.
#[must_use]
pub fn keep_until_restart(old: &File, running: &Snapshot, mut new: Loaded) -> Loaded {
    let (file, snapshot) = (&mut new.file, &mut new.snapshot);
    TOP.keep(&old.top.value, &mut file.top.value);
    ADMIN.keep(&old.admin.value, &mut file.admin.value);
    let location = &mut snapshot.store.location;
    store::keep(
        (&old.store.value, &running.store.location),
        (&mut file.store.value, location),
    );
    if snapshot.tokens == running.tokens {
        // The old verifier remembers which tokens it has verified.
        snapshot.tokens.clone_from(&running.tokens);
    }
    upstreams::keep(&running.upstreams.raw, &mut snapshot.upstreams.raw);
    let listeners = old.listeners.iter().zip(&running.listeners);
    let listeners = listeners.map(|(table, was)| {
        let mut both = file.listeners.iter().zip(&snapshot.listeners);
        let Some((same, is)) = both.find(|(one, _)| one.name == table.name) else {
            return (table.clone(), Arc::clone(was));
        };
        let (mut kept, mut tls) = (same.clone(), is.tls.clone());
        LISTENER.keep(&table.value, &mut kept.value);
        if let (Some(tls), Some(was)) = (&mut tls, &was.tls) {
            tls.succeed(was);
        }
        let is = listener(&kept, tls);
        (kept, is)
    });
    (file.listeners, snapshot.listeners) = listeners.unzip();
    snapshot.general = file.top.value.general.clone();
    snapshot.admin = file.admin.value.clone();
    new
}

impl Changes {
    /// Adds a line for each changed key of a table, which begins with `of`.
    fn add(&mut self, of: &str, changes: Vec<Change>) {
        let is_afresh = |change: &Change| change.effect == Effect::CountersAfresh;
        let all_afresh = changes.iter().any(is_afresh);
        for Change { key, text, effect } in changes {
            let note = match effect {
                Effect::CountersAfresh => ", counters start afresh",
                // If some counters start afresh, the line that says so is enough.
                Effect::CountersKept if !all_afresh => ", counters kept",
                _ => "",
            };
            let space = if key.is_empty() { "" } else { " " };
            self.line(effect, format!("{of}{key}{space}{text}{note}"));
        }
    }

    fn line(&mut self, effect: Effect, line: String) {
        match effect {
            Effect::NeedsRestart => self.needs_restart.push(line),
            _ => self.applied.push(line),
        }
    }

    /// Returns the tables that both files have, each with the beginning of its lines. For each table that only one file
    /// has, adds a line with `effect`.
    fn both<'t, T>(
        &mut self,
        noun: &str,
        effect: Effect,
        old: &'t [Table<T>],
        new: &'t [Table<T>],
    ) -> Vec<(String, &'t T, &'t T)> {
        let named = |tables: &'t [Table<T>]| -> HashMap<&str, &T> {
            tables.iter().map(|one| (&*one.name, &one.value)).collect()
        };
        let (was, is) = (named(old), named(new));
        let mut both = Vec::new();
        for Table { name, value, .. } in old {
            match is.get(&**name) {
                Some(new) => both.push((format!("{noun} {name}: "), value, *new)),
                None => self.line(effect, format!("{noun} {name} removed")),
            }
        }
        for table in new.iter().filter(|table| !was.contains_key(&*table.name)) {
            self.line(effect, format!("{noun} {} added", table.name));
        }
        both
    }
}

/// Says if routes with regular expressions are tried in another order, which is that of the file.
fn another_order(old: &[Table<RawRoute>], new: &[Table<RawRoute>]) -> Option<String> {
    let names = |routes: &[Table<RawRoute>]| -> Vec<Arc<str>> {
        let is_regex = |route: &&Table<RawRoute>| route.value.path_regex.is_some();
        let routes = routes.iter().filter(is_regex);
        routes.map(|route| Arc::clone(&route.name)).collect()
    };
    let (was, is) = (names(old), names(new));
    let (before, after): (HashSet<_>, HashSet<_>) = (was.iter().collect(), is.iter().collect());
    let stay = was.iter().filter(|name| after.contains(name));
    let mut moved = stay.zip(is.iter().filter(|name| before.contains(name)));
    let (was, is) = moved.find(|(was, is)| was != is)?;
    Some(format!(
        "route {is} is tried before route {was} now: both have regular expressions"
    ))
}
