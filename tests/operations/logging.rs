//! Where the log goes and what a line of it says: its file across reloads, who is named, and how.

use std::io::Result;

use serde_json::Value;

use crate::support::process::free_address;
use crate::support::{After, Client, Config, Origin, Process, eventually, get};

/// A file that sends every path under `/api` to the echo; `log` has the lines of `[log]`.
fn logged(log: &str) -> Config {
    // One worker, so that lines come in the order of the requests.
    Config::to("builtin:echo")
        .one_worker()
        .route("/api/*", "")
        .with(&format!("[log]\n{log}"))
}

/// Returns a field of a record as text.
fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    let text = record.get(field).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("no {field} in {record}"))
}

/// Returns the partition that each policy counted.
fn partitions(record: &Value) -> Vec<&str> {
    let partitions = record.get("partitions").and_then(Value::as_array);
    let partitions = partitions.unwrap_or_else(|| panic!("no partitions in {record}"));
    partitions.iter().filter_map(Value::as_str).collect()
}

fn is_digest(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[test]
fn with_digests_only_neither_address_nor_path_nor_key_nor_user_agent_is_seen() {
    let config = Config::to("builtin:echo")
        .one_worker()
        .policy(
            "keyed",
            "quota = '9 per hour'\npartition = ['header:x-api-key']",
        )
        .route("/api/*", "policies = ['keyed']")
        .with("[log]\nclients = 'digest'\nlevel = 'debug'");
    let mut process = Process::start(&config);
    for (source, target, key) in [
        ([127, 0, 0, 7], "/api/alice", "sk_live_one"),
        ([127, 0, 0, 7], "/alice/unrouted", "sk_live_one"),
        ([127, 0, 0, 8], "/api/alice", "sk_live_one"),
        ([127, 0, 0, 8], "/api/alice", "sk_live_two"),
    ] {
        let fields = format!("X-Api-Key: {key}\r\nUser-Agent: alice's app\r\n");
        Client::connect_from(source, process.public).get(target, &fields);
    }
    let records = process.wait_for_records(4);
    process.signal("TERM");
    process.wait();
    for line in process.lines() {
        for secret in ["127.0.0.7", "127.0.0.8", "alice", "sk_l"] {
            assert!(!line.contains(secret), "{secret} in {line}");
        }
    }
    assert!(
        records
            .iter()
            .all(|record| record.get("user_agent").is_none())
    );
    let clients: Vec<_> = records
        .iter()
        .map(|record| text(record, "client"))
        .collect();
    assert!(
        clients.iter().all(|client| is_digest(client)),
        "{clients:?}"
    );
    assert_eq!(clients[0], clients[1], "one address, two digests");
    assert_ne!(clients[0], clients[2], "two addresses, one digest");
    let keys = [0, 2, 3].map(|at| partitions(&records[at])[0]);
    assert!(keys.iter().all(|key| is_digest(key)), "{keys:?}");
    assert_eq!(keys[0], keys[1], "one key, two digests");
    assert_ne!(keys[1], keys[2], "two keys, one digest");
}

#[test]
fn what_no_route_takes_is_logged_under_the_client_behind_the_proxy() {
    let config = logged("").listener("trusted_proxies = ['127.0.0.1/32']");
    let process = Process::start(&config);
    let fields = "X-Forwarded-For: 203.0.113.9\r\n";
    for (target, reason) in [("/unrouted", "no_route"), ("/api/%zz", "bad_path")] {
        get(process.public, target, fields);
        let line = process.wait_for_line(&["\"GET\"", reason]);
        let record: Value = serde_json::from_str(&line).expect("a log line is JSON");
        assert_eq!(text(&record, "client"), "203.0.113.9", "{record}");
    }
}

#[test]
fn what_the_end_of_the_gateway_cuts_is_logged_as_its_own_fault_and_nothing_makes_it_wait() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf";
    for (signal, patience, head) in [
        ("TERM", "shutdown_grace = '300ms'", ""),
        ("TERM", "shutdown_grace = '300ms'", half),
        ("INT", "shutdown_delay = '1h'\nshutdown_grace = '1h'", ""),
        ("INT", "shutdown_delay = '1h'\nshutdown_grace = '1h'", half),
    ] {
        let origin = Origin::scripted(move |exchange| -> Result<After> {
            exchange.write(head)?;
            exchange.until_closed();
            Ok(After::Close)
        });
        let config = Config::to(origin.url()).top(patience).route("/*", "");
        let mut process = Process::start(&config);
        let mut client = Client::connect(process.public);
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        origin.wait_for_requests(1);
        if !head.is_empty() {
            client.wire.read_until(b"half").expect("half of an answer");
        }
        process.signal(signal);
        client.assert_closed();
        assert_eq!(process.wait().code(), Some(0));
        let records = process.wait_for_records(1);
        let told: Vec<_> = records
            .iter()
            .map(|record| (text(record, "reason"), text(record, "fault")))
            .collect();
        assert_eq!(told, [("shut_down", "gateway")], "{signal} {head:?}");
    }
}

