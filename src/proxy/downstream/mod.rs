//! The clients' side: from the accept to a request, and back to the client's socket.
//!
//! A [`listener`] accepts within its [`capacity`] and hands the connection to a worker, which keeps
//! it in its [`registry`]. What it accepts on is [`bound`]: a port, or a Unix socket with its
//! [file](socket_file). [`opening`] makes of its [`socket`], which has its deadlines, what HTTP is
//! spoken on: the bytes as they are, or TLS, after what [`proxy_protocol`] takes off. [`connection`] serves it: hyper over
//! [`http1`], or [`http2`]. Both know what a connection waits for. [`request`] is what the journey sees of either,
//! [`body`] what a client sends after a head.

mod awaited;
pub(crate) mod body;
pub(crate) mod body_error;
pub(crate) mod bound;
pub(crate) mod capacity;
pub(crate) mod connection;
mod gather;
pub(crate) mod http1;
mod http2;
mod io;
pub(crate) mod listener;
pub(crate) mod opening;
pub(crate) mod panics;
pub(crate) mod per_client;
mod proxy_protocol;
pub(crate) mod registry;
pub(crate) mod request;
mod socket;
pub(crate) mod socket_file;
mod timeouts;
