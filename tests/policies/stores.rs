//! Runs a test on each store.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tollgate::store::redis::wire::Script;

use crate::support::redis::Server;
use crate::support::{Config, Running, eventually, gateway::start_text, get, start};

/// Calls `test` once per store, with a gateway that has this file, that store, and nothing counted yet.
pub fn on_each_store_text(file: &str, test: impl Fn(&Running)) {
    test(&start_text(file));
    test(&start_text(&format!("{file}\n{}", redis())));
}

/// Calls `test` once per store, with a function that starts a gateway on that store with nothing counted yet.
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

/// Returns a `[store]` table for a Redis, with a key prefix that nothing else uses.
pub fn redis() -> String {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let server = SERVER.get_or_init(|| {
        let server = Server::start();
        load_scripts(&server);
        server
    });
    let number = NUMBER.fetch_add(1, Relaxed);
    lines(server, &format!("t{number}"))
}

fn lines(server: &Server, prefix: &str) -> String {
    let address = server.address();
    format!("[store]\nurl = 'redis://{address}'\nprefix = '{prefix}'\ntimeout = '10s'")
}

/// Has the server load the script that settles: the first call of a script takes two round trips, and another decision
/// may come between them.
fn load_scripts(server: &Server) {
    let policy = "quota = '1 per second'\ncount_status = [401]";
    let config = Config::limited("builtin:status/200", policy).with(&lines(server, "first"));
    assert_eq!(get(start(&config).public, "/", "").status, 200);
    eventually("the script that settles is loaded", || {
        let exists = server.command(&["SCRIPT", "EXISTS", Script::Settle.sha()]);
        (exists.list()[0].integer() == 1).then_some(())
    });
}
