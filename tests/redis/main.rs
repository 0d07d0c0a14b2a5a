//! Limits that gateways share through Redis: exact across a fleet, and defined when Redis fails.

#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod drills;
mod exactness;
mod history;
mod servers;
mod store_failure;
mod store_redis;
