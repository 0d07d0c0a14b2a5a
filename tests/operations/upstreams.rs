//! What an operator sees of failing endpoints, and that a process which reloads all the time leaks nothing.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::support::{
    Client, Config, Manner, Metered, Origin, Process, Refusing, Replica, balanced, eventually, get,
};

#[test]
fn access_log_says_which_endpoint_answered_and_at_which_attempt() {
    let (refusing, origin) = (Refusing::new(), Origin::plain());
    let endpoints = [refusing.url(), origin.url()];
    let config = Config::to("")
        .endpoints(&endpoints)
        .one_worker()
        .route("/*", "");
    let process = Process::start(&config.with("[log]\nformat = 'json'"));
    for _ in 0..4 {
        assert_eq!(get(process.public, "/", "").status, 200);
    }
    let records = process.wait_for_records(4);
    let mut attempts: Vec<_> = records
        .iter()
        .map(|record| record["attempts"].as_u64())
        .collect();
    attempts.sort_unstable();
    assert_eq!(
        attempts,
        [Some(1), Some(1), Some(2), Some(2)],
        "{records:#?}"
    );
    let answered: HashSet<_> = records
        .iter()
        .map(|record| record["endpoint"].as_str())
        .collect();
    assert_eq!(
        answered,
        HashSet::from([Some(&*origin.address.to_string())])
    );
    assert!(
        records.iter().all(|record| record["reason"] == Value::Null),
        "{records:#?}"
    );
}

#[test]
fn metrics_tell_of_each_endpoint_what_it_had_and_whether_it_is_used() {
    let replicas = Replica::several(2);
    let lines = "retries = 0\neject = { failures = 3, for = '1h' }\n\
                 health = { path = '/health', interval = '100ms', healthy_after = 100 }";
    let process = Process::start(&balanced(&replicas, &[1], lines));
    let metric = |name: &str, labels: &str, index: usize| {
        let endpoint = replicas[index].address;
        let labels = format!("upstream=\"replicas\",endpoint=\"{endpoint}\"{labels}");
        process.series::<f64>(&format!("tollgate_endpoint_{name}{{{labels}}}"))
    };
    let mut client = Client::connect(process.public);
    for _ in 0..10 {
        assert_eq!(client.get("/", "").status, 200);
    }
    for index in 0..2 {
        assert_eq!(metric("requests_total", "", index), Some(5.0));
        assert_eq!(metric("response_seconds_count", "", index), Some(5.0));
        assert_eq!(metric("active_requests", "", index), Some(0.0));
        // While a health check runs, there is a second connection.
        eventually("one connection is open", || {
            (metric("connections_open", "", index) == Some(1.0)).then_some(())
        });
        assert_eq!(metric("healthy", "", index), Some(1.0));
        assert_eq!(metric("ejected", "", index), Some(0.0));
    }
    replicas[0].behave(Manner::HangsUp);
    let statuses: Vec<_> = (0..10).map(|_| client.get("/", "").status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 3);
    assert_eq!(metric("failures_total", ",cause=\"closed\"", 0), Some(3.0));
    assert_eq!(metric("ejections_total", "", 0), Some(1.0));
    eventually("it is shown as ejected", || {
        (metric("ejected", "", 0) == Some(1.0)).then_some(())
    });
    replicas[1].healthy_as(Some(500));
    eventually("it is shown as unhealthy", || {
        (metric("healthy", "", 1) == Some(0.0)).then_some(())
    });
    for (labels, index) in [(",result=\"ok\"", 0), (",result=\"failed\"", 1)] {
        assert!(
            metric("checks_total", labels, index) >= Some(3.0),
            "{labels}"
        );
    }
    process.rewrite(&balanced(&replicas[1..], &[1], lines));
    process.signal("HUP");
    // A worker learns of the reload by its next request.
    eventually("who left is not shown", || {
        client.get("/", "");
        get(process.public, "/", "");
        metric("requests_total", "", 0).is_none().then_some(())
    });
    assert_eq!(
        metric("healthy", "", 1),
        Some(0.0),
        "what stayed keeps its state"
    );
    assert!(
        metric("requests_total", "", 1) >= Some(5.0),
        "what stayed keeps its counters"
    );
}

/// Starts clients that send requests until told to stop; each returns how many it sent, and which statuses failed.
fn load(process: &Process, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<(usize, Vec<u16>)>> {
    let client = |_| {
        let (address, stop) = (process.public, Arc::clone(stop));
        thread::spawn(move || {
            let (mut asked, mut failed) = (0, Vec::new());
            while !stop.load(Ordering::SeqCst) {
                let mut client = Client::connect(address);
                for _ in 0..20 {
                    let status = client.get("/", "").status;
                    asked += 1;
                    if status != 200 {
                        failed.push(status);
                    }
                }
            }
            (asked, failed)
        })
    };
    (0..4).map(client).collect()
}

fn entries(process: &Process, folder: &str) -> usize {
    let entries = fs::read_dir(format!("/proc/{}/{folder}", process.id()));
    entries.expect("the process lives").count()
}

#[test]
fn reloads_under_load_fail_no_request_and_leave_no_descriptor_and_no_thread() {
    const RELOADS: usize = 60;
    let replicas = Replica::several(4);
    let health = "health = { path = '/health', interval = '100ms' }";
    let lines = [
        "",
        health,
        "balance = 'least-requests'\nresolve_every = '1s'",
    ];
    let files = (0..RELOADS).map(|index| {
        let some = &replicas[index % 3..index % 3 + 2];
        balanced(
            some,
            &[1, [1, 2, 3, 5][index % 4]],
            lines[index % lines.len()],
        )
    });
    let process = Process::start(&balanced(&replicas, &[1], ""));
    let stop = Arc::new(AtomicBool::new(false));
    let clients = load(&process, &stop);
    let mut taken = Vec::new();
    for (index, file) in files.enumerate() {
        process.rewrite(&file);
        process.signal("HUP");
        let applied = format!("tollgate_reloads_total{{result=\"applied\"}} {}", index + 1);
        process.wait_for_metric(&applied);
        taken.push((entries(&process, "fd"), entries(&process, "task")));
    }
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        let (asked, failed) = client.join().expect("clients do not panic");
        assert!(asked > 0 && failed.is_empty(), "{failed:?} of {asked}");
    }
    let most = |part: &[(usize, usize)]| {
        let most = |column: fn(&(usize, usize)) -> usize| part.iter().map(column).max();
        (most(|pair| pair.0), most(|pair| pair.1))
    };
    let (first, last) = (most(&taken[..RELOADS / 3]), most(&taken[2 * RELOADS / 3..]));
    // Leaves room for a connection of each client, and one of each worker to either of two origins.
    assert!(
        last.0 <= first.0.map(|value| value + 16),
        "descriptors: {first:?} {last:?}"
    );
    assert!(
        last.1 <= first.1.map(|value| value + 2),
        "threads: {first:?} {last:?}"
    );
}
