//! What a reload changes about the store: never a secret, only that it is another.
//!
//! Which servers there are, and what keys begin with, is settled at the start. The credentials and
//! the certificates belong to the servers: they apply while these stay, and wait with them.

use crate::config::display;
use crate::config::file::RawStore;
use crate::config::options::{Change, Effect, STORE};
use crate::config::value::StoreUrl;
use crate::store::settings::Location;

/// Says what changes between two tables of the store.
pub(super) fn changes(old: &RawStore, new: &RawStore) -> Vec<Change> {
    let mut changes = STORE.changes(old, new);
    if names_same_servers(old, new) {
        // Its credentials may differ, and are told by themselves.
        changes.retain(|change| change.key != "url");
        return changes;
    }
    if old.url == StoreUrl::Memory || new.url == StoreUrl::Memory {
        changes.retain(|change| !is_of_servers(change.key));
    }
    for change in changes
        .iter_mut()
        .filter(|change| is_of_servers(change.key))
    {
        change.effect = Effect::NeedsRestart;
    }
    changes
}

/// Gives a new table, and the location that it was compiled to, what waits for a restart.
pub(super) fn keep(
    (old, running): (&RawStore, &Location),
    (new, location): (&mut RawStore, &mut Location),
) {
    if !names_same_servers(old, new) {
        let settings = new.settings.clone();
        *new = RawStore {
            settings,
            ..old.clone()
        };
        location.clone_from(running);
        return;
    }
    STORE.keep(old, new);
    if let (Location::Redis(was), Location::Redis(is)) = (running, location) {
        is.prefix.clone_from(&was.prefix);
        if is.tls == was.tls {
            // Its sessions are worth keeping.
            is.tls.clone_from(&was.tls);
        }
    }
}

/// Whether a key says how to be let in by the servers, or what to call things there.
fn is_of_servers(key: &str) -> bool {
    matches!(
        key,
        "username" | "password" | "sentinel_username" | "sentinel_password" | "prefix"
    ) || key.starts_with("tls.")
}

fn names_same_servers(old: &RawStore, new: &RawStore) -> bool {
    display::store_url(&old.url) == display::store_url(&new.url)
}
