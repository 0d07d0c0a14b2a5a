//! A process with few descriptors, and clients that want more of them than it has.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};

use http::Method;

use crate::support::http2::{Http2, Stream};
use crate::support::process::command_with_descriptors;
use crate::support::{After, Client, Config, Gate, Metered, Origin, Process, eventually, get};

const DESCRIPTORS: usize = 256;

/// A file with three upstreams and a log file; reloads change the quota.
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
    eventually("it is said", || {
        (log.exists() && holds(&log, told) > 0).then_some(())
    });

    // More connections than there is room for, all of them silent.
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
        (log.exists() && holds(&log, "the new configuration is in effect") == 1).then_some(())
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

/// As many clients at once as there is room for use one upstream after another: idle connections to
/// one must give way to those that the next one needs.
#[test]
fn idle_upstream_connections_give_way_to_those_that_are_needed() {
    const CLIENTS: usize = 70;
    let directory = tempfile::tempdir().expect("a directory for the log");
    let log = directory.path().join("log");
    // Each request waits for all the others, so each needs its own connection.
    let origins = [(); 3].map(|()| {
        let all = Barrier::new(CLIENTS);
        Origin::scripted(move |exchange| {
            exchange.read_body()?;
            all.wait();
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            Ok(After::Keep)
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
            asked.map(|asked| asked.expect("an answer")).collect()
        });
        assert_eq!(statuses, [200; CLIENTS], "{target}");
    }
}

/// Three clients of HTTP/2 with a hundred requests each, a third of them tunnels, at an origin that does not answer,
/// and a process with 300 descriptors.
#[test]
fn sockets_towards_origins_are_bounded_by_descriptors_and_nobody_is_blamed_for_it() {
    const STREAMS: usize = 100;
    let directory = tempfile::tempdir().expect("a directory for the log");
    let log = directory.path().join("log");
    let gate = Gate::default();
    let waiting = gate.clone();
    let origin = Origin::scripted(move |exchange| {
        exchange.read_body()?;
        match exchange.target() {
            "/held" => waiting.wait(),
            "/tunnel" => {
                exchange.write(
                    "HTTP/1.1 101 Switching Protocols\r\n\
                     Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
                )?;
                waiting.wait();
                return Ok(After::Close);
            }
            _ => {}
        }
        exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        Ok(After::Keep)
    });
    let config = |quota: u64| {
        Config::to(origin.url())
            .with(&format!("[log]\nfile = '{}'", log.display()))
            .upstream("retries = 3\nhealth = { path = '/health', interval = '100ms' }")
            .upstream("eject = { failures = 1 }")
            .policy("p", &format!("quota = '{quota} per hour'\npartition = []"))
            .route("/*", "policies = ['p']")
    };
    let process = Process::start_as(&config(1_000_000), |file| {
        command_with_descriptors(file, 300)
    });
    let mut clients = [(); 3].map(|()| Http2::connect(process.public, 65_535));
    let [first, second, third] = &mut clients;
    let held = |client: &mut Http2| -> Vec<_> {
        let ask = |_| client.ask(Method::GET, "/held");
        (0..STREAMS).map(ask).collect()
    };
    let mut streams = held(first);
    streams.extend((0..STREAMS).map(|_| second.ask_for("websocket", "/tunnel")));
    streams.extend(held(third));
    let refused = || {
        let refused = process.metric("tollgate_errors_total{reason=\"no_descriptors\"");
        usize::try_from(refused).expect("few")
    };
    let at_origin = || {
        let targets = origin.targets();
        targets
            .iter()
            .filter(|target| **target != "/health")
            .count()
    };
    eventually("every request is refused or at the origin", || {
        (at_origin() + refused() == 3 * STREAMS && refused() > 0).then_some(())
    });
    // More than half of the descriptors, which is what connections of clients leave.
    assert!(at_origin() > 150, "{}", at_origin());

    let checks = || origin.targets().len() - at_origin();
    let before = checks();
    eventually("health checks go on", || {
        (checks() > before + 3).then_some(())
    });
    for _ in 0..5 {
        assert_eq!(get(process.admin, "/livez", "").status, 200);
    }
    let answer = get(process.public, "/", "");
    assert_eq!(answer.problem()["status"], 503);
    process.rewrite(&config(2_000_000));
    process.signal("HUP");
    eventually("the reload's line", || {
        (holds(&log, "the new configuration is in effect") == 1).then_some(())
    });
    gate.open();
    let statuses: Vec<_> = streams.iter_mut().map(Stream::status).collect();
    let of = |status: u16| statuses.iter().filter(|one| **one == Ok(status)).count();
    assert_eq!(of(200) + of(503), 3 * STREAMS, "{statuses:?}");
    eventually("there is room again", || {
        (get(process.public, "/", "").status == 200).then_some(())
    });
    for blame in [
        "tollgate_endpoint_ejections_total",
        "tollgate_endpoint_failures_total",
    ] {
        assert_eq!(process.metric(blame), 0, "{blame}");
    }
    assert!(holds(&log, "\"reason\":\"no_descriptors\"") > 0);
    assert_eq!(holds(&log, "cannot accept"), 0);
}

/// The process has fewer descriptors than it sets aside, and connections to its admin port take the rest.
#[test]
fn admin_port_that_cannot_accept_says_so_at_most_once_a_second() {
    let origin = Origin::plain();
    let process = Process::start_as(&Config::to(origin.url()).route("/*", ""), |file| {
        command_with_descriptors(file, 48)
    });
    let _asking: Vec<_> = (0..60).map(|_| Client::connect(process.admin)).collect();
    let said = eventually("it is said twice", || {
        let lines = process.lines();
        let said = lines
            .iter()
            .filter(|line| line.contains("the admin port cannot accept"));
        let times: Vec<_> = said.map(|line| second_of_day(line)).collect();
        (times.len() >= 2).then_some(times)
    });
    let between: Vec<_> = said.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(between.iter().all(|between| *between >= 0.9), "{between:?}");
}

/// Returns the time at which an event was logged, in seconds since midnight.
fn second_of_day(line: &str) -> f64 {
    let event: serde_json::Value = serde_json::from_str(line).expect("an event is JSON");
    let time = event["timestamp"].as_str().expect("a time");
    let (_, time) = time.trim_end_matches('Z').split_once('T').expect("a time");
    let parts = time
        .split(':')
        .map(|part| part.parse::<f64>().expect("a number"));
    parts.fold(0.0, |sum, part| sum * 60.0 + part)
}
