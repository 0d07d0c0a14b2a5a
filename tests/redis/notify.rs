//! `notify` in a fleet: which gateways report that a client has reached a threshold.

use crate::support::redis::Server;
use crate::support::{Config, Metered, Process, get};

/// Starts a gateway on the server, and waits until Redis decides its requests.
fn gateway(server: &Server, consistency: &str) -> Process {
    let url = format!(
        "[store]\nurl = 'redis://{}'\ntimeout = '10s'",
        server.address()
    );
    let policy = format!(
        "quota = '20 per hour'\nalgorithm = 'fixed-window'\nnotify = ['50%', '100%']\n\
         partition = ['header:x-key']\n{consistency}"
    );
    let config = Config::limited("builtin:status/204", &policy);
    let gateway = Process::start(&config.with(&url).one_worker());
    assert_eq!(get(gateway.public, "/", "X-Key: other\r\n").status, 204);
    gateway
}

/// Returns how many times the gateway has reported each threshold.
fn told(gateway: &Process) -> [usize; 2] {
    ["50%", "100%"].map(|threshold| {
        let labels = format!("{{policy=\"p\",threshold=\"{threshold}\"}}");
        let told = gateway.series(&format!("tollgate_notifications_total{labels}"));
        told.expect("there from the start")
    })
}

#[test]
fn one_gateway_of_a_fleet_tells_of_an_exact_quota_and_each_one_of_a_synced_one() {
    for (consistency, at_most) in [("", 1), ("consistency = 'synced'", 2)] {
        let server = Server::start();
        let fleet = [gateway(&server, consistency), gateway(&server, consistency)];
        for _ in 0..22 {
            for gateway in &fleet {
                get(gateway.public, "/", "X-Key: one\r\n");
            }
        }
        let all = fleet.each_ref().map(told);
        for threshold in [0, 1] {
            let sum: usize = all.iter().map(|one| one[threshold]).sum();
            assert!((1..=at_most).contains(&sum), "{consistency}: {all:?}");
        }
    }
}
