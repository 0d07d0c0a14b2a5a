//! Broken chunks: the origin may have the head already, but the body never completes there.

use serde_json::Value;

use super::bench::{Bench, expect, moves, settled};
use super::{SMUGGLED, assert_none, post, shown};
use crate::support::{After, Client, Config, Framing, Origin, start};

/// Sends each body in chunks, followed by [`SMUGGLED`], and expects a 400 and a close; at the
/// origin, the request must stay incomplete, and its connection must not be used again.
#[track_caller]
fn broken<B: AsRef<[u8]>>(bodies: &[B]) {
    let bench = Bench::new();
    let mut failures = Vec::new();
    for body in bodies {
        let message = [&post("Transfer-Encoding: chunked"), body.as_ref()].concat();
        if let Err(failure) = broken_off(&bench, &message) {
            failures.push(format!("{}: {failure}", shown(body.as_ref())));
        }
    }
    assert_none(&failures);
    let lines = bench.log();
    let requests = bench.origin.requests();
    for (at, seen) in requests.iter().enumerate() {
        let is_broken = seen.target() == "/";
        assert_eq!(seen.is_complete, !is_broken, "{seen:#?}");
        assert_ne!(seen.target(), "/smuggled");
        let mut later = requests[at + 1..].iter();
        let is_used_again = later.any(|other| other.connection == seen.connection);
        assert!(!is_broken || !is_used_again, "the connection of {seen:#?}");
    }
    let ends = lines.iter().filter(|line| line["path"] == "/");
    let ends: Vec<_> = ends
        .map(|line| (&line["status"], &line["reason"]))
        .collect();
    let expected = (&Value::from(400), &Value::from("bad_framing"));
    assert_eq!(ends, vec![expected; bodies.len()]);
}

fn broken_off(bench: &Bench, message: &[u8]) -> Result<(), String> {
    let before = bench.series();
    let mut client = bench.client();
    client.send([message, SMUGGLED.as_bytes()].concat());
    let answer = client.try_answer().map_err(|error| error.to_string())?;
    expect("status", answer.status, 400)?;
    expect("says close", answer.says_close(), true)?;
    let rest = client.wire.read_to_fin();
    let rest = rest.map_err(|error| format!("no FIN behind the answer: {error}"))?;
    expect("bytes behind the answer", &*shown(&rest), "")?;
    drop(client);
    let malformed = "tollgate_malformed_total{reason=\"bad_framing\"}";
    settled(|| {
        let moved = moves(&before, &bench.series());
        expect("malformed", moved.get(malformed), Some(&1))
    })?;
    // The probe may find the message's connection in the pool.
    expect("status of the probe", bench.probe().status, 200)
}

#[test]
fn chunk_sizes_that_are_no_hex_number_are_broken_off() {
    let sizes = [
        "0x3",
        "+3",
        "-3",
        " 3",
        "\t3",
        "0_2e",
        "Z",
        "3Z",
        "3 3",
        "3\x0b",
        "3\0",
        "\"3\"",
        "3,3",
        "FFFFFFFFFFFFFFFF0",
        "10000000000000003",
        "00000000000000003",
        "3 ",
        "3\t",
        "3 \t ",
        "",
    ];
    let mut bodies = sizes
        .map(|size| format!("{size}\r\nabc\r\n0\r\n\r\n").into_bytes())
        .to_vec();
    bodies.extend([
        b"-0x0\r\n\r\n".into(),
        b"+0\r\n\r\n".into(),
        b"\xb3\r\nabc\r\n0\r\n\r\n".into(),
        b"3\nabc\r\n0\r\n\r\n".into(),
        b"3\rabc\r\n0\r\n\r\n".into(),
        // These come after a good chunk, which the origin has already.
        b"3\r\nabc\r\n0x3\r\nabc\r\n0\r\n\r\n".into(),
        b"3\r\nabc\r\n\r\n".into(),
        b"3\r\nabc\r\n 0\r\n\r\n".into(),
    ]);
    broken(&bodies);
}

#[test]
fn chunk_extensions_with_a_line_end_or_control_inside_are_broken_off() {
    broken(&[
        "1;a\r\r\nx\r\n0\r\n\r\n",
        "2\r\r;a\r\n02\r\n0\r\n\r\n",
        "1;\nx\r\n0\r\n\r\n",
        "1;a\nx\r\n0\r\n\r\n",
        "1;a\rb\r\nx\r\n0\r\n\r\n",
        "1;a=\"\r\nx\r\n0\r\n\r\n",
        "1;a=\"\\\r\n\"\r\nx\r\n0\r\n\r\n",
        "1;a=\"\r\n\"\r\nx\r\n0\r\n\r\n",
        "1;a\0b\r\nx\r\n0\r\n\r\n",
        "1;a\x7f\r\nx\r\n0\r\n\r\n",
        "1 ;a=\"\r\nx\r\n0\r\n\r\n",
        "1;a=\"\nb\"\r\nx\r\n0\r\n\r\n",
        "1;a=\"\rb\"\r\nx\r\n0\r\n\r\n",
        "1\r\nx\r\n0;\n\r\n",
    ]);
}

#[test]
fn chunk_extensions_are_bounded_together() {
    let huge = format!("1{}\r\nx\r\n0\r\n\r\n", ";aaaa".repeat(1 << 18));
    let many = format!("1;{}\r\nx\r\n", "a".repeat(4096)).repeat(1000) + "0\r\n\r\n";
    broken(&[huge, many]);
}

#[test]
fn chunks_without_their_end_are_broken_off() {
    broken(&[
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\r0\r\n\r\n",
        "3\r\nabcXX0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\r\n\r\n0\r\n\r\n",
        "3\r\nabc\r\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\n\n",
        "3\r\nabc\r\n0\r\n\rX",
    ]);
}

