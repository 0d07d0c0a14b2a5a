//! A candidate is tried beside the real quota: counted and reported, never enforced.

use super::stores::on_each_store;
use crate::support::ratelimit::state;
use crate::support::{Client, Config, Metered, Running};

/// Reads a counter of a policy's decisions.
fn decisions(running: &Running, outcome: &str) -> u64 {
    let labels = format!("policy=\"p\",outcome=\"{outcome}\"");
    let count = running.series(&format!("tollgate_decisions_total{{{labels}}}"));
    count.expect("the policy is counted")
}

#[test]
fn a_candidate_shows_what_it_would_have_refused() {
    for (candidate, refused) in [
        ("'2 per minute'", 4),
        ("'5 per minute'", 1),
        ("'9 per minute'", 0),
    ] {
        on_each_store(|start| {
            let policy = format!(
                "quota = '4 per minute'\nalgorithm = 'fixed-window'\ncandidate = {candidate}"
            );
            let config = Config::limited("builtin:status/200", &policy).admin("127.0.0.1:0");
            let running = start(config);
            let mut client = Client::connect(running.public);
            let answers: Vec<_> = (0..6).map(|_| client.get("/", "")).collect();
            let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses, [200, 200, 200, 200, 429, 429], "{candidate}");
            assert_eq!(state(&answers[0]).len(), 1, "a candidate is not shown");
            assert_eq!(
                decisions(&running, "candidate_refused"),
                refused,
                "{candidate}"
            );
            assert_eq!(decisions(&running, "admitted"), 4);
            assert_eq!(decisions(&running, "refused"), 2);
        });
    }
}
