//! Heads and bodies beyond their limits: refused with a close, and never seen by the origin.

use crate::support::{Client, Config, Metered, Origin, Process, get, start};

/// Returns a GET with this target and these field lines.
fn head(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n")
}

#[test]
fn heads_beyond_their_bounds_are_refused_closed_and_counted() {
    let long = |kib: usize| "x".repeat(kib * 1024);
    let cases = [
        (
            "64 KiB of URL",
            "32KiB",
            head(&format!("/{}", long(64)), ""),
            &[414, 431][..],
        ),
        (
            "1 MiB of URL",
            "32KiB",
            head(&format!("/{}", long(1024)), ""),
            &[414, 431],
        ),
        (
            "64 KiB of query",
            "1MiB",
            head(&format!("/?{}", long(64)), ""),
            &[414],
        ),
        (
            "64 KiB of URL, wide",
            "1MiB",
            head(&format!("/{}", long(64)), ""),
            &[414],
        ),
        (
            "33 KiB of one field",
            "32KiB",
            head("/", &format!("X: {}\r\n", long(33))),
            &[431],
        ),
        (
            "1 MiB of one field",
            "32KiB",
            head("/", &format!("X: {}\r\n", long(1024))),
            &[431],
        ),
        (
            "1 MiB of one field, wide",
            "1MiB",
            head("/", &format!("X: {}\r\n", long(1024))),
            &[431],
        ),
        (
            "1 MiB of a name",
            "32KiB",
            head("/", &format!("{}: x\r\n", long(1024))),
            &[431],
        ),
        (
            "100 fields and Host",
            "32KiB",
            head("/", &"A: b\r\n".repeat(100)),
            &[431],
        ),
        (
            "10,000 fields",
            "32KiB",
            head("/", &"A: b\r\n".repeat(10_000)),
            &[431],
        ),
        (
            "10,000 fields, wide",
            "1MiB",
            head("/", &"A: b\r\n".repeat(10_000)),
            &[431],
        ),
        ("no end of a head", "32KiB", long(2048), &[400, 431]),
    ];
    let mut wrong = Vec::new();
    for (name, bytes_max, bytes, statuses) in cases {
        let origin = Origin::plain();
        let config = Config::to(origin.url())
            .admin("127.0.0.1:0")
            .listener(&format!("max_header_bytes = '{bytes_max}'"));
        let running = start(&config.route("/*", ""));
        let mut client = Client::connect(running.public);
        // The gateway may refuse it before all of it is sent.
        let _ = client.wire.write(bytes.as_bytes());
        let answer = client.try_answer();
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        let rest = client.wire.read_to_fin();
        // It is counted once the connection is over on both sides.
        drop(client);
        let reason = if status == 400 { "syntax" } else { "too_large" };
        let counted = format!("tollgate_malformed_total{{reason=\"{reason}\"}} 1\n");
        running.wait_for_metric(&counted);
        let is_right = statuses.contains(&status)
            && rest.as_ref().is_ok_and(Vec::is_empty)
            && origin.requests().is_empty();
        if !is_right {
            wrong.push(format!("{name}: {answer:?}, then {rest:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn heads_within_their_bounds_are_served() {
    let origin = Origin::plain();
    let config = Config::to(origin.url()).listener("max_header_bytes = '1MiB'");
    let running = start(&config.route("/*", ""));
    let narrow = start(&Config::to(origin.url()).route("/*", ""));
    let long = |kib: usize| "x".repeat(kib * 1024);
    assert_eq!(
        get(narrow.public, "/", &format!("X: {}\r\n", long(30))).status,
        200
    );
    assert_eq!(get(narrow.public, "/", &"A: b\r\n".repeat(99)).status, 200);
    assert_eq!(
        get(running.public, "/", &format!("X: {}\r\n", long(1000))).status,
        200
    );
    assert_eq!(
        get(running.public, &format!("/{}", long(63)), "").status,
        200
    );
}

#[test]
fn a_body_over_the_maximum_is_a_413() {
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .listener("max_body_bytes = '1KiB'")
        .route("/*", "")
        .route("/small", "max_body_bytes = '10B'");
    let running = start(&config);
    for (target, length, status) in [
        ("/", 1024, 200),
        ("/", 1025, 413),
        ("/small", 10, 200),
        ("/small", 11, 413),
    ] {
        let body = "x".repeat(length);
        let answer = Client::connect(running.public).post(target, "", &body);
        assert_eq!(answer.status, status, "{length} bytes to {target}");
        if status == 413 {
            assert_eq!(answer.json()["status"], 413);
        }
    }
    // A body that is refused for its announced length need not be sent, however large it is.
    let mut client = Client::connect(running.public);
    let announced = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1099511627776\r\n\r\n";
    assert_eq!(client.ask(announced).status, 413);
    assert_eq!(origin.requests().len(), 2, "the others are refused unseen");
}

#[test]
fn a_chunked_body_over_the_maximum_never_completes_at_the_origin() {
    let origin = Origin::plain();
    let config = Config::to(origin.url()).listener("max_body_bytes = '1KiB'");
    let running = start(&config.route("/*", ""));
    let mut client = Client::connect(running.public);
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let piece = format!("200\r\n{}\r\n", "x".repeat(512));
    client.send(format!("{piece}{piece}{piece}0\r\n\r\n"));
    assert_eq!(client.answer().status, 413);
    assert!(origin.requests().iter().all(|x| !x.is_complete));
}

#[test]
fn idle_connection_keeps_no_buffer_of_its_largest_head() {
    let long = |kib: usize| "x".repeat(kib * 1024);
    let answer = format!("HTTP/1.1 200 OK\r\nX: {}\r\n", long(30));
    let origin = Origin::answering(format!("{answer}Content-Length: 2\r\n\r\nok"));
    let config = Config::to(origin.url())
        .one_worker()
        .listener("max_header_bytes = '1MiB'")
        .beside("here", "builtin:status/200", "/here", "")
        .route("/*", "");
    let small = head("/here", "");
    // An idle connection takes 20 KiB in any case.
    for (name, head, count) in [
        ("a small request", small.clone(), 500),
        ("a large answer", head("/", ""), 500),
        (
            "a large request",
            head("/here", &format!("X: {}\r\n", long(1000))),
            // Enough connections that the memory of a thread which starts in the meantime makes no difference.
            500,
        ),
    ] {
        let process = Process::start(&config);
        let asked = || {
            let mut client = Client::connect(process.public);
            assert_eq!(client.ask(&head).status, 200, "{name}");
            client
        };
        // These make the allocations that happen only once.
        let _first: Vec<_> = (0..5).map(|_| asked()).collect();
        let before = process.memory();
        let _idle: Vec<_> = (0..count).map(|_| asked()).collect();
        let each = process.memory().saturating_sub(before) / count;
        assert!(each <= 28 * 1024, "{name}: {each} bytes each");
    }
}

#[test]
fn connection_that_has_sent_nothing_has_no_buffer() {
    let config = Config::to("builtin:status/200")
        .one_worker()
        .route("/*", "");
    let process = Process::start(&config);
    let connected = |count: u64| {
        let silent: Vec<_> = (0..count)
            .map(|_| Client::connect(process.public))
            .collect();
        // Connections are served in the order in which they came, so all others are accepted now.
        let mut last = Client::connect(process.public);
        assert_eq!(last.ask(head("/", "")).status, 200);
        (silent, last)
    };
    let _first = connected(5);
    let before = process.memory();
    let count = 500;
    let _silent = connected(count);
    let each = process.memory().saturating_sub(before) / count;
    // With hyper's buffers, it would be more than 8 KiB.
    assert!(each <= 8 * 1024, "{each} bytes each");
}
