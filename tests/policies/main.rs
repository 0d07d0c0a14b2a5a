//! Policies for real customers: who spends how much, and what then. Each behaviour is the same in memory
//! and on Redis, so each test runs on both.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod bodies;
mod calendars;
mod candidates;
mod cookbook;
mod costs;
mod credits;
mod debug_from;
mod explain;
mod in_flight;
mod overrides;
mod penalties;
mod spread;
mod stores;
mod usage;
