//! What a request goes through, over real sockets, from a client's bytes to the origin's and back.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod balancing;
mod connections;
mod cors;
mod deadlines;
mod ejecting;
mod fields;
mod health;
mod http2;
mod leaving;
mod limits;
mod max_requests;
mod partitions;
mod plans;
mod prefixes;
mod preflights;
mod proxy_protocol;
mod proxying;
mod redirects;
mod refusals;
mod request_ids;
mod retries;
mod routing;
mod tokens;
mod tunnels;
mod unix_sockets;
mod upstream;
mod upstream_faults;
