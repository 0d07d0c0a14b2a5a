//! What clients and upstreams try in order to pay less, or to make the gateway hold more than it may.

use std::io::Result;

use http::Method;

use super::answers::costs;
use super::{POLICY, REPORTED, RESERVING, chunked, cut, json, left, of_type, origin, raw};
use crate::stores::on_each_store;
use crate::support::http2::Http2;
use crate::support::ratelimit::remaining;
use crate::support::{
    After, Client, Config, Exchange, Framing, Metered, Origin, Process, Recorded, Refusing,
    eventually, get, start,
};

/// A gateway of one worker, so that what one request settles is seen by the next.
fn config(origin: &Origin, policy: &str) -> Config {
    Config::limited(origin.url(), policy).one_worker()
}

/// Bytes of one text, which the gateway must not hold.
const GIGABYTE: usize = 1 << 30;
/// Most bytes of memory that a gateway may take on top of what it takes anyway.
const MEMORY_MAX: u64 = 24 << 20;

/// Writes a JSON document with a text of a gigabyte before the member that reports the cost.
fn write_gigabyte(exchange: &mut Exchange) -> Result<()> {
    let (before, after) = ("{\"text\":\"", "\",\"usage\":{\"total_tokens\":25}}");
    let length = before.len() + GIGABYTE + after.len();
    exchange.write(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{before}"
    ))?;
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..GIGABYTE / piece.len() {
        exchange.write(&piece)?;
    }
    exchange.write(after)
}

#[test]
fn a_gigabyte_of_text_and_a_million_arrays_are_read_in_little_memory() {
    let nested = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let origin = Origin::scripted(move |exchange| {
        exchange.read_body()?;
        let reply = match exchange.target() {
            "/gigabyte" => {
                write_gigabyte(exchange)?;
                return Ok(After::Keep);
            }
            "/nested" => json(&nested),
            "/unended" => json(&nested[..1_000_000]),
            "/within" => json(&format!(
                "{{\"a\":{nested},\"usage\":{{\"total_tokens\":25}}}}"
            )),
            _ => json(r#"{"usage":{"total_tokens":0}}"#),
        };
        exchange.write(&reply.bytes)?;
        Ok(reply.after)
    });
    let process = Process::start(&config(&origin, POLICY));
    let mut client = Client::connect(process.public);
    let mut before = left(&mut client);
    let memory = process.peak_memory();
    for (target, cost) in [
        ("/gigabyte", 25),
        ("/nested", 10),
        ("/unended", 10),
        ("/within", 25),
    ] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let answer = client.head().expect("an answer");
        let Framing::Length(length) = answer.framing else {
            panic!("{answer:?}");
        };
        client.skip(length);
        let after = left(&mut client);
        assert_eq!(before - after, cost, "{target}");
        before = after;
    }
    let taken = process.peak_memory() - memory;
    assert!(taken < MEMORY_MAX, "{taken} bytes");
}

#[test]
fn an_answer_without_a_body_that_can_be_read_costs_its_reserve() {
    let length = REPORTED.len();
    let replies = [
        (
            "/head".to_owned(),
            raw(
                &format!("200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}"),
                "",
            ),
        ),
        (
            "/unchanged".to_owned(),
            raw(
                "304 Not Modified\r\nContent-Type: application/json\r\nETag: \"a\"",
                "",
            ),
        ),
        (
            "/reset".to_owned(),
            raw("205 Reset Content\r\nContent-Length: 0", ""),
        ),
        (
            "/twice".to_owned(),
            raw(
                &format!(
                    "200 OK\r\nContent-Type: text/plain\r\nContent-Type: application/json\r\nContent-Length: {length}"
                ),
                REPORTED,
            ),
        ),
        (
            "/upgrade".to_owned(),
            cut(raw(
                "101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket",
                REPORTED,
            )),
        ),
    ];
    on_each_store(|start| {
        let origin = origin(&replies);
        let running = start(config(&origin, POLICY));
        let mut client = Client::connect(running.public);
        let mut before = left(&mut client);
        for (target, _) in &replies {
            let mut asking = Client::connect(running.public);
            match &**target {
                "/head" => {
                    asking.send("HEAD /head HTTP/1.1\r\nHost: a.test\r\n\r\n");
                    asking.answer_to_head();
                }
                "/upgrade" => {
                    let fields = "Connection: upgrade\r\nUpgrade: websocket\r\n";
                    assert_eq!(asking.get(target, fields).status, 101);
                    asking.until(REPORTED);
                    drop(asking);
                }
                _ => {
                    asking.get(target, "");
                }
            }
            let cost = eventually(target, || {
                let cost = before - left(&mut client);
                (cost == 10).then_some(cost)
            });
            before -= cost;
        }
    });
}