#[test]
fn trailers_that_are_no_fields_are_broken_off() {
    let trailers = [
        "X: a\r\n b",
        " X: a",
        "X : a",
        ": a",
        "no colon here",
        "X: a\rY: b",
        "X: a\0b",
        "X: a\x7fb",
        "X(Y): a",
        "X: a\nContent-Length: 5",
        "X: a\n",
        "X: a\nY: b",
        "\nX: a",
    ];
    let mut bodies = trailers
        .map(|trailers| format!("3\r\nabc\r\n0\r\n{trailers}\r\n\r\n"))
        .to_vec();
    bodies.push(format!("0\r\n{}\r\n", "X: a\r\n".repeat(101)));
    bodies.push(format!("0\r\nX: {}\r\n\r\n", "a".repeat(64 * 1024)));
    broken(&bodies);
}

/// Because an origin may merge trailers into the head's fields, by which the request was decided.
#[test]
fn trailers_cannot_say_who_asks_or_for_what() {
    let origin = Origin::plain();
    let running = start(
        &Config::limited(
            origin.url(),
            "quota = '9 per hour'\npartition = ['header:x-api-key | ip']",
        )
        .route("/plan", "headers = { x-plan = 'free' }"),
    );
    let mut client = Client::connect(running.public);
    let answer = client.ask(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
         Trailer: x-api-key, x_api-key, x-plan, x-real-ip, x-original-url, x-ok\r\n\r\n\
         0\r\nX-Api-Key: k\r\nX_API-KEY: k\r\nx-plan: paid\r\nX-Real-IP: 1.2.3.4\r\n\
         X-Original-URL: /plan\r\nX-Ok: 1\r\n\r\n",
    );
    assert_eq!(answer.status, 200);
    assert_eq!(
        origin.only_request().trailers,
        [("x-ok".to_owned(), "1".to_owned())]
    );
}

#[test]
fn trailers_cannot_say_what_belongs_to_the_head() {
    let forbidden = [
        "Host: evil",
        "Content-Length: 9",
        "Transfer-Encoding: gzip",
        "X-Forwarded-For: 1.2.3.4",
        "X-Forwarded-Host: evil",
        "X-Forwarded-Proto: https",
        "Forwarded: for=1.2.3.4",
        "Via: 1.1 x",
        "Connection: x",
        "TE: trailers",
        "Upgrade: h2c",
        "Trailer: x",
        "Authorization: Basic eDp5",
        "Proxy-Authorization: Basic eDp5",
        "Cookie: a=b",
        "Expect: 100-continue",
        "Content-Type: text/plain",
        "Content-Encoding: gzip",
        "Content-Range: bytes 0-1/2",
        "Tollgate-Tier: paid",
        "X_Forwarded_For: 1.2.3.4",
        "Content_Length: 9",
        "Set-Cookie: a=b",
        "CDN-Loop: tollgate",
    ];
    let names = forbidden.map(|line| line.split(':').next().unwrap_or_default());
    let bench = Bench::new();
    let message = format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
         Trailer: {}, x-ok\r\n\r\n3\r\nabc\r\n0\r\n{}\r\nX-Ok: 1\r\n\r\n",
        names.join(", "),
        forbidden.join("\r\n"),
    );
    let one = bench.one(message.as_bytes(), b"");
    let (_, seen) = one.expect("one request");
    assert_eq!(seen.body, b"abc");
    assert_eq!(seen.trailers, [("x-ok".to_owned(), "1".to_owned())]);
}

#[test]
fn a_chunk_that_breaks_behind_the_head_of_the_answer_breaks_the_answer_off() {
    for (promised, reason) in [(5, None), (9, Some("bad_framing"))] {
        let origin = Origin::scripted(move |exchange| {
            let bytes = if exchange.index == 0 { promised } else { 5 };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            exchange.write(head + "early")?;
            exchange.read_body()?;
            Ok(After::Keep)
        });
        let bench = Bench::before(origin, |config| config);
        let mut client = bench.client();
        client.send([post("Transfer-Encoding: chunked"), b"3\r\nabc\r\n".into()].concat());
        let mut answer = client.head().expect("a head");
        assert_eq!(answer.status, 200);
        client.send(format!("0x3\r\nabc\r\n0\r\n\r\n{SMUGGLED}"));
        let is_whole = client.finish(&mut answer).is_ok();
        assert_eq!((is_whole, answer.text()), (promised == 5, "early".into()));
        client.assert_closed();
        bench.origin.wait_for_ended(1);
        let seen = bench.origin.only_request();
        assert_eq!((seen.target(), seen.is_complete), ("/", false));
        drop(client);
        let lines = bench.log();
        assert_eq!((lines.len(), lines[0]["reason"].as_str()), (1, reason));
    }
}

#[test]
fn chunks_that_the_builtin_upstreams_are_sent_broken_never_end_well() {
    for upstream in ["builtin:echo", "builtin:status/200"] {
        let bench = Bench::before(Origin::plain(), |config| {
            config.endpoints(&[upstream.to_owned()])
        });
        let mut client = bench.client();
        let head = post("Transfer-Encoding: chunked");
        client.send([head, b"3\r\nabc\r\n0x3\r\nabc\r\n0\r\n\r\n".into()].concat());
        client.send(SMUGGLED);
        let answer = client.try_answer();
        if let Ok(answer) = answer {
            // Only an upstream that needs no body may answer, with an answer that is complete.
            assert_eq!((upstream, answer.body.len()), ("builtin:status/200", 0));
            assert_ne!(answer.framing, Framing::Chunked);
        }
        client.assert_closed();
    }
}
