//! Bounds on the costs of an early answer: reading the rest of the body, and lingering after the answer.

use crate::support::wire::is_reset;
use crate::support::{
    After, Client, Config, Metered, Origin, Process, Stepped, eventually, get, secs,
};

const UPLOAD: &str = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000\r\n\r\n";

fn refusing(listener: &str) -> Stepped {
    let config = Config::limited("builtin:echo", "quota = '1 per week'\npartition = []");
    let running = Stepped::start(&config.listener(listener));
    assert_eq!(get(running.public, "/", "").status, 200);
    running
}

/// Begins an upload that is refused, and reads the refusal and the FIN after it.
fn lingering(running: &Stepped) -> Client {
    let mut client = Client::connect(running.public);
    let answer = client.ask(UPLOAD);
    assert_eq!(answer.status, 429);
    assert!(answer.says_close(), "{answer:#?}");
    let rest = client.wire.read_to_fin().expect("an end without a reset");
    assert_eq!(rest, b"", "bytes behind the answer");
    client
}

/// Whether the gateway still accepts what the client sends.
fn is_taken(client: &mut Client) -> bool {
    // The write that causes a reset succeeds; only the next one fails.
    (0..2).all(|_| match client.wire.write(b"more") {
        Ok(()) => true,
        Err(error) if is_reset(&error) => false,
        Err(error) => panic!("writing: {error}"),
    })
}

#[test]
fn a_client_that_never_stops_sending_is_cut_after_half_a_minute() {
    let running = refusing("");
    let mut client = lingering(&running);
    for turn in 0..7 {
        assert!(is_taken(&mut client), "after {} seconds", turn * 4);
        running.advance(secs(4));
    }
    assert!(is_taken(&mut client), "half a minute is not over");
    running.advance(secs(2));
    eventually("it is cut", || (!is_taken(&mut client)).then_some(()));
}

#[test]
fn a_client_that_falls_silent_is_cut_after_five_seconds() {
    let running = refusing("");
    let mut client = lingering(&running);
    running.advance(secs(4));
    assert!(is_taken(&mut client), "five seconds are not over");
    running.advance(secs(5));
    eventually("it is cut", || (!is_taken(&mut client)).then_some(()));
}

#[test]
fn connections_that_linger_count_among_the_most_there_may_be() {
    let running = refusing("max_connections = 1");
    let lingering = lingering(&running);
    let mut next = Client::asking(running.public, "/", "");
    running.settle();
    assert!(next.is_silent(), "there is no room");
    drop(lingering);
    assert_eq!(next.answer().status, 429);
}

#[test]
fn connections_that_linger_give_way_to_newcomers_after_a_second() {
    let running = refusing("max_connections = 3");
    let mut silent = [(); 2].map(|()| lingering(&running));
    let mut sending = lingering(&running);
    let mut next = [(); 3].map(|()| Client::connect(running.public));
    for client in &mut next {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    }
    running.settle();
    assert!(is_taken(&mut sending), "it may still read its answer");
    running.advance(secs(1));
    for client in &mut next {
        assert_eq!(client.answer().status, 429);
    }
    for client in silent.iter_mut().chain([&mut sending]) {
        eventually("it is cut", || (!is_taken(client)).then_some(()));
    }
}

#[test]
fn a_gateway_that_ends_does_not_wait_for_whoever_goes_on_sending() {
    let config = Config::limited("builtin:echo", "quota = '1 per week'\npartition = []");
    let mut process = Process::start(&config);
    assert_eq!(get(process.public, "/", "").status, 200);
    let mut client = Client::connect(process.public);
    assert_eq!(client.ask(UPLOAD).status, 429);
    process.signal("TERM");
    eventually("it is cut", || (!is_taken(&mut client)).then_some(()));
    assert!(process.wait().success());
}

#[test]
fn connections_that_linger_end_with_the_gateway() {
    let mut running = refusing("");
    let config = Config::limited("builtin:echo", "quota = '1 per week'\npartition = []");
    let text = config.top("shutdown_grace = '200ms'").text();
    running.gateway.reload(&text).expect("a good file");
    let mut client = lingering(&running);
    running.gateway.shutdown();
    eventually("it is cut", || (!is_taken(&mut client)).then_some(()));
}

#[test]
fn a_short_body_that_never_ends_delays_its_refusal_but_does_not_prevent_it() {
    let running = refusing("");
    let mut client = Client::connect(running.public);
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 60000\r\n\r\n");
    // The gateway's clock stands still, so no deadline of the listener can help.
    eventually("it is answered", || {
        client.send("x");
        (!client.is_silent()).then_some(())
    });
    let answer = client.answer();
    assert_eq!(answer.status, 429);
    assert!(answer.says_close(), "{answer:#?}");
}

