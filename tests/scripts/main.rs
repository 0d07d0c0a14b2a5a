//! The scripts of `lua/` on a real server: in step with the pure functions, whatever is asked.

#[path = "../ledger/mod.rs"]
mod ledger;
#[path = "../support/redis/mod.rs"]
mod redis;
#[path = "../scripted/mod.rs"]
mod scripted;
#[path = "../traffic/mod.rs"]
mod traffic;

mod batches;
mod lockstep;
mod state;
