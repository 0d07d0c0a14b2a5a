//! Redis: counters that a fleet of gateways shares.
//!
//! [`RedisSession`] is a worker's way to them. It turns plans into calls on the server that has the
//! keys, and replies into verdicts; it says which server a call goes to and how the call ended. It
//! judges neither: how long a call may take, whether a server should be asked at all, and what a
//! request is answered without Redis is the caller's business.
//!
//! `wire` turns plans into arguments of the scripts in `lua/`, and their replies into answers;
//! `pipeline` sends them to one server; `primaries`, `cluster` and `sentinel` say which server that is.

mod call_error;
mod cluster;
mod connect;
mod one_line;
mod pipeline;
mod primaries;
mod sentinel;
mod session;
mod shared;
pub mod wire;

pub(super) use call_error::CallError;
pub(super) use session::RedisSession;
pub(super) use shared::RedisShared;
