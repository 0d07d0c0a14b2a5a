//! What the limits promise, in each implementation: the pure functions, the memory store, the scripts.

#[path = "../support/mod.rs"]
mod support;

mod in_memory;
mod ledger;
mod scripted;
mod traffic;
mod vectors;

mod laws;
mod memory_bound;
mod memory_store;
mod plans;
mod recorded;
mod scripts;
mod spec;
