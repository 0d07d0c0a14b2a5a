//! The hand-over to another process: what is passed on, what is reported, and what happens when it fails.

use std::fs;

use serde_json::json;

use crate::admin::api::assert_described;
use crate::support::TOKEN;
use crate::support::process::free_address;
use crate::support::{Client, Config, Gate, Generations, Origin, eventually, get};

fn limited(quota: &str) -> Config {
    Config::limited("builtin:echo", &format!("quota = '{quota}'"))
}

#[test]
fn a_new_process_goes_on_with_the_counters_and_what_operators_ordered() {
    let generations = Generations::start(&limited("3 per hour"));
    let public = generations.first.public;
    let order = json!({ "policy": "p", "value": "127.0.0.9", "for": "1h" }).to_string();
    let mut admin = Client::connect(generations.first.admin);
    let length = order.len();
    let blocked = admin.ask(format!(
        "POST /api/keys/block HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{order}"
    ));
    assert_eq!(blocked.status, 200, "{}", blocked.text());
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(get(public, "/", "").status);
        let mut idle = Client::connect(generations.first.admin);
        assert_eq!(idle.get("/livez", "").status, 200);
        generations.upgraded();
        // The next request of an idle client is for the new process.
        idle.assert_closed();
        let blocked = Client::connect_from([127, 0, 0, 9], public).get("/", "");
        assert_eq!(blocked.status, 403);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    // A client that asks through the port is answered by the process that ends.
    let mut admin = Client::connect(generations.first.admin);
    let upgraded = admin.ask(format!(
        "POST /api/upgrade HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    ));
    assert_eq!(upgraded.status, 200, "{}", upgraded.text());
    assert_described("POST", "/api/upgrade", &upgraded);
    admin.assert_closed();
    eventually("only the last lives", || {
        (generations.living() == 1).then_some(())
    });
}

#[test]
fn the_new_file_says_what_is_listened_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (kept, gone, added) = (path("kept"), path("gone"), path("added"));
    let on = |name: &str, path: &std::path::Path| {
        format!("[listeners.{name}]\naddress = 'unix:{}'\n", path.display())
    };
    let config = |more: String| limited("100 per hour").with(&more);
    let before = config(on("kept", &kept) + &on("gone", &gone));
    let generations = Generations::start(&before);
    let other = free_address();
    let port = format!("[listeners.other]\naddress = '{other}'\n");
    let after = config(on("renamed", &kept) + &on("added", &added) + &port);
    let first = &generations.first;
    first.rewrite(&after.admin_token(TOKEN));
    let mut waiting = Client::try_connect_unix(&gone).expect("it is listened on");
    assert_eq!(waiting.get("/", "").status, 200);
    generations.upgraded();
    for path in [&kept, &added] {
        let mut client = Client::try_connect_unix(path).expect("it is listened on");
        assert_eq!(client.get("/", "").status, 200);
    }
    assert_eq!(get(other, "/", "").status, 200);
    assert_eq!(get(first.public, "/", "").status, 200);
    eventually("its file is removed", || (!gone.exists()).then_some(()));
    assert!(waiting.get("/", "").says_close());
    generations.upgraded();
    assert!(kept.exists() && added.exists());
}

#[test]
fn a_new_process_that_cannot_serve_leaves_the_old_one_serving_and_says_why() {
    let generations = Generations::start(&limited("100 per hour"));
    let first = &generations.first;
    let good = fs::read_to_string(first.file()).expect("a file");
    let taken = free_address();
    let _other = std::net::TcpListener::bind(taken).expect("a free port");
    let cannot_listen = format!("cannot listen on {taken} (listeners.b.address)");
    let cases = [
        // A script in place of the binary, lines added to the file, the exit status, and what is reported.
        ("", "[routs]\n".to_owned(), 78, "[[routes]]"),
        (
            "",
            format!("[listeners.b]\naddress = '{taken}'\n"),
            1,
            &cannot_listen,
        ),
        ("exit 3", String::new(), 1, "it has ended"),
        ("exec cat >&0", String::new(), 1, "makes no sense"),
        (
            "TOLLGATE_HANDOVER=0 exec $TOLLGATE \"$@\"",
            String::new(),
            1,
            "versions 0 and 1",
        ),
        // It dies as soon as it has read the first byte of what it is sent.
        (
            "head -c 1 > /dev/null; kill -KILL $$",
            String::new(),
            1,
            "it has ended",
        ),
    ];
    for (script, more, status, said) in cases {
        if !script.is_empty() {
            generations.replace(script);
        }
        first.rewrite_text(&format!("{good}{more}"));
        let output = generations.upgrade();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{script}{more}: {stderr}"
        );
        assert!(stderr.contains(said), "{script}{more}: {stderr}");
        assert_eq!(get(first.public, "/", "").status, 200);
        eventually("the new one is gone", || {
            (generations.living() == 1).then_some(())
        });
        if !script.is_empty() {
            generations.restore();
        }
        first.rewrite_text(&good);
    }
    first.wait_for_line(&["ERROR", "the upgrade failed: this process goes on"]);
    generations.upgraded();
    assert_eq!(get(first.public, "/", "").status, 200);
}

