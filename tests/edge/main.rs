//! TLS, HTTP/2 and what they carry, tested with clients that share no code with the gateway.

#[path = "../support/mod.rs"]
mod support;

mod abuses;
mod client_certificates;
mod desync;
mod foreign;
mod grpc;
mod hand_overs;
mod handshakes;
mod neighbours;
mod programs;
mod secure;
mod secure_exchanges;
mod streams;
mod unix_sockets;
mod websocket;
