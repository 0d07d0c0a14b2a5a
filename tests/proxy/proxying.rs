//! Messages pass through unharmed: bodies, trailers, framings, and the fields that must not pass.

use std::sync::{Arc, OnceLock};
use std::thread;

use crate::support::wire::Fields;
use crate::support::{After, Client, Config, Framing, Origin, Running, Stepped, get, start};

fn open(endpoint: &str) -> Running {
    start(&Config::to(endpoint).route("/*", ""))
}

#[test]
fn method_target_fields_and_body_reach_the_origin_as_sent() {
    let origin = Origin::plain();
    let running = open(&origin.url());
    let answer = Client::connect(running.public).ask(
        "PATCH /a/b?x=1&y=%20&z HTTP/1.1\r\nHost: shop.test\r\nX-One: 1\r\nX-Two: two; 2\r\n\
         X-One: again\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert_eq!((answer.status, answer.text()), (200, "ok".to_owned()));
    let seen = origin.only_request();
    assert_eq!(seen.head.start, "PATCH /a/b?x=1&y=%20&z HTTP/1.1");
    assert_eq!(seen.head.field("host"), Some("shop.test"));
    assert_eq!(seen.head.fields("x-one"), ["1", "again"]);
    assert_eq!(seen.head.field("x-two"), Some("two; 2"));
    assert_eq!(
        (seen.body.as_slice(), seen.is_complete),
        (&b"hello"[..], true)
    );
}

#[test]
fn status_fields_and_body_reach_the_client_as_answered() {
    let origin = Origin::answering(
        "HTTP/1.1 418 Teapot\r\nSet-Cookie: a=1\r\nX-Mid: m\r\nSet-Cookie: b=2\r\n\
         Content-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc",
    );
    let running = open(&origin.url());
    let answer = get(running.public, "/", "");
    assert_eq!((answer.status, answer.text()), (418, "abc".to_owned()));
    assert_eq!(answer.framing, Framing::Length(3));
    assert_eq!(answer.head.fields("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(answer.field("x-mid"), Some("m"));
    assert_eq!(answer.field("content-type"), Some("text/plain"));
}

#[test]
fn connections_are_kept_alive_on_both_sides() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).one_worker().route("/*", ""));
    let mut client = Client::connect(running.public);
    for _ in 0..10 {
        assert_eq!(client.get("/", "").status, 200);
    }
    assert_eq!(origin.requests().len(), 10);
    // A second connection may be opened before the first is back in the pool, but never one per request.
    assert!(
        origin.connections() <= 2,
        "{} connections",
        origin.connections()
    );
}

#[test]
fn a_request_and_its_answer_stream_at_once() {
    let origin = Origin::scripted(|exchange| {
        exchange.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for _ in 0..3 {
            exchange.wire.read_until(b"4\r\nping\r\n")?;
            exchange.write("4\r\npong\r\n")?;
        }
        exchange.wire.read_until(b"0\r\n\r\n")?;
        exchange.write("0\r\n\r\n")?;
        Ok(After::Keep)
    });
    let running = start(&Config::to(origin.url()).one_worker().route("/*", ""));
    for _ in 0..2 {
        let mut client = Client::connect(running.public);
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..3 {
            client.send("4\r\nping\r\n");
            client.until("pong\r\n");
        }
        client.send("0\r\n\r\n");
        client.until("0\r\n\r\n");
    }
}

#[test]
fn a_slow_reader_holds_back_the_origin() {
    const OFFERED: usize = 64 << 20;
    let started = Arc::new(OnceLock::<Stepped>::new());
    let (done, sent) = std::sync::mpsc::channel();
    let origin = Origin::scripted({
        let started = Arc::clone(&started);
        move |exchange| {
            exchange.write(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {OFFERED}\r\n\r\n"
            ))?;
            let running = started.get().expect("it sent this request");
            let body = vec![b'x'; OFFERED];
            let written = exchange.wire.write_until_full(&body, || running.settle());
            done.send(written).expect("the test waits for it");
            Ok(After::Close)
        }
    });
    let running = started.get_or_init(|| Stepped::start(&Config::to(origin.url()).route("/*", "")));
    let _client = Client::asking(running.public, "/", "");
    let written = sent.recv().expect("the origin was asked");
    // Only the kernel's buffers of two connections fit in between.
    assert!(
        written < OFFERED / 2,
        "{written} bytes went to nobody's reading"
    );
}

#[test]
fn announced_trailers_pass_in_both_directions_to_those_who_ask_for_them() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
         2\r\nok\r\n0\r\nX-Sum: 7\r\nX-Unannounced: 8\r\n\r\n",
    );
    let running = open(&origin.url());
    let mut client = Client::connect(running.public);
    let answer = client.ask(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
         Trailer: x-check\r\n\r\n3\r\nabc\r\n0\r\nX-Check: 9\r\nX-Unannounced: 8\r\n\r\n",
    );
    let lower = |fields: &Fields| -> Vec<(String, String)> {
        let fields = fields.iter();
        fields
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
            .collect()
    };
    assert_eq!(
        lower(&answer.trailers),
        [("x-sum".to_owned(), "7".to_owned())]
    );
    let seen = origin.only_request();
    assert_eq!(seen.body, b"abc");
    assert_eq!(
        lower(&seen.trailers),
        [("x-check".to_owned(), "9".to_owned())]
    );
    // `TE` and `Trailer` pass, too, because the other side relies on them.
    assert_eq!(seen.head.listed("te"), ["trailers"]);
    assert_eq!(seen.head.field("trailer"), Some("x-check"));
    assert_eq!(answer.field("trailer"), Some("x-sum"));

    // A client that does not ask for trailers gets none, and its next answer is read correctly.
    for _ in 0..2 {
        let answer = client.get("/", "");
        assert_eq!((answer.text(), answer.trailers), ("ok".to_owned(), vec![]));
    }
    let unasked = &origin.requests()[1];
    assert_eq!(unasked.head.listed("te"), [""; 0]);
}

