//! HTTP/1.1 as clients speak it: one request at a time over a transport.
//!
//! hyper reads and writes through [`Http1Io`], and [`FramingGuard`] holds clients to the letter of the framing; long
//! and chunked bodies go around hyper ([`BodyBypass`]). Through the [`Http1State`] that these share, the journey says
//! what the connection waits for. hyper's own timers stay off: the socket's two deadlines cover a slow head, an idle
//! connection, a slow body and a slow reader.

mod body_bypass;
mod framing_guard;
mod io;
mod state;
mod upgrade_gate;

pub(crate) use body_bypass::{BodyBypass, BypassedBody};
pub(crate) use framing_guard::FramingGuard;
pub(in crate::proxy::downstream) use framing_guard::PARSED_BYTES_MAX;
pub(crate) use io::Http1Io;
pub(crate) use state::Http1State;
pub(crate) use upgrade_gate::TunnelTask;
