//! Lists what a reload changes about the store; of a secret, only that it is another one.
//!
//! The servers and the prefix of keys are settled at the start. Credentials and certificates belong to the servers:
//! changes of these apply while the servers stay the same, and wait for a restart together with them.

use crate::config::display;
use crate::config::file::RawStore;
use crate::config::options::{Change, Effect, STORE};
use crate::config::value::StoreUrl;
use crate::store::settings::Location;

/// Says what changes between two tables of the store.
pub(super) fn changes(old: &RawStore, new: &RawStore) -> Vec<Change> {
    let mut changes = STORE.changes(old, new);
    if names_same_servers(old, new) {
        // The URLs may differ in their credentials, which have lines of their own.
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

/// Gives a new table, and the location compiled from it, the old values of what waits for a restart.
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
            // Keeps the sessions of the old TLS.
            is.tls.clone_from(&was.tls);
        }
    }
}

/// Whether a key belongs to the servers: their credentials or TLS, or the prefix of keys there.
fn is_of_servers(key: &str) -> bool {
    matches!(
        key,
        "username" | "password" | "sentinel_username" | "sentinel_password" | "prefix"
    ) || key.starts_with("tls.")
}

fn names_same_servers(old: &RawStore, new: &RawStore) -> bool {
    display::store_url(&old.url) == display::store_url(&new.url)
}
