//! The clients' side: from the accept to a request, and back to the client's socket.
//!
//! A [`listener`] accepts within its [`capacity`] and hands the connection to a worker, which keeps
//! it in its [`registry`]. [`connection`] serves it with hyper. Below hyper, [`http1`] knows what a
//! connection waits for, and a [`socket`] has its deadlines. [`body`] is what a client sends after
//! a head.

pub(crate) mod body;
pub(crate) mod capacity;
pub(crate) mod connection;
mod gather;
pub(crate) mod http1;
pub(crate) mod listener;
pub(crate) mod registry;
mod socket;
