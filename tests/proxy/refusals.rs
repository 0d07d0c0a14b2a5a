//! Refusals: a problem document for each mistake, in the client's own protocol, and nothing else.

use crate::support::{Client, Config, Refusing, first_answered, get, start};

#[test]
fn a_refused_head_request_has_no_body_and_keeps_its_connection() {
    let running = start(&Config::limited("builtin:echo", "quota = '1 per minute'"));
    let mut client = Client::connect(running.public);
    let head = "HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    client.send(head);
    assert_eq!(client.answer_to_head().status, 200);
    let heads = [(); 2].map(|()| {
        client.send(head);
        client.answer_to_head()
    });
    // Bytes of a body would come before the next answer.
    let whole = client.get("/", "");
    assert_eq!(whole.status, 429);
    let length = whole.body.len().to_string();
    for head in heads {
        assert_eq!(head.status, 429);
        assert_eq!(head.field("content-length"), Some(length.as_str()));
    }
}

#[test]
fn a_grpc_client_is_refused_in_its_own_words() {
    let config = Config::to("builtin:echo")
        .policy(
            "p",
            "quota = '1 per minute'\nalgorithm = 'fixed-window'\npartition = []",
        )
        .route("/a.B/*", "policies = ['p']");
    let running = start(&config);
    let mut client = Client::connect(running.public);
    assert_eq!(client.get("/a.B/C", "").status, 200);
    for kind in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc;x=y",
    ] {
        let answer = client.post("/a.B/C", &format!("Content-Type: {kind}\r\n"), "");
        assert_eq!(
            (answer.status, answer.text()),
            (200, String::new()),
            "{kind}"
        );
        for (name, value) in [
            ("content-type", "application/grpc"),
            ("grpc-status", "8"),
            (
                "grpc-message",
                "Request cannot be satisfied as assigned quota has been exceeded",
            ),
            ("retry-after", "60"),
            ("content-length", "0"),
        ] {
            assert_eq!(answer.field(name), Some(value), "{kind}");
        }
    }
    for kind in [
        "application/grpc-web",
        "application/grpcs",
        "application/json",
    ] {
        let answer = client.post("/a.B/C", &format!("Content-Type: {kind}\r\n"), "");
        assert_eq!(answer.status, 429, "{kind}");
    }
    // From these statuses, gRPC libraries make an error of their own.
    let fields = "Content-Type: application/grpc\r\n";
    let unknown = client.post("/unknown", fields, "");
    assert_eq!(unknown.problem()["status"], 404);
}

#[test]
fn a_grpc_client_that_cannot_be_held_is_told_unavailable() {
    let config = Config::limited(
        "builtin:echo",
        "quota = '1 per hour'\nalgorithm = 'leaky-bucket'\nqueue = 5\npartition = []",
    );
    let running = start(&config.listener("max_delayed = 1"));
    assert_eq!(get(running.public, "/", "").status, 200);
    let mut clients = [(); 2].map(|()| Client::connect(running.public));
    for client in &mut clients {
        client.send(
            "POST /a.B/C HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\n\
             Content-Length: 0\r\n\r\n",
        );
    }
    let answered = first_answered(&mut clients);
    let answer = clients[answered].answer();
    assert_eq!(
        (answer.status, answer.field("grpc-status")),
        (200, Some("14"))
    );
}

