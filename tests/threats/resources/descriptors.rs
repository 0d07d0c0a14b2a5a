//! A process with few descriptors, and clients that want more of them than there are.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};

use crate::support::process::command_with_descriptors;
use crate::support::{Client, Config, Origin, Process, eventually, get};

const DESCRIPTORS: usize = 256;

/// Three upstreams and a log file; the quota is there to be changed by a reload.
fn config(origins: &[Origin; 3], log: &Path, quota: u64) -> Config {
    let [first, second, third] = origins;
    let upstreams = [("second", second), ("third", third)].map(|(name, origin)| {
        format!(
            "[upstreams.{name}]\nendpoints = ['{}']\n\
             [[routes]]\npath = '/{name}'\nupstream = '{name}'\npolicies = ['p']\n",
            origin.url()
        )
    });
    Config::to(first.url())
        .with(&format!("[log]\nfile = '{}'", log.display()))
        .policy("p", &format!("quota = '{quota} per hour'\npartition = []"))
        .with(&upstreams.concat())
        .route("/*", "policies = ['p']")
}

fn holds(log: &Path, text: &str) -> usize {
    let log = fs::read_to_string(log).expect("the log can be read");
    log.matches(text).count()
}

#[test]
fn clients_that_take_all_descriptors_leave_enough_for_requests_admin_reload_and_log() {
    let directory = tempfile::tempdir().expect("a directory for the log");
    let (log, rotated) = (directory.path().join("log"), directory.path().join("log.1"));
    let origins = [(); 3].map(|()| Origin::plain());
    let process = Process::start_as(&config(&origins, &log, 1_000_000), |file| {
        command_with_descriptors(file, DESCRIPTORS)
    });
    let told = "the limit of open files leaves room for fewer connections";
    eventually("it is said", || (holds(&log, told) > 0).then_some(()));

    // More than there is room for; they say nothing.
    let silent: Vec<_> = (0..150).map(|_| Client::connect(process.public)).collect();
    for _ in 0..5 {
        assert_eq!(get(process.admin, "/livez", "").status, 200);
    }
    for target in ["/", "/second", "/third"] {
        assert_eq!(get(process.public, target, "").status, 200, "{target}");
    }
    fs::rename(&log, &rotated).expect("the directory is writable");
    process.rewrite(&config(&origins, &log, 2_000_000));
    process.signal("HUP");
    eventually("the reload's line in the log's new file", || {
        (log.exists() && holds(&log, "the file is in force") == 1).then_some(())
    });
    drop(silent);
    assert_eq!(get(process.public, "/", "").status, 200);
    for log in [&log, &rotated] {
        assert_eq!(
            holds(log, told),
            1,
            "it is said at the start and at the reload"
        );
        assert_eq!(holds(log, "cannot accept"), 0);
    }
}

/// As many clients at once as there is room for, towards one upstream after another: connections
/// that one left idle must not be missing for the next.
#[test]
fn idle_upstream_connections_give_way_to_those_that_are_needed() {
    const CLIENTS: usize = 70;
    let directory = tempfile::tempdir().expect("a directory for the log");
    let log = directory.path().join("log");
    // Each waits for all the others, so that each needs a connection of its own.
    let origins = [(); 3].map(|()| {
        let all = Barrier::new(CLIENTS);
        Origin::scripted(move |exchange| {
            exchange.read_body()?;
            all.wait();
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            Ok(crate::support::After::Keep)
        })
    });
    let process = Process::start_as(&config(&origins, &log, 1_000_000), |file| {
        command_with_descriptors(file, DESCRIPTORS)
    });
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| Client::connect(process.public))
        .collect();
    for target in ["/", "/second", "/third", "/", "/second", "/third"] {
        let statuses: Vec<_> = thread::scope(|scope| {
            let asking: Vec<_> = (clients.iter_mut())
                .map(|client| scope.spawn(|| client.get(target, "").status))
                .collect();
            let asked = asking.into_iter().map(ScopedJoinHandle::join);
            asked.map(|it| it.expect("an answer")).collect()
        });
        assert_eq!(statuses, [200; CLIENTS], "{target}");
    }
}
