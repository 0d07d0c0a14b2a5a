//! Runs a test on each store.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::support::redis::Server;
use crate::support::{Config, Running, start};

/// Calls `test` once per store, with how to start a gateway over that store and nothing counted yet.
pub fn on_each_store(test: impl Fn(&dyn Fn(Config) -> Running)) {
    for store in [Store::Memory, Store::Redis] {
        println!("on {store:?}");
        test(&|config| store.start(config));
    }
}

#[derive(Clone, Copy, Debug)]
enum Store {
    Memory,
    Redis,
}

impl Store {
    fn start(self, config: Config) -> Running {
        match self {
            Self::Memory => start(&config),
            Self::Redis => start(&config.with(&redis())),
        }
    }
}

/// Returns `[store]` with keys that nothing else has.
fn redis() -> String {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let (server, number) = (
        SERVER.get_or_init(Server::start),
        NUMBER.fetch_add(1, Relaxed),
    );
    format!(
        "[store]\nurl = 'redis://{}'\nprefix = 't{number}'\ntimeout = '10s'",
        server.address()
    )
}
