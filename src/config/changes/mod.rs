//! What a reload changes, in words, one line each; and what of it waits for a restart.
//!
//! Tables are matched by name. A quota keeps its counters exactly if its series (policy,
//! algorithm's shape, window) and its partition stay; a line about a quota says which it is.

mod policies;
mod store;
mod tables;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::snapshot::{Listener, Snapshot};

/// What a reload changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What applies at once.
    pub applied: Vec<String>,
    /// What keeps its old value until the gateway is restarted, one line per key.
    pub needs_restart: Vec<String>,
}

/// Says what changes when `new`, as the file has it, takes the place of `old`.
pub fn changes(old: &Snapshot, new: &Snapshot) -> Changes {
    let mut changes = Changes::default();
    restart(old, new, &mut changes.needs_restart);
    let lines = &mut changes.applied;
    tables::top(old, new, lines);
    for (old, new) in pairs(&old.listeners, &new.listeners, |one| &one.name) {
        if let (Some(old), Some(new)) = (old, new) {
            tables::listener(old, new, lines);
        }
    }
    for (old, new) in pairs(&old.upstreams, &new.upstreams, |one| &one.name) {
        match (old, new) {
            (Some(old), Some(new)) => tables::upstream(old, new, lines),
            (old, new) => came_or_went("upstream", old, new, |one| &one.name, lines),
        }
    }
    for (old, new) in pairs(&old.policies, &new.policies, |one| &one.name) {
        match (old, new) {
            (Some(old), Some(new)) => policies::policy(old, new, lines),
            (old, new) => came_or_went("policy", old, new, |one| &one.name, lines),
        }
    }
    for (was, is) in pairs(&old.routes, &new.routes, |one| &one.name) {
        match (was, is) {
            (Some(was), Some(is)) => tables::route((old, was), (new, is), lines),
            (was, is) => came_or_went("route", was, is, |one| &one.name, lines),
        }
    }
    changes
}

/// Gives `new` the old values of all keys that need a restart, so that the rest can apply.
///
/// The listeners are those that run, in their order, with the new settings of the same name.
#[must_use]
pub fn keep_until_restart(old: &Snapshot, mut new: Snapshot) -> Snapshot {
    let listeners = old.listeners.iter().map(|running| {
        let same = |candidate: &&Arc<Listener>| candidate.name == running.name;
        match new.listeners.iter().find(same) {
            Some(candidate) => Arc::new(Listener {
                address: running.address,
                ..Listener::clone(candidate)
            }),
            None => Arc::clone(running),
        }
    });
    new.listeners = listeners.collect();
    new.workers = old.workers;
    new.admin = old.admin.clone();
    new.store.location = store::kept(&old.store.location, new.store.location);
    new
}

fn restart(old: &Snapshot, new: &Snapshot, lines: &mut Vec<String>) {
    for (old, new) in pairs(&old.listeners, &new.listeners, |one| &one.name) {
        match (old, new) {
            (Some(old), Some(new)) => Diff::of(&format!("listener {}: ", old.name), lines).key(
                "address",
                &old.address,
                &new.address,
                ToString::to_string,
            ),
            (old, new) => came_or_went("listener", old, new, |one| &one.name, lines),
        }
    }
    let workers = |workers: &Option<usize>| match workers {
        Some(workers) => workers.to_string(),
        None => "one per core".to_owned(),
    };
    let address = |address: &Option<SocketAddr>| match address {
        Some(address) => address.to_string(),
        None => "off".to_owned(),
    };
    let mut diff = Diff::of("", lines);
    diff.key("workers", &old.workers, &new.workers, workers);
    diff.key(
        "admin: address",
        &old.admin.address,
        &new.admin.address,
        address,
    );
    store::restart(&old.store, &new.store, lines);
}

/// Collects what differs between two tables of one name.
struct Diff<'l> {
    of: String,
    lines: &'l mut Vec<String>,
}

impl<'l> Diff<'l> {
    /// Begins the lines about a table; `of` stands before each.
    fn of(of: &str, lines: &'l mut Vec<String>) -> Self {
        Self {
            of: of.to_owned(),
            lines,
        }
    }

    /// Adds `key old → new` if the two differ.
    fn key<T: PartialEq>(&mut self, key: &str, old: &T, new: &T, show: impl Fn(&T) -> String) {
        if old != new {
            self.line(&format!("{key} {} → {}", show(old), show(new)));
        }
    }

    /// Adds a line.
    fn line(&mut self, text: &str) {
        self.lines.push(format!("{}{text}", self.of));
    }
}

/// Adds that something came or went.
fn came_or_went<T>(
    kind: &str,
    old: Option<&T>,
    new: Option<&T>,
    name: impl Fn(&T) -> &Arc<str>,
    lines: &mut Vec<String>,
) {
    if let Some(old) = old {
        lines.push(format!("{kind} {} removed", name(old)));
    }
    if let Some(new) = new {
        lines.push(format!("{kind} {} added", name(new)));
    }
}

/// Pairs what has the same name: first in the old order, then what is new.
fn pairs<'s, T>(
    old: &'s [T],
    new: &'s [T],
    name: impl Fn(&T) -> &Arc<str>,
) -> Vec<(Option<&'s T>, Option<&'s T>)> {
    let named = |list: &'s [T]| -> HashMap<&str, &'s T> {
        list.iter().map(|one| (&**name(one), one)).collect()
    };
    let (was, is) = (named(old), named(new));
    let stay = old
        .iter()
        .map(|one| (Some(one), is.get(&**name(one)).copied()));
    let come = new.iter().filter(|one| !was.contains_key(&**name(one)));
    stay.chain(come.map(|one| (None, Some(one)))).collect()
}