#[test]
fn every_mistake_is_a_problem_document_with_its_status() {
    let refusing = Refusing::new();
    let config = Config::to(refusing.url())
        .policy(
            "keyed",
            "quota = '1 per minute'\npartition = ['header:x-api-key']\non_missing = 'refuse'",
        )
        .route("/keyed", "policies = ['keyed']")
        .route("/small", "max_body_bytes = '4B'")
        .route("/a/*", "")
        .route("/down", "");
    let running = start(&config);
    for (request, status, closes) in [
        ("GET /unknown HTTP/1.1\r\nHost: a.test\r\n\r\n", 404, false),
        ("GET /keyed HTTP/1.1\r\nHost: a.test\r\n\r\n", 401, false),
        ("GET /down HTTP/1.1\r\nHost: a.test\r\n\r\n", 502, false),
        ("GET /a/b%2fc HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, true),
        ("GET /a/b%00c HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, true),
        ("GET /a/b%zzc HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, true),
        (
            "POST /small HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
            413,
            false,
        ),
    ] {
        let mut client = Client::connect(running.public);
        let answer = client.ask(request);
        assert_eq!(answer.status, status, "{request}");
        assert_eq!(answer.problem()["status"], status, "{request}");
        assert_eq!(answer.head.fields("retry-after"), [""; 0], "{request}");
        if closes {
            assert!(answer.says_close(), "{request}");
            client.assert_closed();
        }
    }
}

#[test]
fn refusal_that_leaves_a_body_unread_says_that_the_connection_closes() {
    let refusing = Refusing::new();
    let running = start(&Config::to(refusing.url()).route("/*", ""));
    let answer = Client::connect(running.public)
        .ask("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nabc");
    assert_eq!(answer.status, 502);
    assert!(answer.says_close(), "{answer:#?}");
}

#[test]
fn refusal_waits_less_than_two_seconds_for_a_body_that_does_not_come() {
    let config = Config::limited("builtin:echo", "quota = '1 per hour'\npartition = []")
        .one_worker()
        .policy(
            "held",
            "quota = '1 per 2s'\nalgorithm = 'leaky-bucket'\nqueue = 1\npartition = []",
        )
        .route("/held", "policies = ['held']");
    let running = start(&config);
    for path in ["/", "/held"] {
        assert_eq!(get(running.public, path, "").status, 200);
    }
    let [mut refused, mut held] = [(); 2].map(|()| Client::connect(running.public));
    // One runtime measures both times, so they end in this order on any machine. The gateway's
    // clock stands still, so no deadline of the listener can help.
    refused.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100\r\n\r\n");
    held.send("GET /held HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(held.answer().status, 200);
    assert!(!refused.is_silent(), "it waits longer than two seconds");
    let answer = refused.answer();
    assert_eq!(answer.status, 429);
    assert!(answer.says_close(), "{answer:#?}");
}

#[test]
fn refusal_that_closes_its_connection_waits_for_no_body() {
    let config = Config::to("builtin:echo")
        .one_worker()
        .policy(
            "held",
            "quota = '10 per 5s'\nalgorithm = 'leaky-bucket'\nqueue = 10\npartition = []",
        )
        .policy("spent", "quota = '1 per hour'\npartition = []")
        .route("/held", "policies = ['held']")
        .route("/spent", "policies = ['spent']")
        .route("/small", "max_body_bytes = 5");
    let running = start(&config);
    for path in ["/held", "/spent"] {
        assert_eq!(get(running.public, path, "").status, 200);
    }
    for (target, fields, status) in [
        ("/%00 HTTP/1.1", "", 400),
        ("/ HTTP/1.1", "Host: b.test\r\n", 400),
        ("/ HTTP/1.1", "Expect: tea\r\n", 417),
        ("/small HTTP/1.1", "", 413),
        ("/spent HTTP/1.1", "Connection: x, Close\r\n", 429),
        ("/spent HTTP/1.0", "", 429),
    ] {
        let [mut refused, mut held] = [(); 2].map(|()| Client::connect(running.public));
        // Half a second, which is less than the wait for a body. One runtime measures both.
        refused.send(format!(
            "POST {target}\r\nHost: a.test\r\n{fields}Content-Length: 9\r\n\r\nabc"
        ));
        held.send("GET /held HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(held.answer().status, 200);
        assert!(!refused.is_silent(), "{target}, {fields}: it waits");
        let answer = refused.answer();
        assert_eq!((answer.status, answer.says_close()), (status, true));
        let rest = refused.wire.read_to_fin();
        assert_eq!(rest.expect("an end without a reset"), b"");
    }
}

#[test]
fn refused_head_is_answered_even_if_more_is_on_its_way() {
    let running = start(&Config::to("builtin:echo").one_worker().route("/*", ""));
    let more = "x".repeat(300_000);
    for _ in 0..50 {
        let mut client = Client::asking(running.public, "/%00", "");
        client.send(&more);
        assert_eq!(client.answer().status, 400);
        client.wire.finish_writing();
        let rest = client.wire.read_to_fin().expect("an end without a reset");
        assert_eq!(String::from_utf8_lossy(&rest), "", "bytes before the close");
    }
}
