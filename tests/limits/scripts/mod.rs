//! The scripts of `lua/` on a real server: in step with the pure functions, whatever is asked.

mod batches;
mod full;
mod in_flight;
mod lockstep;
mod state;
