//! Balances in Redis: keys that never expire, on a server that may lose them.

use serde_json::json;

use crate::support::redis::{Server, Value};
use crate::support::{Config, Metered, Process, TOKEN, eventually, get, order};

const CLIENT: &str = "X-Api-Key: alice\r\n";

fn gateway(server: &Server, lines: &str) -> Process {
    let url = format!(
        "[store]\nurl = 'redis://{}'\ntimeout = '10s'",
        server.address()
    );
    let policy = format!("quota = 'credits'\npartition = ['header:x-api-key']\n{lines}");
    let config = Config::to("builtin:status/204")
        .policy("p", &policy)
        .policy("w", "quota = '100 per hour'")
        .route("/*", "policies = ['p', 'w']")
        .route("/free", "policies = ['w']");
    Process::start(&config.with(&url).one_worker().admin_token(TOKEN))
}

/// Returns the remaining lifetimes of all balances' keys; -1 is a key that never expires.
fn balances(server: &Server) -> Vec<i64> {
    let keys = server.command(&["KEYS", "*:credits:*"]);
    let keys: Vec<String> = keys.list().iter().map(Value::text).collect();
    let lifetime = |key: &String| server.command(&["PTTL", key]).integer();
    keys.iter().map(lifetime).collect()
}

#[test]
fn a_balance_that_is_the_initial_one_has_no_key_and_another_one_never_expires() {
    let server = Server::start();
    let gateway = gateway(&server, "");
    let status = || get(gateway.public, "/", CLIENT).status;
    let grant = |credits: u64| {
        let content = json!({ "policy": "p", "value": "alice", "credits": credits });
        assert_eq!(order(gateway.admin, "grant", &content).status, 200);
    };
    assert_eq!((status(), balances(&server)), (429, vec![]));
    grant(2);
    assert_eq!(balances(&server), [-1]);
    assert_eq!((status(), balances(&server)), (204, vec![-1]));
    assert_eq!((status(), balances(&server)), (204, vec![]));
    assert_eq!((status(), balances(&server)), (429, vec![]));
}

#[test]
fn a_server_that_may_evict_balances_decides_none_of_them() {
    for (lines, expected) in [("", 503), ("on_store_failure = 'open'", 204)] {
        let server = Server::start();
        server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        let gateway = gateway(&server, lines);
        gateway.wait_for_line(&["may evict any key"]);
        gateway.wait_for_line(&["writes no append-only file"]);
        assert_eq!(get(gateway.public, "/", CLIENT).status, expected);
        assert_eq!(get(gateway.public, "/free", "").status, 204);
        let page = |path: &str| get(gateway.admin, path, "").text();
        assert!(page("/readyz").contains("may evict any key, so credits follow on_store_failure"));
        assert_eq!(gateway.metric("tollgate_store_evicts_credits"), 1);
        // Each new connection checks the server's settings again.
        server.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
        server.command(&["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
        eventually("balances are decided", || {
            (get(gateway.public, "/", CLIENT).status == 429).then_some(())
        });
        assert!(page("/readyz").contains("writes no append-only file, so a crash forgets credits"));
        server.command(&["CONFIG", "SET", "appendonly", "yes"]);
        server.command(&["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
        eventually("nothing is amiss", || {
            (page("/readyz") == "ok\n").then_some(())
        });
    }
}
