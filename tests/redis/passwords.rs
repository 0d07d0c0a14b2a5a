//! A gateway whose password for Redis comes from a file, and a password that changes.

use std::fs;
use std::path::Path;

use tollgate::clock::Micros;

use crate::support::redis::Server;
use crate::support::{Config, Running, eventually, get, start};

#[test]
fn password_that_changes_in_its_file_needs_no_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    fs::write(&file, "old\n").expect("a file");
    let redis = Server::start_with(&["requirepass old"]);
    let running = start(&over(&redis, &file));
    decides(&running, &redis);
    rotate(&redis, &file, "new");
    decides(&running, &redis);
}

#[test]
fn rejected_reload_reads_the_password_in_force_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    fs::write(&file, "old").expect("a file");
    let redis = Server::start_with(&["requirepass old"]);
    let mut running = start(&over(&redis, &file));
    decides(&running, &redis);
    fs::write(&file, "new").expect("a file");
    assert!(running.gateway.reload("[store").is_err());
    // By the time the server refuses the old password, the file is gone.
    fs::remove_file(&file).expect("a file");
    redis.command(&["CONFIG", "SET", "requirepass", "new"]);
    redis.command(&["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
    decides(&running, &redis);
}

fn over(redis: &Server, file: &Path) -> Config {
    let (address, file) = (redis.address(), file.display());
    Config::limited("builtin:echo", "quota = '1000000 per hour'").with(&format!(
        "[store]\nurl = 'redis://{address}'\npassword = '${{file:{file}}}'"
    ))
}

fn rotate(redis: &Server, file: &Path, password: &str) {
    redis.command(&["CONFIG", "SET", "requirepass", password]);
    fs::write(file, password).expect("a file");
    redis.command(&["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
}

/// Waits until Redis executes a script for the gateway.
fn decides(running: &Running, redis: &Server) {
    let executed = || redis.info("commandstats").get("cmdstat_evalsha").cloned();
    let before = executed();
    eventually("Redis decides", || {
        // Time passes, so that a breaker that opened cools down.
        running.clock.advance(Micros(100_000));
        get(running.public, "/", "");
        (executed() != before).then_some(())
    });
}
