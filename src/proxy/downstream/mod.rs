//! The clients' side: listeners, connections, and what is read from and written to them.

pub(crate) mod client_io;
pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod registry;
pub(crate) mod strict;
