//! The gateway as its operator sees it: the process and its signals, the admin port, logs, metrics, `check`.

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod certificates;
mod check;
mod client_names;
mod explain;
mod keys;
mod log_fields;
mod log_files;
mod logging;
mod metrics;
mod observing;
mod process;
mod prometheus;
mod shutdown;
mod unix_sockets;
mod upgrade;
mod upstreams;
mod watching;
