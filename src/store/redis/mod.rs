//! Redis: counters that a fleet of gateways shares.
//!
//! [`RedisSession`] is a worker's way to them. It turns plans into calls on the server that has the
//! keys, and replies into verdicts. It says which server a call goes to and how the call ended, and
//! judges neither: the caller decides how long a call may take, whether a server is asked at all, and
//! what a request is answered without Redis.
//!
//! `wire` turns plans into arguments of the scripts in `lua/`, and their replies into answers;
//! `pipeline` sends them to one server; `primaries`, `cluster` and `sentinel` say which server that is.

mod call_error;
mod cluster;
mod connect;
mod evictions;
mod observer;
mod one_line;
mod pipeline;
mod primaries;
mod reply;
mod sentinel;
#[cfg(test)]
#[path = "../../../tests/support/redis/mod.rs"]
mod servers;
mod session;
mod shared;
mod watch;
pub mod wire;

pub(super) use call_error::CallError;
pub(super) use observer::{Observer, Observers, ServerEvent};
pub(super) use pipeline::{Caller, GivenUp, LateReader};
pub(super) use session::RedisSession;
pub(super) use shared::RedisShared;
