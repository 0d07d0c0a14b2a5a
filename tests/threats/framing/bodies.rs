//! Bodies where none is expected: bytes in them that look like a request are never read as one.

use super::bench::{Bench, expect};
use super::{SMUGGLED, assert_none};
use crate::support::{After, Client, Config, Origin, Recorded, get, start};

/// Methods whose requests seldom have a body, which servers then may forget to read, and two that often have one.
const METHODS: &[&str] = &["GET", "HEAD", "DELETE", "OPTIONS", "PUT", "POST", "QUERY"];

/// Returns messages to `target` whose body is [`SMUGGLED`], in both framings.
fn messages(method: &str, target: &str, fields: &str) -> [String; 2] {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{fields}");
    let bytes = SMUGGLED.len();
    [
        format!("{head}Content-Length: {bytes}\r\n\r\n{SMUGGLED}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n{SMUGGLED}\r\n0\r\n\r\n"),
    ]
}

/// An origin whose answers show which request they belong to: the body is the request's target.
fn telling() -> Origin {
    Origin::scripted(|exchange| {
        exchange.read_body()?;
        exchange.write(own_target(&exchange.head.start))?;
        Ok(After::Keep)
    })
}

/// Returns an answer whose body is the target of the request line.
fn own_target(line: &str) -> String {
    let mut words = line.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        target.len()
    );
    match method {
        Some("HEAD") => head,
        _ => head + target,
    }
}

/// Sends `message` and another request after it, and expects that each gets its own answer, or that
/// the connection closes between them.
fn each_its_own(client: &mut Client, message: &str, status: u16) -> Result<(), String> {
    client.send(format!(
        "{message}GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n"
    ));
    let answer = if message.starts_with("HEAD") {
        client.answer_to_head()
    } else {
        client.answer()
    };
    expect("status", answer.status, status)?;
    if answer.says_close() {
        return expect("bytes behind the close", client.rest().len(), 0);
    }
    expect(
        "the next answer",
        client.answer().text(),
        "/next".to_owned(),
    )
}

