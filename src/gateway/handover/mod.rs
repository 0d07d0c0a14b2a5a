//! The hand-over from a process to the next one: the same file, perhaps another binary, and no connection lost.
//!
//! The old process starts the binary again by its path, and passes it every socket that listens. The new one reads the
//! file, connects to Redis and resolves names before it says that it is ready; nobody has noticed anything until then.
//! Then the old one leaves new connections in the queue and passes its counters; the new one accepts, and only when it
//! has said so the old one drains. Whatever goes wrong before that, the old one goes on.

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

/// Set for a new process, whose standard input is then the socket over which the old one speaks. The value is the
/// version of what they say.
const VARIABLE: &str = "TOLLGATE_HANDOVER";

/// The version of what the processes say to each other.
const PROTOCOL: &str = "1";

/// How long a new process may take until it could serve.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// How long either process may take for each step after that.
const STEP_WITHIN: Duration = Duration::from_secs(10);