#[test]
fn client_that_leaves_during_its_answer_is_recorded_as_gone() {
    let length = 64 << 20;
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    response.resize(response.len() + length, b'x');
    let origin = Origin::answering(response);
    let process = Process::start(&Config::to(origin.url()).route("/*", ""));
    let mut client = Client::connect(process.public);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    client.head().expect("a head");
    drop(client);
    origin.wait_for_ended(1);
    let records = process.wait_for_records(1);
    assert_eq!(text(&records[0], "reason"), "client_gone");
}

#[test]
fn body_that_is_found_too_large_after_the_answer_began_is_recorded_as_that() {
    let origin = Origin::scripted(|exchange| {
        exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx")?;
        exchange.until_closed();
        Ok(After::Close)
    });
    let config = Config::to(origin.url()).listener("max_body_bytes = '10B'");
    let process = Process::start(&config.route("/*", ""));
    let mut client = Client::connect(process.public);
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    client.head().expect("a head");
    client.send("20\r\n01234567890123456789012345678901\r\n");
    client.rest();
    let line = process.wait_for_line(&["\"POST\"", "\"reason\""]);
    let record: Value = serde_json::from_str(&line).expect("a log line is JSON");
    assert_eq!(text(&record, "reason"), "body_too_large");
}

#[test]
fn what_is_probably_not_meant_is_logged_at_the_start_and_at_a_reload() {
    let trusting = |proxies| logged("").listener(&format!("trusted_proxies = ['{proxies}']"));
    let process = Process::start(&trusting("0.0.0.0/0"));
    process.wait_for_line(&["probably not what was meant", "`public`", "0.0.0.0/0"]);
    process.rewrite(&trusting("::/0"));
    process.signal("HUP");
    process.wait_for_line(&["probably not what was meant", "`public`", "::/0"]);
}

#[test]
fn an_upstream_that_fails_is_named_with_its_cause_in_every_record_and_once_as_an_event() {
    let endpoint = free_address();
    let config = Config::to(format!("http://{endpoint}")).route("/*", "");
    let process = Process::start(&config);
    for _ in 0..3 {
        assert_eq!(get(process.public, "/", "").status, 502);
    }
    for record in process.wait_for_records(3) {
        assert_eq!(text(&record, "reason"), "connect_failed");
        assert_eq!(text(&record, "endpoint"), endpoint.to_string());
        assert_eq!(text(&record, "cause"), "connection refused");
    }
    let events = |message: &str| {
        let lines = process.lines();
        lines.iter().filter(|line| line.contains(message)).count()
    };
    let failing = process.wait_for_line(&["an endpoint fails", "connection refused"]);
    assert!(failing.contains(&endpoint.to_string()), "{failing}");
    assert_eq!(events("an endpoint fails"), 1);

    let origin = Origin::plain_at(endpoint);
    eventually("it answers again", || {
        assert_eq!(get(process.public, "/", "").status, 200);
        (events("an endpoint responds again") > 0).then_some(())
    });
    assert_eq!(events("an endpoint responds again"), 1);
    drop(origin);
}

#[test]
fn an_upstream_whose_name_does_not_resolve_says_so() {
    let process = Process::start(&Config::to("http://no.such.host.invalid").route("/*", ""));
    let answer = get(process.public, "/", "");
    // An ejected endpoint would be back by then.
    assert_eq!(
        (answer.status, answer.field("retry-after")),
        (503, Some("10"))
    );
    let record = &process.wait_for_records(1)[0];
    assert_eq!(text(record, "reason"), "no_endpoint");
    assert_eq!(text(record, "endpoint"), "no.such.host.invalid:80");
    let cause = text(record, "cause");
    assert!(cause.starts_with("name does not resolve"), "{cause}");
}

#[test]
fn debug_shows_the_life_of_a_connection_and_a_decision() {
    let config =
        Config::limited("builtin:echo", "quota = '1 per hour'").with("[log]\nlevel = 'debug'");
    let process = Process::start(&config);
    let mut client = Client::connect(process.public);
    assert_eq!(client.get("/", "").status, 200);
    assert_eq!(client.get("/", "").status, 429);
    drop(client);
    for parts in [
        ["a connection begins", "127.0.0.1"],
        ["request decided", "Admitted"],
        ["request decided", "Refused"],
        ["a connection ends", "127.0.0.1"],
    ] {
        process.wait_for_line(&parts);
    }
}
