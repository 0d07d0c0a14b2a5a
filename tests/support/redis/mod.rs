//! Real Redis servers for tests and benches: alone, as a Cluster, under sentinels, behind a faulty network.
//!
//! Each server is a child process on ports and in a directory of its own. It is killed when dropped,
//! and by the kernel when the test process ends in any other way (a panic, a `static`, SIGKILL). The
//! module needs nothing of the rest of `support`, so that a bench can include it by its path.

#![allow(dead_code, reason = "every test file uses its own part of this")]
#![allow(unused_imports, reason = "every test file uses its own part of this")]

mod certificates;
mod cluster;
mod connection;
mod host;
mod proxy;
mod sentinels;
mod server;

pub use certificates::{Authority, Certificate};
pub use cluster::Cluster;
pub use connection::{Connection, Value};
pub use host::{Port, dependent, run, spawn};
pub use proxy::{Fault, Proxy};
pub use sentinels::Sentinels;
pub use server::{Encryption, HARNESS, Server};

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Returns the line of `docs/redis.md` that creates the gateway's user, as words.
pub fn documented_user() -> Vec<&'static str> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/redis.md"));
    let line = text.lines().find(|line| line.starts_with("ACL SETUSER"));
    let line = line.expect("docs/redis.md says how to make a user");
    line.split_whitespace().collect()
}

/// Returns the rights of the documented user, without the keys that it may use.
pub fn documented_rights() -> Vec<&'static str> {
    let rights = documented_user().into_iter();
    rights.skip_while(|word| *word != "-@all").collect()
}

/// Longest wait for anything here; after it, the test fails. It is long because a sentinel that a busy machine has held
/// up does nothing for half a minute, since it no longer trusts its clock.
const PATIENCE: Duration = Duration::from_secs(90);

/// Calls `attempt` until it returns something; fails the test after [`PATIENCE`].
#[track_caller]
fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// Joins addresses by commas, as in a URL.
pub fn listed(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    addresses.join(",")
}
