//! What a failing origin costs: a clear answer, one charge, and never somebody else's bytes.

mod support;

use std::time::Duration;

use support::ratelimit::remaining;
use support::{After, Client, Config, Flow, Gate, HUSH, Origin, Refusing, Running, secs, start};

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
fn a_request_that_was_sent_is_never_sent_again() {
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
    assert_eq!(seen, 2);
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
        let running = start(&config.route("/*", route));
        let mut client = Client::connect(running.public);
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        origin.wait_for_requests(1);
        running.clock.advance(secs(patience - 1));
        assert!(client.is_silent_for(HUSH), "early: {upstream} {route}");
        let _time = Flow::of(&running.clock, secs(1));
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
    let running = start(&config.route("/*", ""));
    let mut client = Client::connect(running.public);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    client
        .wire
        .read_until(b"\r\n\r\na")
        .expect("the first byte");
    running.clock.advance(secs(4));
    assert!(client.is_silent_for(HUSH));
    more.open();
    client.wire.read_until(b"b").expect("the second byte");
    running.clock.advance(secs(4));
    assert!(client.is_silent_for(HUSH));
    done.open();
    client.wire.read_until(b"c").expect("the third byte");
}

#[test]
fn an_answer_before_the_request_is_complete_reaches_the_client() {
    let origin = Origin::scripted(|exchange| {
        exchange
            .write("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")?;
        exchange.wire.finish_writing();
        exchange.until_closed();
        Ok(After::Close)
    });
    let running = open(&origin.url());
    let mut client = Client::connect(running.public);
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\nstart");
    let answer = client.answer();
    assert_eq!((answer.status, answer.text()), (403, "no".to_owned()));
}

#[test]
fn a_client_that_leaves_ends_its_request_at_the_origin() {
    let origin = Origin::mute();
    let running = open(&origin.url());
    for (turn, leaves_half) in [(1, false), (2, true)] {
        let mut client = Client::connect(running.public);
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        origin.wait_for_requests(turn);
        if leaves_half {
            // "A client that closes its sending side before the answer counts as gone."
            client.wire.finish_writing();
            origin.wait_for_ended(turn);
        } else {
            drop(client);
            origin.wait_for_ended(turn);
        }
    }
}

#[test]
fn an_upstream_whose_connection_never_stands_is_answered_in_time() {
    // A full backlog drops further connection requests unanswered.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
        .expect("sockets are available");
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).expect("a free port");
    socket.listen(0).expect("a bound socket");
    let address = socket.local_addr().expect("a bound socket");
    let address = address.as_socket().expect("an IPv4 address");
    let short = Duration::from_millis(50);
    let fillers: Vec<_> = (0..4)
        .map_while(|_| std::net::TcpStream::connect_timeout(&address, short).ok())
        .collect();
    assert!(fillers.len() < 4, "the backlog never fills");

    let config = Config::to(format!("http://{address}")).upstream("connect_timeout = '2s'");
    let running = start(&config.upstream("retries = 0").route("/*", ""));
    let mut client = Client::connect(running.public);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(client.is_silent_for(HUSH));
    let _time = Flow::of(&running.clock, secs(1));
    let status = client.answer().status;
    assert!(matches!(status, 502 | 504), "{status}");
}
