//! Redis: counters that a fleet of gateways shares.
//!
//! [`RedisStore`] is the process's part: key names, breakers, remembered refusals, this node's own
//! counts for when Redis is away. [`Session`] is a worker's part: its connections, which live on its
//! thread, and what it asks over them.
//!
//! `wire` turns plans into arguments of the scripts in `lua/` and their replies into answers;
//! `link` sends them to one server; `cluster` and `sentinel` say which server that is.

mod cluster;
mod connect;
mod link;
mod sentinel;
mod tls;
pub mod wire;

pub use tls::{Tls, TlsFault, TlsMaterial};
