//! The options of the file: one table has everything that is known about each key.
//!
//! A key has a name, a `ValueSpec` (how its value is read and spelled, its bounds and default), the field that it
//! fills, the effect of a change, and a line of documentation. `read` fills the mirror from these tables, and finds
//! keys that are unknown or missing; [`TableSpec::changes`] says what a reload changes, and [`TableSpec::keep`] keeps
//! what waits for a restart; tests check `gateway.toml` and the documented bounds against them. What keys mean together
//! is the business of `compile`.
//!
//! A new key needs an entry here, a field of the snapshot, and the code that uses it.

mod about;
mod bounds;
mod costs;
mod files;
mod general;
mod jwt;
mod keys;
mod kind;
mod listeners;
mod overrides;
mod policies;
mod prices;
mod quotas;
mod routes;
mod store;
mod upstreams;

use std::sync::LazyLock;

pub use about::{Effect, Key, KeyDefault, TableDoc, ValueShape};
pub use general::{ADMIN, LOG, TOP};
pub use jwt::JWT;
pub use keys::{Change, TableSpec};
pub use listeners::LISTENER;
pub use policies::POLICY;
pub use routes::ROUTE;
pub use store::{STORE, STORE_TLS};
pub use upstreams::{UPSTREAM, UPSTREAM_HEALTH, UPSTREAM_TLS};

/// Docs of every table of the file; those of nested tables follow the one that contains them.
pub static TABLES: LazyLock<Vec<&TableDoc>> = LazyLock::new(|| {
    let outer = [
        TOP.abouts(),
        LISTENER.abouts(),
        ADMIN.abouts(),
        LOG.abouts(),
        JWT.abouts(),
    ];
    let more = [
        STORE.abouts(),
        UPSTREAM.abouts(),
        POLICY.abouts(),
        ROUTE.abouts(),
    ];
    [outer.concat(), more.concat()].concat()
});
