//! Deadlines of a client's connection: none is missed, none comes early, and none blames the wrong side.

use tollgate::clock::Micros;

use crate::support::wire::Body;
use crate::support::{After, Client, Config, Framing, Gate, Origin, Stepped, get, secs};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

fn open(endpoint: &str, listener: &str) -> Stepped {
    Stepped::start(&Config::to(endpoint).listener(listener).route("/*", ""))
}

#[test]
fn an_incomplete_head_is_a_408_after_the_header_timeout_wherever_it_begins() {
    let post = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi";
    for (listener, timeout) in [("", 10), ("header_timeout = '2s'\nidle_timeout = '1h'", 2)] {
        let running = open("builtin:echo", listener);
        // After whole requests, the incomplete head comes in one piece with them, or once they are answered.
        for (before, head, is_pipelined) in [
            (String::new(), "G", true),
            (String::new(), "GET / HTTP/1.1\r\n", true),
            (String::new(), "GET / HTTP/1.1\r\nHost: a.test\r\n", true),
            (GET.to_owned(), "GET / HT", false),
            (GET.to_owned(), "GET / HT", true),
            (post.to_owned(), "GET / HT", true),
            (GET.repeat(2), "GET / HT", true),
        ] {
            let mut client = Client::connect(running.public);
            let (first, second) = if is_pipelined { (head, "") } else { ("", head) };
            client.send(before.clone() + first);
            for _ in 0..before.matches("Host").count() {
                assert_eq!(client.answer().status, 200, "{before}");
            }
            client.send(second);
            running.advance(secs(timeout - 1));
            assert!(client.is_silent(), "early: {before}{head}");
            running.advance(secs(1));
            assert_eq!(client.answer().status, 408, "{before}{head}");
            client.assert_closed();
        }
    }
}

#[test]
fn idle_connection_is_closed_in_time_and_not_before_after_requests_of_any_shape() {
    let config = Config::to("builtin:echo")
        .listener("header_timeout = '2s'")
        .policy("p", "quota = '1 per day'\npartition = []")
        .route("/*", "")
        .route("/spent", "policies = ['p']");
    let running = Stepped::start(&config);
    assert_eq!(get(running.public, "/spent", "").status, 200);
    let host = "Host: a.test\r\n";
    for (request, answers) in [
        (GET.repeat(2), &[200, 200][..]),
        (
            format!("POST / HTTP/1.1\r\n{host}Content-Length: 2\r\n\r\nhi"),
            &[200],
        ),
        (
            format!(
                "POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
            ),
            &[200],
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"),
            &[200],
        ),
        (
            format!("POST /spent HTTP/1.1\r\n{host}Content-Length: 2\r\n\r\nhi"),
            &[429],
        ),
        (
            format!("GET / HTTP/1.0\r\n{host}Connection: keep-alive\r\n\r\n"),
            &[200],
        ),
    ] {
        let mut client = Client::connect(running.public);
        for _ in 0..2 {
            client.send(&request);
            let seen: Vec<_> = answers.iter().map(|_| client.answer().status).collect();
            assert_eq!(seen, answers, "{request}");
            running.advance(secs(70));
            assert!(client.is_silent(), "75 seconds are not over: {request}");
        }
        running.advance(secs(5));
        client.assert_closed();
    }
}

#[test]
fn a_head_that_trickles_in_does_not_win_time() {
    let running = open("builtin:echo", "");
    let mut client = Client::connect(running.public);
    assert_eq!(client.ask(GET).status, 200);
    client.send("GET / HTTP/1.1\r\nX-Slow: ");
    // Each byte comes well within ten seconds of the one before, but all of them together do not.
    for _ in 0..2 {
        running.advance(secs(4));
        assert!(client.is_silent(), "10 seconds are not over");
        client.send("x");
    }
    running.advance(secs(4));
    assert_eq!(client.answer().status, 408);
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let running = open("builtin:echo", "");
    let mut client = Client::connect(running.public);
    running.advance(secs(9));
    assert!(client.is_silent(), "10 seconds are not over");
    running.advance(secs(1));
    client.assert_closed();
}

