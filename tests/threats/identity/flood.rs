//! A flood of keys that were never seen before. This is the short form of `scripts/drill/cardinality`, which sends ten
//! million of them to the binary and also checks its resident memory.

use std::net::SocketAddr;
use std::ops::Range;

use super::{AGAIN, Cases};
use crate::support::{Client, Config, Metered, Running, eventually, get, secs, start};

const LIMIT: usize = 3;
const WINDOW_S: u64 = 3_600;
const MEMORY_MAX: u64 = 1 << 20;
/// What the overflow partitions of the five policies may take beyond the bound, together.
const OVERFLOW_BYTES_MAX: u64 = 5 * 2_048;
const ADMITTED: u16 = 204;

/// A gateway with a policy for each algorithm, all of them by key.
fn limited() -> Running {
    let mut config = Config::limited("builtin:status/204", &policy("sliding-log"))
        .admin("127.0.0.1:0")
        .with("[store]\nmax_memory = '1MiB'\n[log]\naccess = 'off'");
    // Requests that a leaky bucket holds would not be answered before the clock is moved, so it runs in shadow mode.
    let leaky = format!("leaky-bucket'\nqueue = {}\nmode = 'shadow", LIMIT - 1);
    let others = ["fixed-window", "sliding-window", "gcra", &leaky];
    for (name, algorithm) in ["a", "b", "c", "d"].iter().zip(others) {
        config = config.policy(name, &policy(algorithm));
    }
    start(&config.top("default_policies = ['a', 'b', 'c', 'd']"))
}

fn policy(algorithm: &str) -> String {
    format!(
        "quota = '{LIMIT} per {WINDOW_S}s'\nalgorithm = '{algorithm}'\n\
         partition = ['header:x-api-key']"
    )
}

fn ask(running: &Running, key: &str) -> u16 {
    get(running.public, "/", &format!("X-Api-Key: {key}\r\n")).status
}

/// Sends one request for each key, in batches, and returns how many were admitted.
fn flood(address: SocketAddr, keys: Range<usize>) -> usize {
    const BATCH: usize = 250;
    let mut client = Client::connect(address);
    let mut admitted = 0;
    for batch in keys.clone().step_by(BATCH) {
        let batch = batch..(batch + BATCH).min(keys.end);
        let request =
            |key| format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Api-Key: flood-{key}\r\n\r\n");
        client.send(batch.clone().map(request).collect::<String>());
        let statuses = batch.map(|_| client.answer().status);
        admitted += statuses.filter(|status| *status == ADMITTED).count();
    }
    admitted
}

/// Returns a metric of the store; `name` comes after `tollgate_store_`.
fn store(running: &Running, name: &str) -> u64 {
    let series = running.series(&format!("tollgate_store_{name}"));
    series.expect("a metric of the store")
}

#[test]
fn flood_of_keys_stays_in_its_memory_and_changes_nothing_for_clients_that_are_known() {
    let running = limited();
    let mut cases = Cases::default();
    for _ in 0..LIMIT {
        cases.expect("the victim's own quota", ask(&running, "victim"), ADMITTED);
    }
    cases.expect("a known client", ask(&running, "known"), ADMITTED);
    cases.expect("full before the flood", store(&running, "full"), 0);
    let mut sent = 0;
    while store(&running, "full") == 0 || sent < 6_000 {
        flood(running.public, sent..sent + 1_000);
        sent += 1_000;
        cases.expect("the victim in the flood", ask(&running, "victim"), AGAIN);
        let bytes = store(&running, "bytes");
        cases.expect(
            &format!("{bytes} bytes"),
            bytes <= MEMORY_MAX + OVERFLOW_BYTES_MAX,
            true,
        );
        assert!(sent < 100_000, "the store never gets full");
    }
    // Each table doubles at its own time, so some newcomers find room until the last table is full.
    let last = flood(running.public, sent..sent + 1_000);
    cases.expect(
        &format!("{last} of the last 1,000 are few"),
        last < 500,
        true,
    );
    cases.expect("overflowed", store(&running, "overflowed_total") > 0, true);
    cases.expect("still full", store(&running, "full"), 1);
    cases.expect("the victim after it", ask(&running, "victim"), AGAIN);
    for (number, expected) in [ADMITTED, ADMITTED, AGAIN].into_iter().enumerate() {
        let case = format!("the known client's request {}", number + 2);
        cases.expect(&case, ask(&running, "known"), expected);
    }

    running.clock.advance(secs(3 * WINDOW_S));
    eventually("idle state is swept", || {
        (store(&running, "partitions") == 0 && store(&running, "full") == 0).then_some(())
    });
    cases.expect("bytes once all is idle", store(&running, "bytes"), 0);
    let overflowed = store(&running, "overflowed_total");
    cases.expect("newcomers' own quotas", flood(running.public, 0..100), 100);
    cases.expect(
        "none overflowed",
        store(&running, "overflowed_total"),
        overflowed,
    );
    cases.expect(
        "the victim's quota is back",
        ask(&running, "victim"),
        ADMITTED,
    );
    cases.end();
}