#[test]
fn expect_continue_is_answered_before_the_body_is_sent() {
    let origin = Origin::plain();
    let running = open(&origin.url());
    let mut client = Client::connect(running.public);
    let interim = client.ask(
        "POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    );
    assert_eq!(interim.status, 100);
    assert_eq!(client.ask("hello").status, 200);
    assert_eq!(origin.only_request().body, b"hello");
}

const CHUNKED: &str = "transfer-encoding: chunked";
/// A method and an origin's answer, then what the client gets: status line, framing and body.
const FRAMED: [(&str, &str, &str, &str, &str); 11] = [
    (
        "GET",
        "1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=9\r\n\r\nok",
        "200 OK",
        "content-length: 2",
        "ok",
    ),
    (
        "GET",
        "1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "200 OK",
        "content-length: 0",
        "",
    ),
    (
        "GET",
        "1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "200 OK",
        CHUNKED,
        "ok",
    ),
    (
        "GET",
        "1.0 200 Fine\r\nConnection: x-a\r\nX-A: 1\r\n\r\nok",
        "200 Fine",
        CHUNKED,
        "ok",
    ),
    (
        "GET",
        "1.1 200 OK\r\n\r\nuntil the end",
        "200 OK",
        CHUNKED,
        "until the end",
    ),
    (
        "HEAD",
        "1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
        "200 OK",
        "content-length: 99",
        "",
    ),
    (
        "HEAD",
        "1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "200 OK",
        "",
        "",
    ),
    ("HEAD", "1.1 200 OK\r\n\r\n", "200 OK", "", ""),
    (
        "GET",
        "1.1 204 No Content\r\n\r\n",
        "204 No Content",
        "",
        "",
    ),
    (
        "GET",
        "1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        "204 No Content",
        "",
        "",
    ),
    (
        "GET",
        "1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
        "304 Not Modified",
        "etag: \"a\"",
        "",
    ),
];

/// Requests follow one another on one connection, so stray bytes after an answer would show in the next one.
#[test]
fn answer_is_framed_for_the_client_as_the_origin_framed_it() {
    for (method, answer, start, fields, body) in FRAMED {
        let is_last = method == "GET" && fields == CHUNKED && !answer.contains("0\r\n\r\n");
        let origin = Origin::scripted(move |exchange| {
            exchange.write(format!("HTTP/{answer}"))?;
            Ok(if is_last { After::Close } else { After::Keep })
        });
        let running = open(&origin.url());
        let mut client = Client::connect(running.public);
        for connection in ["keep-alive", "keep-alive", "close"] {
            client.send(format!(
                "{method} / HTTP/1.1\r\nHost: a.test\r\nConnection: {connection}\r\n\r\n"
            ));
            let seen = match method {
                "HEAD" => client.answer_to_head(),
                _ => client.answer(),
            };
            assert_eq!(seen.head.start, format!("HTTP/1.1 {start}"), "{answer}");
            assert_eq!(seen.text(), body, "{method} {answer}");
            let framing = seen.head.fields.iter().filter_map(|(name, value)| {
                let name = name.to_ascii_lowercase();
                let is_framing = !["date", "connection"].contains(&name.as_str());
                is_framing.then(|| format!("{name}: {value}"))
            });
            let framing: Vec<String> = framing.collect();
            assert_eq!(framing.join(", "), fields, "{method} {answer}");
        }
        client.assert_closed();
    }
}

#[test]
fn trailers_pass_without_a_body_before_them() {
    // The trailers arrive together with the head.
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx-sum: 8\r\n\r\n",
    );
    let running = open(&origin.url());
    let answer = get(running.public, "/", "TE: trailers\r\nConnection: TE\r\n");
    assert_eq!(answer.body, b"");
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "8".to_owned())]);
}

#[test]
fn the_builtin_echo_answers_without_any_origin() {
    let running = open("builtin:echo");
    let mut client = Client::connect(running.public);
    let whole = client.get("/somewhere?x=1", "");
    assert_eq!(whole.status, 200);
    client.send("HEAD /somewhere?x=1 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let head = client.answer_to_head();
    assert_eq!(head.field("content-type"), Some("application/json"));
    // The body names the method, and HEAD is one letter longer than GET.
    let length = (whole.body.len() + 1).to_string();
    assert_eq!(head.field("content-length"), Some(length.as_str()));
    let posted = client.post("/elsewhere", "Connection: close\r\n", "abc");
    assert_eq!((posted.status, posted.text()), (200, "abc".to_owned()));
    assert_eq!(posted.framing, Framing::Length(3));
    client.assert_closed();
}

#[test]
fn many_clients_at_once_each_get_their_own_answer() {
    let origin = Origin::scripted(|exchange| {
        let target = exchange.target().to_owned();
        let length = target.len();
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{target}"
        ))?;
        Ok(After::Keep)
    });
    let running = open(&origin.url());
    let address = running.public;
    thread::scope(|scope| {
        for client in 0..16 {
            scope.spawn(move || {
                let mut connection = Client::connect(address);
                for turn in 0..20 {
                    let target = format!("/{client}/{turn}");
                    assert_eq!(connection.get(&target, "").text(), target);
                }
            });
        }
    });
    assert_eq!(origin.requests().len(), 320);
}
