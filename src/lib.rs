//! Tollgate: a rate-limiting reverse proxy. This is the map; read it top down.
//!
//! A request's way through the gateway is [`proxy`]: a worker takes its connection, the journey
//! finds its route, names its client, makes a plan, lets the [`store`] decide it, forwards or
//! refuses, annotates the answer and records it. What a limit means is [`limit`], pure functions; a
//! fleet's counters are in Redis, where the scripts of `lua/` do the same.
//! The file's way is [`config`]: mirror, compile, [`snapshot`]. What went wrong is a [`fault`], what
//! is counted [`metrics`], what is written [`access_log`] and [`logging`], what operators ask
//! [`admin`]. [`gateway`] puts the parts together and runs them.

pub mod clock;
pub mod limit;
pub mod store;

pub mod request;

pub mod config;
pub mod snapshot;

pub mod limiter;

pub mod fault;
pub mod metrics;

pub mod access_log;
pub mod logging;

pub mod proxy;

pub mod admin;
pub mod gateway;

pub mod cli;