#[test]
fn leaving_a_stream_before_its_last_event_costs_the_reserve() {
    on_each_store(|start| {
        let origin = Origin::scripted(|exchange| {
            exchange.read_body()?;
            let zero = json(r#"{"usage":{"total_tokens":0}}"#);
            if exchange.target() == "/zero" {
                exchange.write(&zero.bytes)?;
                return Ok(After::Keep);
            }
            let first = "data: {\"usage\":{\"total_tokens\":1}}\n\n";
            let stream = chunked("text/event-stream", &[first]);
            let whole = stream.bytes.strip_suffix(b"0\r\n\r\n").expect("its end");
            exchange.write(whole)?;
            exchange.until_closed();
            Ok(After::Close)
        });
        let running = start(config(&origin, POLICY));
        let mut client = Client::connect(running.public);
        let before = left(&mut client);
        let mut leaving = Client::asking(running.public, "/stream", "");
        leaving.until("\n\n");
        drop(leaving);
        let mut http2 = Http2::connect(running.public, 65_535);
        let mut stream = http2.ask(Method::GET, "/stream");
        stream.head().expect("an answer");
        stream.take(1).expect("an event");
        stream.cancel();
        eventually("both have cost their reserve", || {
            origin.wait_for_ended(2);
            (before - left(&mut client) == 20).then_some(())
        });
    });
}

#[test]
fn an_answer_that_does_not_tell_costs_at_least_what_is_said_for_that() {
    let text = of_type("text/plain", &"a".repeat(70));
    let head = "200 OK\r\nContent-Type: application/json\r\nContent-Length: 100";
    let broken = cut(raw(head, r#"{"usage":{"total_tokens":900},"#));
    costs(
        &format!("{POLICY}\ncost_unknown = 50"),
        &[
            ("reported", json(REPORTED), 25),
            ("unreported", json("{}"), 50),
            ("cut behind more", broken.clone(), 900),
            ("cut behind less", cut(raw(head, REPORTED)), 50),
        ],
    );
    costs(
        &format!("{POLICY}\ncost_unknown = [{{ from = 'response-bytes', times = 2 }}]"),
        &[
            ("reported", json(REPORTED), 25),
            ("of another type", text, 140),
            ("short", json("{}"), 10),
            ("cut", cut(raw(head, &"x".repeat(30))), 60),
        ],
    );
}

#[test]
fn what_is_given_back_by_status_goes_before_what_the_body_tells() {
    let length = REPORTED.len();
    let failed = |status| {
        let head =
            format!("{status} No\r\nContent-Type: application/json\r\nContent-Length: {length}");
        (format!("/{status}"), raw(&head, REPORTED))
    };
    let replies = [404, 500].map(failed);
    on_each_store(|start| {
        let origin = origin(&replies);
        let running = start(config(&origin, &format!("{POLICY}\nrefund_on = ['5xx']")));
        let mut client = Client::connect(running.public);
        let before = left(&mut client);
        for (target, cost) in [("/500", 0), ("/404", 25)] {
            client.get(target, "");
            assert_eq!(before - left(&mut client), cost, "{target}");
        }
    });
    let dead = Refusing::new();
    for (more, cost) in [
        ("", 10),
        ("min_cost = 50\ncost_unknown = 90", 10),
        ("refund_on = ['connect']", 0),
    ] {
        let policy = format!("{POLICY}\n{more}");
        let running = start(&Config::limited(dead.url(), &policy).one_worker());
        let first = get(running.public, "/", "");
        let second = get(running.public, "/", "");
        assert_eq!((first.status, second.status), (502, 502));
        let left = |answer| remaining(answer, "p");
        assert_eq!(left(&first) - left(&second), cost, "{more}");
    }
}

#[test]
fn a_policy_that_marks_settles_as_one_that_refuses() {
    on_each_store(|start| {
        let length = REPORTED.len();
        let reported = format!("Content-Type: application/json\r\nContent-Length: {length}");
        let origin = Origin::answering(format!("HTTP/1.1 200 OK\r\n{reported}\r\n\r\n{REPORTED}"));
        let policy = POLICY.replace("1000000 per 366 days", "40 per 366 days");
        let running = start(config(&origin, &format!("{policy}\nmode = 'mark'")));
        let mut client = Client::connect(running.public);
        let left: Vec<_> = (0..3)
            .map(|_| remaining(&client.get("/", ""), "p"))
            .collect();
        // The second costs 25 where 15 are left, and the third finds nothing.
        assert_eq!(left, [30, 5, 0]);
        let over = |request: &Recorded| !request.head.fields("tollgate-over").is_empty();
        let over: Vec<_> = origin.requests().iter().map(over).collect();
        assert_eq!(over, [false, false, true]);
    });
}

#[test]
fn what_is_marked_is_billed_but_charged_to_no_quota() {
    let length = REPORTED.len();
    let head = format!("Content-Type: application/json\r\nContent-Length: {length}");
    let origin = Origin::answering(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{REPORTED}"));
    let policy = POLICY.replace("1000000 per 366 days", "40 per 366 days");
    let process = Process::start(&config(&origin, &format!("{policy}\nmode = 'mark'")));
    let mut client = Client::connect(process.public);
    for _ in 0..3 {
        client.get("/", "");
    }
    let records = process.wait_for_records(3);
    let costs: Vec<_> = records
        .iter()
        .map(|record| record["charged"][0].clone())
        .collect();
    assert_eq!(costs, [25, 25, 25]);
    let metrics = process.metrics();
    for line in [
        r#"tollgate_reserved_units_total{policy="p"} 20"#,
        r#"tollgate_charged_units_total{policy="p"} 50"#,
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
    }
}

#[test]
fn requests_that_are_forms_or_endless_reserve_what_cannot_be_read() {
    let form = "--a\r\nContent-Disposition: form-data; name=\"max_tokens\"\r\n\r\n1\r\n--a--\r\n";
    let origin = origin(&[]);
    let running = start(&config(&origin, RESERVING));
    let mut client = Client::connect(running.public);
    let fields = "Content-Type: multipart/form-data; boundary=a\r\n";
    let answer = client.post("/zero", fields, form);
    assert_eq!(1_000_000 - remaining(&answer, "p"), 5000);
    // A body far larger than what is held passes on, as it comes.
    let piece = "a".repeat(1 << 16);
    client.send("POST /zero HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..64 {
        client.send(format!("{:x}\r\n{piece}\r\n", piece.len()));
    }
    let answer = client.ask("0\r\n\r\n");
    assert_eq!(answer.status, 200);
    assert!(1_000_000 - remaining(&answer, "p") >= 5000);
    let seen = origin.requests().pop().expect("a request");
    assert_eq!(seen.body.len(), 64 << 16);
}

#[test]
fn a_request_without_a_body_has_none_to_reserve_by() {
    let origin = origin(&[]);
    let policy = POLICY.replace(
        "reserve = 10",
        "reserve = [{ from = 'request-bytes', times = 2 }]\nreserve_default = 5000",
    );
    let running = start(&config(&origin, &policy));
    let mut client = Client::connect(running.public);
    for (request, reserved) in [
        ("GET /zero HTTP/1.1\r\nHost: a.test\r\n\r\n", 0),
        (
            "POST /zero HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc",
            6,
        ),
        (
            "POST /zero HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            4,
        ),
    ] {
        let answer = client.ask(request);
        assert_eq!(1_000_000 - remaining(&answer, "p"), reserved, "{request}");
    }
}