#[test]
fn a_body_is_forwarded_as_one_whatever_the_method_and_behind_that_of_a_get_nothing_is() {
    let mut failures = Vec::new();
    for method in METHODS {
        for message in messages(method, "/", "") {
            let bench = Bench::before(telling(), |config| config);
            let mut client = bench.client();
            let own = each_its_own(&mut client, &message, 200);
            let told = own.and_then(|()| {
                let requests = bench.origin.requests();
                let targets: Vec<_> = requests.iter().map(Recorded::target).collect();
                expect("targets", targets.as_slice(), &["/", "/next"])?;
                // This origin reads every body, and keeps the connection even if it is told to close.
                if ["GET", "HEAD", "DELETE"].contains(method) {
                    let used = [0, 1].map(|at| requests[at].connection);
                    expect("connections", used, [0, 1])?;
                }
                expect("body", &*requests[0].body, SMUGGLED.as_bytes())
            });
            if let Err(failure) = told {
                failures.push(format!("{message:?}: {failure}"));
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn a_body_that_nobody_reads_is_never_read_as_a_request() {
    let mut failures = Vec::new();
    for (upstream, status, fields) in [
        ("builtin:status/200", 200, ""),
        ("builtin:status/204", 204, ""),
        ("builtin:echo", 200, ""),
        // Refused because the quota is spent.
        ("builtin:echo", 429, ""),
        ("builtin:echo", 429, "Expect: 100-continue\r\n"),
    ] {
        for method in METHODS {
            for message in messages(method, "/unread", fields) {
                let origin = telling();
                let config = Config::to(origin.url())
                    .policy("p", "quota = '1 per hour'\npartition = []")
                    .beside("unread", upstream, "/unread", "policies = ['p']")
                    .route("/*", "");
                let running = start(&config);
                if status == 429 {
                    get(running.public, "/unread", "");
                }
                let mut client = Client::connect(running.public);
                let own = each_its_own(&mut client, &message, status);
                let targets = origin.targets();
                let is_seen = targets.iter().any(|target| target == "/smuggled");
                if let Err(failure) = own.and_then(|()| expect("smuggled", is_seen, false)) {
                    failures.push(format!("{upstream} {message:?}: {failure}"));
                }
            }
        }
    }
    assert_none(&failures);
}

/// Because a connection drops a large head's leftovers from its buffers when it waits for the next request.
#[test]
fn a_body_that_its_answer_did_not_wait_for_is_no_request_behind_a_large_head() {
    let early = Origin::scripted(move |exchange| {
        let field = "x".repeat(20_000);
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\nX: {field}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ))?;
        exchange.wire.read_to_fin()?;
        Ok(After::Close)
    });
    let config = Config::to(early.url())
        .listener("max_header_bytes = '64KiB'")
        .beside("here", "builtin:status/200", "/here", "")
        .route("/early", "");
    let running = start(&config);
    let mut sent = Vec::new();
    for target in ["/here", "/nowhere", "/early"] {
        for field_bytes in [10, 6_000, 20_000] {
            let field = format!("X: {}\r\n", "x".repeat(field_bytes));
            let expecting = format!("{field}Expect: 100-continue\r\n");
            for message in [field, expecting].map(|fields| messages("POST", target, &fields)) {
                for message in message {
                    let head = message.find("\r\n\r\n").expect("a head") + 4;
                    // With the whole body, with most of it, and with none.
                    for end in [message.len(), message.len() - 6, head] {
                        let rest = message.len() - end;
                        let name = format!("{target}, {field_bytes}, {rest} left");
                        sent.push((name, message[..end].to_owned()));
                    }
                }
            }
        }
    }
    let address = running.public;
    let clients = sent.into_iter().map(|(name, message)| {
        std::thread::spawn(move || {
            let mut client = Client::connect(address);
            client.send(message);
            let mut answer = client.try_answer();
            if answer.as_ref().is_ok_and(|answer| answer.status == 100) {
                answer = client.try_answer();
            }
            client.wire.finish_writing();
            let rest = client.wire.read_to_fin();
            let is_right = answer.is_ok() && rest.as_ref().is_ok_and(Vec::is_empty);
            let status = answer.map(|answer| answer.status);
            (!is_right).then(|| format!("{name}: {status:?}, then {rest:?}"))
        })
    });
    let clients: Vec<_> = clients.collect();
    let clients = clients
        .into_iter()
        .map(|client| client.join().expect("a client"));
    assert_none(&clients.flatten().collect::<Vec<_>>());
}

#[test]
fn an_origin_that_never_reads_bodies_takes_none_of_a_get_for_a_request() {
    let mut failures = Vec::new();
    for method in ["GET", "HEAD", "DELETE"] {
        for fields in ["", "TE: trailers\r\n"] {
            for message in messages(method, "/", fields) {
                // This origin takes bytes after a head for the next request, unless it was told that there is none.
                let origin = Origin::scripted(|exchange| {
                    exchange.write(own_target(&exchange.head.start))?;
                    let options = exchange.head.listed("connection");
                    let is_last = options.iter().any(|option| option == "close");
                    Ok(if is_last { After::Close } else { After::Keep })
                });
                let bench = Bench::before(origin, |config| config);
                let mut client = bench.client();
                let own = each_its_own(&mut client, &message, 200);
                let told = own.and_then(|()| {
                    let other = get(bench.running.public, "/other", "");
                    expect(
                        "the next client's answer",
                        other.text(),
                        "/other".to_owned(),
                    )?;
                    let expected = ["/", "/next", "/other"].map(str::to_owned);
                    expect("targets", bench.origin.targets().as_slice(), &expected)
                });
                if let Err(failure) = told {
                    failures.push(format!("{message:?}: {failure}"));
                }
            }
        }
    }
    assert_none(&failures);
}