#[test]
fn a_body_that_stalls_ends_its_request() {
    let origin = Origin::plain();
    let running = open(&origin.url(), "body_timeout = '5s'");
    let mut client = Client::connect(running.public);
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc");
    origin.wait_for_requests(1);
    running.advance(secs(4));
    assert!(client.is_silent(), "early");
    running.advance(secs(1));
    let answer = client.answer();
    assert_eq!((answer.status, answer.says_close()), (408, true));
    client.assert_closed();
    origin.wait_for_ended(1);
    assert!(!origin.only_request().is_complete);
}

#[test]
fn a_slow_body_that_keeps_coming_is_not_cut() {
    let seen = [(); 3].map(|()| Gate::default());
    let origin = Origin::scripted({
        let seen = seen.clone();
        move |exchange| {
            for gate in &seen {
                exchange.wire.take(1)?;
                gate.open();
            }
            exchange.write("HTTP/1.1 204 No Content\r\n\r\n")?;
            Ok(After::Keep)
        }
    });
    let running = open(&origin.url(), "body_timeout = '5s'");
    let mut client = Client::connect(running.public);
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n");
    for (place, gate) in seen.iter().enumerate() {
        client.send("x");
        gate.wait();
        if place < 2 {
            running.advance(secs(4));
            assert!(client.is_silent(), "byte {place}");
        }
    }
    assert_eq!(client.answer().status, 204);
}

#[test]
fn waiting_for_the_origin_does_not_count_against_the_client() {
    let read = Gate::default();
    let origin = Origin::scripted({
        let read = read.clone();
        move |exchange| {
            read.wait();
            exchange.read_body()?;
            exchange.write("HTTP/1.1 204 No Content\r\n\r\n")?;
            Ok(After::Keep)
        }
    });
    let config = Config::to(origin.url())
        .listener("body_timeout = '5s'")
        .upstream("response_timeout = '1h'");
    let running = Stepped::start(&config.route("/*", ""));
    // More than the kernel's buffers take, so that the client cannot go on sending.
    let body = vec![b'x'; 32 << 20];
    let mut client = Client::connect(running.public);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    origin.wait_for_requests(1);
    let taken = client.wire.write_until_full(&body, || running.settle());
    assert!(taken < body.len(), "nobody has read it yet");
    for _ in 0..5 {
        running.advance(secs(4));
        assert!(client.is_silent(), "it is the origin's turn");
    }
    read.open();
    client.send(&body[taken..]);
    assert_eq!(client.answer().status, 204);
}

/// An origin that answers with `bytes` bytes.
fn large(bytes: usize) -> Origin {
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + bytes, b'x');
    Origin::answering(answer)
}

/// Reads to the end, `step` bytes every `pause` of the gateway's time, and returns how many arrived.
fn sip(running: &Stepped, client: &mut Client, step: usize, pause: Micros) -> usize {
    let mut body = Body::default();
    loop {
        running.advance(pause);
        let read = client.wire.read_body(Framing::Length(step), &mut body);
        if read.is_err() {
            return body.bytes.len();
        }
    }
}

#[test]
fn client_that_takes_its_answer_slowly_but_steadily_gets_all_of_it() {
    let bytes = 8 << 20;
    let origin = large(bytes);
    let running = open(&origin.url(), "body_timeout = '30s'");
    let mut client = Client::connect_narrow(running.public);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    assert_eq!(client.head().expect("a head").status, 200);
    let taken = sip(&running, &mut client, 256 * 1024, secs(20));
    assert_eq!(taken, bytes);
}

#[test]
fn answer_is_not_cut_short_by_the_idle_timeout() {
    // For some of these sizes, the answer's last part is still in the gateway when all the rest is in the kernels'
    // buffers.
    for bytes in (1..=16).map(|step| step * 32 * 1024) {
        let origin = large(bytes);
        let running = open(&origin.url(), "body_timeout = '1h'\nidle_timeout = '1s'");
        let mut client = Client::connect_narrow(running.public);
        client.send(GET);
        let mut answer = client.head().expect("a head");
        running.advance(secs(2));
        client.finish(&mut answer).expect("the whole answer");
        assert_eq!(answer.body.len(), bytes);
    }
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
        let mut client = Client::asking(running.public, "/", "");
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
