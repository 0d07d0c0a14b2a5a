//! Limits that gateways share through Redis: exact across a fleet, and with defined behaviour when Redis fails.

#[path = "../support/mod.rs"]
mod support;

mod accounts;
mod cluster;
mod credits;
mod drills;
mod exactness;
mod full;
mod gate;
mod history;
mod holdings;
mod in_flight;
mod keys;
mod late;
mod lease_fleet;
mod lease_hand_over;
mod lease_histories;
mod leases;
mod lost_connections;
mod neighbours;
mod notify;
mod one_endpoint;
mod passwords;
mod penalties;
mod refunds;
mod refusals;
mod servers;
mod settling;
mod shares;
mod store_failure;
mod store_redis;
mod synced;
mod synced_changes;
mod synced_failures;
mod synced_fleet;
mod synced_histories;
mod synced_ledger;
