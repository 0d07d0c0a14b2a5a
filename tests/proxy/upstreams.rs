//! What a failing origin costs: a clear answer, one charge, and never somebody else's bytes.

use std::io::Write;
use std::net::TcpListener;
use std::thread;

use crate::support::ratelimit::remaining;
use crate::support::{
    After, Client, Config, Flow, Gate, Origin, Refusing, Running, Stepped, Unreachable, eventually,
    get, secs, start,
};

fn open(endpoint: &str) -> Running {
    start(&Config::to(endpoint).route("/*", ""))
}

#[test]
fn an_upstream_that_refuses_connections_is_a_502() {
    let refusing = Refusing::new();
    let running = open(&refusing.url());
    let mut client = Client::connect(running.public);
    for _ in 0..2 {
        let answer = client.get("/", "");
        assert_eq!(answer.status, 502);
        assert_eq!(
            answer.field("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(answer.json()["status"], 502);
    }
}

#[test]
fn a_connection_is_tried_elsewhere_when_nothing_was_sent() {
    let (refusing, origin) = (Refusing::new(), Origin::plain());
    let config = Config::limited(refusing.url(), "quota = '100 per minute'")
        .endpoints(&[refusing.url(), origin.url()]);
    let running = start(&config);
    let mut client = Client::connect(running.public);
    for spent in 1..=4 {
        let answer = client.post("/", "", "hello");
        assert_eq!(answer.status, 200);
        assert_eq!(
            remaining(&answer, "p"),
            100 - spent,
            "a retry spends nothing"
        );
    }
    assert_eq!(origin.requests().len(), 4);
}

#[test]
fn a_request_that_was_sent_is_sent_again_only_if_it_may_be_done_twice() {
    let hang_up = || Origin::scripted(|_| Ok(After::Close));
    let origins = [hang_up(), hang_up()];
    let config = Config::to(origins[0].url())
        .endpoints(&[origins[0].url(), origins[1].url()])
        .upstream("retries = 3")
        .route("/*", "");
    let running = start(&config);
    for method in ["GET", "POST"] {
        let answer = Client::connect(running.public).ask(format!(
            "{method} / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(answer.status, 502, "{method}");
    }
    let seen: usize = origins.iter().map(|x| x.requests().len()).sum();
    assert_eq!(seen, 1 + 3 + 1, "GET three times more");
}

#[test]
fn a_pooled_connection_that_the_origin_closed_costs_no_request() {
    let origin = Origin::scripted(|exchange| {
        exchange.read_body()?;
        exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        Ok(After::Close)
    });
    let config = Config::to(origin.url()).one_worker().with(
        "[upstreams.echo]\nendpoints = ['builtin:echo']\n\
         [[routes]]\npath = '/echo'\nupstream = 'echo'",
    );
    let running = start(&config.route("/*", ""));
    let mut client = Client::connect(running.public);
    for turn in 1..=5 {
        let answer = client.post("/", "", "hello");
        assert_eq!((answer.status, answer.text()), (200, "ok".to_owned()));
        origin.wait_for_ended(turn);
        // The worker has been round its loop once more, so it has seen the origin's FIN.
        assert_eq!(client.get("/echo", "").status, 200);
    }
    assert_eq!(origin.requests().len(), 5);
}

#[test]
fn an_upstream_that_does_not_answer_in_time_is_a_504() {
    for (upstream, route, patience) in [
        ("", "", 30),
        ("response_timeout = '5s'", "", 5),
        ("response_timeout = '5s'", "response_timeout = '2s'", 2),
    ] {
        let origin = Origin::mute();
        let config = Config::to(origin.url()).upstream(upstream);
        let running = Stepped::start(&config.route("/*", route));
        let mut client = Client::connect(running.public);
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        origin.wait_for_requests(1);
        running.advance(secs(patience - 1));
        assert!(client.is_silent(), "early: {upstream} {route}");
        running.advance(secs(1));
        let answer = client.answer();
        assert_eq!(answer.status, 504, "{upstream} {route}");
        assert_eq!(answer.json()["status"], 504);
        origin.wait_for_ended(1);
    }
}

#[test]
fn an_answer_that_stalls_is_cut_after_the_body_timeout() {
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let origin = Origin::scripted(move |exchange| {
            exchange.write(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nfirst\r\n"))?;
            exchange.until_closed();
            Ok(After::Close)
        });
        let config = Config::to(origin.url()).upstream("body_timeout = '5s'");
        let running = start(&config.route("/*", ""));
        let mut client = Client::connect(running.public);
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        client.wire.read_until(b"first").expect("the first part");
        let _time = Flow::of(&running.clock, secs(2));
        let rest = client.rest();
        assert!(
            !rest.ends_with(b"0\r\n\r\n"),
            "a cut answer looks complete: {head}"
        );
        origin.wait_for_ended(1);
    }
}

#[test]
fn a_slow_answer_that_keeps_coming_is_not_cut() {
    let (more, done) = (Gate::default(), Gate::default());
    let origin = Origin::scripted({
        let (more, done) = (more.clone(), done.clone());
        move |exchange| {
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na")?;
            more.wait();
            exchange.write("b")?;
            done.wait();
            exchange.write("c")?;
            Ok(After::Keep)
        }
    });
    let config = Config::to(origin.url()).upstream("body_timeout = '5s'");
    let running = Stepped::start(&config.route("/*", ""));
    let mut client = Client::connect(running.public);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    client
        .wire
        .read_until(b"\r\n\r\na")
        .expect("the first byte");
    running.advance(secs(4));
    assert!(client.is_silent(), "early");
    more.open();
    client.wire.read_until(b"b").expect("the second byte");
    running.advance(secs(4));
    assert!(client.is_silent(), "early");
    done.open();
    client.wire.read_until(b"c").expect("the third byte");
}

#[test]
fn an_upstream_whose_connection_never_stands_is_answered_in_time() {
    let unreachable = Unreachable::new();
    let config = Config::to(unreachable.url()).upstream("connect_timeout = '2s'");
    let running = Stepped::start(&config.upstream("retries = 0").route("/*", ""));
    let mut client = Client::connect(running.public);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    running.advance(secs(1));
    assert!(client.is_silent(), "early");
    running.advance(secs(1));
    let status = client.answer().status;
    assert!(matches!(status, 502 | 504), "{status}");
}

#[test]
fn a_request_that_is_sent_again_is_charged_once() {
    let origin = Origin::scripted(|exchange| {
        exchange.read_body()?;
        // The second request and the fifth are the last on their connections, and get no answer.
        if matches!(exchange.index, 1 | 4) {
            return Ok(After::Close);
        }
        exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        Ok(After::Keep)
    });
    let config = Config::limited(origin.url(), "quota = '100 per minute'").one_worker();
    let running = start(&config);
    let mut client = Client::connect(running.public);
    for (target, left) in [("/1", 99), ("/2", 98), ("/3", 97)] {
        let answer = client.get(target, "");
        assert_eq!((answer.status, answer.text()), (200, "ok".to_owned()));
        assert_eq!(remaining(&answer, "p"), left, "{target}");
    }
    assert_eq!(client.post("/4", "", "body").status, 502);
    assert_eq!(remaining(&client.get("/5", ""), "p"), 95);
    assert_eq!(origin.targets(), ["/1", "/2", "/2", "/3", "/4", "/5"]);
}

/// An origin of HTTP/2 that refuses the first request on its only connection and answers the others;
/// returns its URL.
fn refusing_once() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("h2c://{}", listener.local_addr().expect("an address"));
    listener.set_nonblocking(true).expect("a listener");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let (stream, _) = listener.accept().await.expect("a connection");
            let mut peer = h2::server::handshake(stream).await.expect("HTTP/2");
            let mut is_first = true;
            while let Some(accepted) = peer.accept().await {
                let (_, mut respond) = accepted.expect("a request");
                if std::mem::take(&mut is_first) {
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                } else {
                    let answer = http::Response::new(());
                    respond.send_response(answer, true).expect("a stream");
                }
            }
        });
    });
    url
}