#[test]
fn one_upgrade_at_a_time_and_a_process_that_is_stopped_ends_the_one_that_starts() {
    let mut generations = Generations::start(&limited("100 per hour"));
    generations.replace("exec sleep 60");
    let first = &mut generations.first;
    first.signal("USR2");
    first.wait_for_line(&["a new process starts"]);
    first.signal("USR2");
    first.wait_for_line(&["an upgrade is under way already"]);
    first.signal("TERM");
    assert!(first.wait().success());
    eventually("all are gone", || (generations.living() == 0).then_some(()));
}

#[test]
fn signals_for_the_old_process_reach_the_new_one() {
    let gate = Gate::default();
    let origin = Origin::behind(&gate);
    let generations = Generations::start(&Config::to(origin.url()).route("/*", ""));
    let first = &generations.first;
    let mut busy = Client::connect(first.public);
    busy.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    origin.wait_for_requests(1);
    generations.upgraded();
    first.signal("HUP");
    first.wait_for_line(&["the new configuration is in effect"]);
    gate.open();
    assert_eq!(busy.answer().status, 200);
}

/// The new process may have read the file before it was changed.
#[test]
fn a_reload_while_the_new_process_starts_reaches_both() {
    for by_signal in [true, false] {
        let generations = Generations::start(&limited("100 per hour"));
        let first = &generations.first;
        generations.replace("sleep 0.3; exec $TOLLGATE \"$@\"");
        first.signal("USR2");
        first.wait_for_line(&["a new process starts"]);
        if by_signal {
            first.signal("HUP");
        } else {
            assert!(generations.run("reload").status.success());
        }
        eventually("both have reloaded", || {
            let lines = first.lines();
            let reloaded = lines
                .iter()
                .filter(|line| line.contains("the new configuration is in effect"));
            (reloaded.count() == 2).then_some(())
        });
    }
}

#[test]
fn an_old_process_that_was_stopped_meanwhile_goes_on_with_the_hand_over() {
    let generations = Generations::start(&limited("100 per hour"));
    let first = &generations.first;
    generations.replace(
        "kill -STOP $PPID; (sleep 0.5; kill -CONT $PPID) < /dev/null & exec $TOLLGATE \"$@\"",
    );
    generations.upgraded();
    assert_eq!(get(first.public, "/", "").status, 200);
    eventually("only the last lives", || {
        (generations.living() == 1).then_some(())
    });
}

#[test]
fn a_process_whose_clients_have_all_descriptors_hands_over() {
    let generations = Generations::start_with_descriptors(&limited("1000 per hour"), 256);
    let first = &generations.first;
    let clients: Vec<_> = (0..300).map(|_| Client::connect(first.public)).collect();
    let open = || fs::read_dir(format!("/proc/{}/fd", first.id())).map(Iterator::count);
    eventually("there is no room for more", || {
        open().is_ok_and(|open| open > 85).then_some(())
    });
    generations.upgraded();
    drop(clients);
    assert_eq!(get(first.public, "/", "").status, 200);
}

/// A client that keeps a connection for long must not keep a process for each upgrade.
#[test]
fn at_most_four_earlier_processes_drain() {
    let gate = Gate::default();
    let origin = Origin::behind(&gate);
    let generations = Generations::start(&Config::to(origin.url()).route("/*", ""));
    let mut busy = Vec::new();
    for count in 1..=6 {
        let mut client = Client::connect(generations.first.public);
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        origin.wait_for_requests(count);
        busy.push(client);
        generations.upgraded();
        let most = 1 + count.min(4);
        eventually("the oldest is cut", || {
            (generations.living() == most).then_some(())
        });
    }
    gate.open();
    for (index, client) in busy.iter_mut().enumerate() {
        let answer = client.try_answer().map(|answer| answer.status);
        assert_eq!(answer.is_ok(), index >= 2, "{index}: {answer:?}");
    }
}
