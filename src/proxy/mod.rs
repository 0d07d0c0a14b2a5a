//! Proxying: from a client's bytes to an origin's and back.
//!
//! A worker runs the [`worker_loop`]: [`downstream`] reads requests from its connections, each request takes the
//! [`journey`], [`request_headers`] changes its head, and [`upstream`] sends it to an origin. The answer is a
//! [`refusal`] or an origin's. It gets its limit fields in [`annotate`] and streams out as a
//! [`body`]; when that ends, the [`exchange`] ends and its [`record`] is written; [`logged`] makes the line of the
//! access log.

pub mod process;

pub(crate) mod worker_loop;

pub(crate) mod journey;
mod journey_state;

pub(crate) mod admitted;
pub mod annotate;
mod body;
mod body_cost;
mod body_reading;
mod check;
mod client;
pub(crate) mod connection_facts;
mod content;
mod cors;
mod debug;
mod delay;
pub(crate) mod dry_run;
mod exchange;
mod forward;
pub mod forwarded;
mod logged;
pub(crate) mod notifications;
mod record;
pub mod refusal;
mod request_headers;
mod request_id;
mod routing;
mod upstream_limit_headers;
mod usage;
mod usage_cache;
mod worker;
mod worker_config;

pub(crate) mod downstream;
pub mod upstream;
pub mod wire;

pub(crate) mod trace;
mod tunnel;

#[cfg(test)]
mod differential;
