//! What single requests go through, as an operator watches them.

use std::net::SocketAddr;

use serde_json::Value;

use super::api::{OfFile, RIGHT, TOKEN, ask, assert_described, assert_schema, config, follow};
use crate::support::{Client, Origin, eventually, get};

/// Begins to watch, and waits until the stream says that it is ready.
#[track_caller]
fn watch(admin: SocketAddr, query: &str) -> Client {
    let mut stream = follow(admin, &format!("/api/trace{query}"));
    stream.until(": ready");
    stream
}

/// Returns the text of a trace's steps with this name, a line for each.
fn step(trace: &Value, name: &str) -> String {
    let steps = trace["steps"].as_array().expect("a list").iter();
    let texts = steps.filter(|step| step["step"] == name);
    let texts = texts.map(|step| step["text"].as_str().expect("text"));
    texts.collect::<Vec<_>>().join("\n")
}

fn keyed(more: &str) -> String {
    let text = config("2 per minute", TOKEN);
    text.replace(
        "quota = '2 per minute'",
        "quota = '2 per minute'\npartition = ['header:x-key']",
    ) + more
}

#[test]
fn a_request_is_shown_step_by_step_and_without_its_secrets() {
    let origin = Origin::plain();
    let more = "[[routes]]\npath = '/v1/*'\nmethods = ['POST']\nupstream = 'api'\n";
    let gateway = OfFile::start(&keyed(more).replace("builtin:echo", &origin.url()));
    let mut stream = watch(gateway.admin(), "?count=2");
    let mut client = Client::connect(gateway.public());
    let fields = "X-Key: key-of-one\r\nAuthorization: Bearer s3cret\r\nAccept: text/plain\r\n";
    client.get("/v1/item?token=t0p", fields);
    let trace = stream.event("trace");
    assert_schema("Trace", &trace);
    assert_eq!(
        (
            &trace["method"],
            &trace["path"],
            &trace["route"],
            &trace["status"]
        ),
        (&"GET".into(), &"/v1/item".into(), &"/*".into(), &200.into())
    );
    let said = trace.to_string();
    for secret in ["key-of-one", "s3cret", "t0p"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
    let expected = [
        ("received", "GET /v1/item?(a query) HTTP/1.1"),
        ("received", "authorization: (13 bytes)"),
        ("received", "accept: text/plain"),
        ("client", "127.0.0.1, the peer"),
        ("route", "/* → api\nnot POST /v1/*: another method"),
        ("quota", "p: key-~"),
        ("quota", ": admitted, cost 1\n  2 per 1m: 1 left"),
        ("decision", "admitted\nin memory, in "),
        ("forwarded", "GET /v1/item\n"),
        ("forwarded", "x-forwarded-for: ("),
        ("attempts", "1 attempt, at 127.0.0.1:"),
        ("answer", "200, "),
        ("settled", "p: charged 1 in requests"),
    ];
    for (name, text) in expected {
        assert!(
            step(&trace, name).contains(text),
            "{name}: {text}: {}",
            step(&trace, name)
        );
    }
    let times: Vec<_> = (trace["steps"].as_array().expect("a list").iter())
        .map(|step| step["at_us"].as_u64().expect("a time"))
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    // A request that is refused before the decision.
    get(gateway.public(), "/%zz", "");
    let refused = stream.event("trace");
    assert_schema("Trace", &refused);
    assert_eq!(
        (&refused["status"], &refused["route"]),
        (&400.into(), &Value::Null)
    );
    assert!(step(&refused, "answer").starts_with("400, bad_path"));
    let end = stream.event("end");
    assert_eq!(
        (&end["traced"], &end["reason"]),
        (&2.into(), &"count".into())
    );
}

#[test]
fn only_requests_that_pass_the_filter_are_shown() {
    let more = "[policies.other]\nquota = '100 per minute'\n[[routes]]\npath = '/other'\nupstream = 'api'\npolicies = ['other']\ndefault_policies = false\n";
    let gateway = OfFile::start(&keyed(more));
    let admin = gateway.admin();
    let requests = |key: &str| {
        for path in ["/one", "/two", "/other", "/%zz", "/three"] {
            get(gateway.public(), path, &format!("X-Key: {key}\r\n"));
        }
    };
    requests("key-of-one");
    let usage = ask(admin, "GET", "/api/usage?policy=p&order=spent", RIGHT, "").json();
    let of_one = &usage["clients"][0];
    let query = |name: &str| {
        let value = of_one[name].as_str().expect("text");
        format!("client={}", value.replace('~', "%7E"))
    };
    for (filter, expected) in [
        (
            "policy=p".to_owned(),
            vec!["/one", "/two", "/three", "/one", "/two", "/three"],
        ),
        (
            "refused=true".to_owned(),
            vec!["/one", "/two", "/%zz", "/three", "/%zz", "/three"],
        ),
        (
            "policy=p&refused=true".to_owned(),
            vec!["/one", "/two", "/three", "/three"],
        ),
        (query("id"), vec!["/one", "/two", "/three"]),
        (query("client"), vec!["/one", "/two", "/three"]),
        (
            "path=/o".to_owned(),
            vec!["/one", "/other", "/one", "/other"],
        ),
    ] {
        let count = expected.len();
        let mut stream = watch(admin, &format!("?{filter}&count={count}"));
        requests("key-of-one");
        requests(&format!("new-{filter}"));
        let paths: Vec<_> = (0..count)
            .map(|_| stream.event("trace")["path"].clone())
            .collect();
        assert_eq!(paths, expected, "{filter}");
        stream.event("end");
    }
    let accept = format!("{RIGHT}Accept: text/event-stream\r\n");
    for (query, fields, status) in [
        ("?policy=q", &accept, 404),
        ("?client=id:3f", &accept, 400),
        ("?refused=yes", &accept, 400),
        ("?count=0", &accept, 400),
        ("?count=101", &accept, 400),
        ("?clients=x", &accept, 400),
        ("", &RIGHT.to_owned(), 406),
    ] {
        let answer = ask(admin, "GET", &format!("/api/trace{query}"), fields, "");
        assert_eq!(answer.status, status, "{query}");
        assert_described("GET", "/api/trace", &answer);
    }
    let watching: Vec<_> = (0..4).map(|_| watch(admin, "")).collect();
    let one_more = || ask(admin, "GET", "/api/trace", &accept, "").status;
    assert_eq!(one_more(), 503);
    drop(watching);
    // A trace learns that its client has left when it sends something; one free place is enough.
    requests("key-of-two");
    requests("key-of-three");
    eventually("there is room for another trace", || {
        requests("key-of-four");
        let mut stream = Client::connect(admin);
        stream.send(format!(
            "GET /api/trace HTTP/1.0\r\nHost: localhost\r\n{accept}\r\n"
        ));
        (stream.head().expect("a head").status == 200).then_some(())
    });
}

#[test]
fn nothing_is_shown_that_the_log_does_not_show() {
    let text = config("1 per minute", TOKEN);
    let by = |more: &str| {
        text.replace(
            "quota = '1 per minute'",
            &format!("quota = '1 per minute'\npartition = ['header:origin']\n{more}"),
        )
    };
    let fields = "Origin: http://who.example\r\nAccept-Language: tlh\r\nUser-Agent: mine\r\n";
    let gateway = OfFile::start(&by(""));
    let mut stream = watch(gateway.admin(), "?count=2");
    get(gateway.public(), "/path", fields);
    let said = step(&stream.event("trace"), "received");
    assert!(
        said.contains("origin: (18 bytes)") && said.contains("accept-language: tlh"),
        "{said}"
    );
    let mut client = Client::connect(gateway.public());
    client.ask("GET / HTTP/1.1\r\nHost: bob:hunter2@api\r\n\r\n");
    let said = stream.event("trace").to_string();
    assert!(!said.contains("hunter2"), "{said}");
    let digests = by("") + "[log]\nclients = 'digest'\n";
    let gateway = OfFile::start(&digests);
    let mut stream = watch(gateway.admin(), "?count=1");
    get(gateway.public(), "/path", fields);
    let said = stream.event("trace").to_string();
    for hidden in ["/path", "tlh", "mine", "who.example", "127.0.0.1, the peer"] {
        assert!(!said.contains(hidden), "{hidden}: {said}");
    }
    let fields = format!("{RIGHT}Accept: text/event-stream\r\n");
    let by_path = ask(gateway.admin(), "GET", "/api/trace?path=/p", &fields, "");
    assert_eq!(by_path.status, 400);
}

#[test]
fn quotas_that_only_watch_are_shown_and_blocked_clients_before_their_bodies() {
    let policies = "mode = 'shadow'\n[policies.tried]\nquota = '100 per minute'\ncandidate = '1 per minute'\n\
                    [policies.banned]\nquota = '100 per minute'\npartition = ['header:x-key']\non_missing = 'skip'\noverrides = { 'bad' = 'blocked' }\n";
    let text = config("1 per minute", TOKEN);
    let text = text.replace(
        "quota = '1 per minute'\n",
        &format!("quota = '1 per minute'\n{policies}"),
    );
    let text = text.replace(
        "policies = ['p']",
        "policies = ['p', 'tried', 'banned']\nmax_body_bytes = 10",
    );
    let gateway = OfFile::start(&text);
    let mut stream = watch(gateway.admin(), "?count=3");
    for _ in 0..2 {
        get(gateway.public(), "/", "");
    }
    stream.event("trace");
    let said = step(&stream.event("trace"), "quota");
    assert!(
        said.contains("p: 127.0.0.1 (id:")
            && said.contains("shadow_refused, cost 1\n  1 per 1m: the request does not fit"),
        "{said}"
    );
    assert!(
        said.contains("1 per 1m: the request does not fit, a candidate"),
        "{said}"
    );
    get(
        gateway.public(),
        "/",
        "X-Key: bad\r\nContent-Length: 1000\r\n",
    );
    let trace = stream.event("trace");
    assert_eq!(trace["status"], 403);
    assert!(step(&trace, "quota").contains("banned: "), "{trace}");
    assert!(
        step(&trace, "decision").contains("blocked; no quota was consulted"),
        "{trace}"
    );
}
