//! `align = "spread"`: each client's windows begin at a time of their own, and are as long as any other's.

use super::stores::on_each_store;
use crate::support::{Client, Config, secs};

#[test]
fn clients_come_back_at_different_times_and_each_when_it_is_told() {
    on_each_store(|start| {
        let policy = "quota = '1 per 100s'\nalgorithm = 'fixed-window'\nalign = 'spread'\n\
                      partition = ['header:x-api-key']";
        let running = start(Config::limited("builtin:status/200", policy));
        let mut client = Client::connect(running.public);
        let mut ask = |key: usize| {
            let answer = client.get("/", &format!("X-Api-Key: {key}\r\n"));
            let retry = answer.field("retry-after").map(str::parse::<u64>);
            (answer.status, retry.map(|secs| secs.expect("seconds")))
        };
        let mut waits = Vec::new();
        for key in 0..20 {
            assert_eq!(ask(key).0, 200);
            let (status, wait) = ask(key);
            assert_eq!(status, 429);
            waits.push((wait.expect("it comes back"), key));
        }
        waits.sort_unstable();
        let (first, last) = (waits[0].0, waits[19].0);
        assert!(1 <= first && first < last && last <= 100, "{waits:?}");
        let mut passed = 0;
        for (wait, key) in waits {
            running.clock.advance(secs(wait - passed));
            passed = wait;
            assert_eq!(ask(key).0, 200, "{key} after {wait} s");
        }
    });
}
