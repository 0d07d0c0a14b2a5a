//! The clients' side: from the accept to a request, and back to the client's socket.
//!
//! A [`listener`] accepts within its [`capacity`] and hands the connection to a worker, which keeps
//! it in its [`registry`]. [`connection`] serves it with hyper over [`http1`], what a connection
//! waits for, over a [`socket`] with deadlines. [`body`] is what a client sends behind a head.

pub(crate) mod body;
pub(crate) mod capacity;
pub(crate) mod connection;
pub(crate) mod http1;
pub(crate) mod listener;
pub(crate) mod registry;
mod socket;
