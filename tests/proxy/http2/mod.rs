//! HTTP/2 from clients: what streams carry, what becomes of a connection, and tunnels on streams.
//!
//! `tests/edge` asks with clients that share no code with the gateway.

mod connections;
mod frames;
mod names;
mod resets;
mod streams;
mod tunnels;
mod untaken;
