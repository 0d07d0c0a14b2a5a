//! HTTP/2 from clients: what streams carry, how a connection ends, and tunnels on streams.
//!
//! `tests/edge` uses clients that share no code with the gateway.

mod connections;
mod frames;
mod names;
mod resets;
mod streams;
mod tunnels;
mod untaken;
