//! The options of the file: one table says of each key all that is known of it.
//!
//! A key has a name, a `ValueSpec` (how it is read, its bounds and default, how it is spelled), the field
//! that it fills, what a change of it brings with it, and a line of documentation. `read` fills the
//! mirror by these tables, and finds what is unknown or missing; [`TableSpec::changes`] says what a reload
//! changes, and [`TableSpec::keep`] keeps what waits for a restart; `gateway.toml` and the documented bounds
//! are checked against them. What keys mean together is the business of `compile`.
//!
//! A new key is an entry here, a field of the snapshot, and what uses it.

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

/// Every table of the file, those in others after them.
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
