//! What every test over real sockets needs: an origin and a client that record and send exact bytes.

#![allow(dead_code, reason = "every test file uses its own part of this")]
#![allow(unused_imports, reason = "every test file uses its own part of this")]

pub mod client;
pub mod draws;
pub mod fleet;
pub mod frames;
pub mod garden;
pub mod gateway;
pub mod generations;
pub mod http2;
pub mod issuer;
pub mod json_schema;
pub mod metrics;
pub mod orders;
pub mod origin;
pub mod process;
pub mod ratelimit;
pub mod redis;
pub mod replica;
pub mod skewed;
pub mod stepped;
pub mod wire;

pub use client::{Answer, Client, first_answered, get};
pub use draws::Draws;
pub use fleet::Fleet;
pub use garden::{Garden, Haproxy, Nginx, Reading};
pub use gateway::{Config, Flow, Running, START, secs, start};
pub use generations::Generations;
pub use issuer::{Issuer, jwks};
pub use json_schema::Validator;
pub use metrics::Metered;
pub use orders::{TOKEN, order, said};
pub use origin::{After, Exchange, Gate, Origin, Recorded, Refusing, Unreachable};
pub use process::Process;
pub use redis::{Authority, Certificate};
pub use replica::{Manner, Replica, balanced};
pub use skewed::start_skewed;
pub use stepped::Stepped;
pub use wire::{Framing, Head};

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the TOML files of a folder, sorted by path.
#[track_caller]
pub fn toml_files(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    files.sort();
    files
}

/// How long a test waits for something that must happen; after that, it fails.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Calls `attempt` until it returns something; fails the test after [`PATIENCE`].
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let clock = tollgate::clock::Clock::system();
    let began = clock.now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(
            Duration::from(clock.now().since(began)) < PATIENCE,
            "never happened: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