#[test]
fn a_request_that_an_origin_refuses_unprocessed_is_sent_again_and_charged_once() {
    let policy = "quota = '10 per hour'\npartition = []";
    let running = start(&Config::limited(refusing_once(), policy));
    let answer = get(running.public, "/", "");
    assert_eq!((answer.status, remaining(&answer, "p")), (200, 9));
}

#[test]
fn a_client_that_reads_nothing_until_it_has_sent_everything_deadlocks_nothing() {
    const BODY_BYTES: usize = 16 << 20;
    for framing in [
        format!("Content-Length: {BODY_BYTES}"),
        "Transfer-Encoding: chunked".to_owned(),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
        let origin = Origin::scripted({
            let framing = framing.clone();
            move |exchange| {
                let mut answering = exchange.wire.second_handle();
                let answer = message(&head, &framing, BODY_BYTES);
                let writer = thread::spawn(move || answering.write_all(&answer));
                exchange.read_body()?;
                writer.join().expect("writing does not panic")?;
                Ok(After::Keep)
            }
        });
        let running = open(&origin.url());
        let mut client = Client::connect(running.public);
        let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n");
        client.send(message(&head, &framing, BODY_BYTES));
        assert_eq!(client.answer().body.len(), BODY_BYTES, "{framing}");
        // The answer does not wait for the end of the request.
        eventually("the origin has all of the request", || {
            (origin.only_request().body.len() == BODY_BYTES).then_some(())
        });
    }
}

/// Makes a message with a body of so many bytes.
fn message(head: &str, framing: &str, body_bytes: usize) -> Vec<u8> {
    let body = vec![b'x'; body_bytes];
    if framing.starts_with("Content-Length") {
        return [head.as_bytes(), &body].concat();
    }
    let size = format!("{body_bytes:x}\r\n");
    [head.as_bytes(), size.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat()
}
