//! The clients' side: from the accept to a request, and back to the client's socket.
//!
//! A [`listener`] accepts on a [`bound`] socket, which is a port or a Unix socket with its [file](socket_file), within
//! its [`capacity`]. It hands each connection to a worker, which keeps it in its [`registry`]. [`opening`] prepares the
//! client's [`socket`], which has its own deadlines, for HTTP: [`proxy_protocol`] takes off a PROXY header, and TLS
//! follows if the listener speaks it. [`connection`] then serves HTTP: hyper over [`http1`], or [`http2`]. Both know
//! what a connection waits for. [`request`] is what the journey sees of either, and [`body`] is what a client sends
//! after a head.

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