#[test]
fn what_comes_behind_a_timed_out_head_does_not_reset_its_408() {
    let running = Stepped::start(&Config::to("builtin:echo").route("/*", ""));
    let mut client = Client::connect(running.public);
    client.send("GET / HTTP/1.1\r\n");
    running.advance(secs(10));
    for _ in 0..3 {
        client.send("X: y\r\n");
        running.settle();
    }
    assert_eq!(client.answer().status, 408);
    let rest = client.wire.read_to_fin().expect("an end without a reset");
    assert_eq!(rest, b"");
    client.send("X: y\r\n");
    running.settle();
    assert!(is_taken(&mut client), "it is read and thrown away");
}

/// Sends bytes after requests that end their connection, and returns what went wrong.
fn failures_behind(running: &Stepped, name: &str, requests: &str, statuses: &[u16]) -> Vec<String> {
    let mut failures = Vec::new();
    for behind in [0, 20_000, 300_000] {
        let mut client = Client::connect_narrow(running.public);
        client.send([requests.as_bytes(), &vec![b'x'; behind]].concat());
        let answers = statuses
            .iter()
            .map(|_| client.try_answer().map(|try_answer| try_answer.status));
        let answers: Result<Vec<_>, _> = answers.collect();
        let end = client.wire.read_to_fin();
        let is_whole = matches!(
            (&answers, &end),
            (Ok(seen), Ok(rest)) if seen == statuses && rest.is_empty()
        );
        running.settle();
        // After its FIN, a connection may be reset without `read_to_fin` seeing that.
        if !is_whole || behind > 0 && !is_taken(&mut client) {
            failures.push(format!(
                "{name}, {behind} bytes behind {requests:?}: {answers:?}, {end:?}"
            ));
        }
    }
    failures
}

#[test]
fn bytes_behind_the_last_answer_of_a_connection_do_not_reset_it() {
    let running = Stepped::start(&Config::to("builtin:echo").route("/*", ""));
    let get = "GET / HTTP/1.1\r\nHost: a.test\r\n";
    let mut failures = Vec::new();
    for (name, requests, statuses) in [
        (
            "close",
            format!("{get}Connection: close\r\n\r\n"),
            &[200][..],
        ),
        (
            "1.0",
            "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n".to_owned(),
            &[200],
        ),
        ("no head", "no head\r\n\r\n".to_owned(), &[400]),
        (
            "no head behind a request",
            format!("{get}\r\nno head\r\n\r\n"),
            &[200, 400],
        ),
        (
            "a bad path",
            "GET /%00 HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(),
            &[400],
        ),
        (
            "a bad path behind a request",
            format!("{get}\r\nGET /%00 HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            &[200, 400],
        ),
    ] {
        failures.extend(failures_behind(&running, name, &requests, statuses));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_connection_that_was_never_switched_to_the_protocol_it_asked_for_ends_like_any_other() {
    // More than the kernels' buffers take, so that some of it is written after the last request has ended.
    let body = "x".repeat(8 << 20);
    let head = format!(
        "HTTP/1.1 413 Content Too Large\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let origin = Origin::scripted(move |exchange| {
        exchange.write(format!("{head}{body}"))?;
        exchange.until_closed();
        Ok(After::Close)
    });
    let config = Config::to(origin.url()).upstream("pool = { max_idle = 0 }");
    let running = Stepped::start(&config.route("/*", "").route("/none", "upgrades = []"));
    let wishes = [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n",
        "Upgrade: other\r\n",
    ];
    let host = "Host: a.test\r\n";
    let mut rows = vec![(
        "CONNECT",
        format!("CONNECT a:1 HTTP/1.1\r\n{host}\r\n"),
        &[501][..],
    )];
    for wish in wishes {
        let asked = format!("GET /none HTTP/1.1\r\n{host}{wish}");
        let upload = format!("POST / HTTP/1.1\r\n{host}{wish}Content-Length: 1000000000\r\n\r\n");
        rows.extend([
            (
                "close",
                format!("{asked}Connection: close\r\n\r\n"),
                &[413][..],
            ),
            (
                "a refusal",
                format!("GET /%00 HTTP/1.1\r\n{host}{wish}\r\n"),
                &[400],
            ),
            (
                "a refusal behind it",
                format!("{asked}\r\nGET /%00 HTTP/1.1\r\n{host}\r\n"),
                &[413, 400],
            ),
            (
                "no head behind it",
                format!("{asked}\r\nno head\r\n\r\n"),
                &[413, 400],
            ),
            ("an early answer", upload, &[413]),
        ]);
    }
    let mut failures = Vec::new();
    for (name, requests, statuses) in rows {
        failures.extend(failures_behind(&running, name, &requests, statuses));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_malformed_head_is_counted_while_its_client_lingers() {
    let config = Config::to("builtin:echo").admin("127.0.0.1:0");
    let running = Stepped::start(&config.route("/*", ""));
    let mut client = Client::connect(running.public);
    assert_eq!(client.ask("GET /a b HTTP/1.1\r\n\r\n").status, 400);
    // The clock stands still, so the lingering close does not end.
    running.wait_for_metric("tollgate_malformed_total{reason=\"syntax\"} 1\n");
    assert!(is_taken(&mut client), "its connection lingers");
}
