//! The hand-over from one process to the next, with the same file, perhaps another binary, and no connection lost.
//!
//! The old process starts the binary again by its path, and passes it every listening socket. The new one reads the
//! file, connects to Redis and resolves names before it says that it is ready; until then clients notice nothing.
//! Then the old one leaves new connections in the queue and passes its counters. The new one accepts and says so, and
//! only then does the old one drain. If anything goes wrong before that, the old one goes on serving.

mod channel;
mod launch;
mod message;
mod new;
mod old;
mod pause;

pub use channel::ChannelError;
pub use launch::Launch;
pub use new::Predecessor;
pub(super) use new::TakeOver;
pub(super) use old::{Drainers, PassedSockets};
pub use old::{Successor, UpgradeError, Upgrader};

use std::time::Duration;

/// Environment variable of a new process, whose standard input is then its end of the channel. The value is the
/// version of the messages.
const VARIABLE: &str = "TOLLGATE_HANDOVER";

/// Version of the messages that the processes exchange.
const PROTOCOL: &str = "1";

/// How long a new process may take to become ready.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// How long either process may take for each step after that.
const STEP_WITHIN: Duration = Duration::from_secs(10);
