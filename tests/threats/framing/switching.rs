//! Requests for another protocol, or for permission to send a body.

use super::bench::{Bench, QUOTA, expect};
use super::{SMUGGLED, assert_none, rejected, rows};
use crate::support::ratelimit::remaining;
use crate::support::{After, Gate, Origin, get};

/// Returns ways to ask for another protocol, each a whole head, and whether the origin is told of it.
fn upgrades() -> Vec<(String, bool)> {
    let websocket = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let head = |line: &str, fields: &str| format!("{line}\r\nHost: a.test\r\n{fields}\r\n");
    let get = "GET /socket HTTP/1.1";
    vec![
        (
            head(
                get,
                &format!("Connection: Upgrade\r\nUpgrade: websocket\r\n{websocket}"),
            ),
            true,
        ),
        (
            head(
                "POST /socket HTTP/1.1",
                "Connection: Upgrade\r\nUpgrade: WebSocket\r\nContent-Length: 0\r\n",
            ),
            true,
        ),
        (
            head(
                get,
                "Connection: keep-alive, upgrade\r\nUpgrade: websocket, h2c\r\n",
            ),
            false,
        ),
        (head(get, "Upgrade: websocket\r\n"), false),
        (
            head(
                get,
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
                 HTTP2-Settings: AAMAAABkAAQAAP__\r\n",
            ),
            false,
        ),
        (
            head(get, "Connection: Upgrade\r\nUpgrade: TLS/1.3\r\n"),
            false,
        ),
    ]
}

#[test]
fn nothing_behind_a_wish_to_upgrade_reaches_the_origin_before_its_answer() {
    let mut failures = Vec::new();
    for (message, is_told) in upgrades() {
        let (forwarded, heard, answered) = (Gate::default(), Gate::default(), Gate::default());
        let origin = Origin::scripted({
            let (forwarded, heard, answered) = (forwarded.clone(), heard.clone(), answered.clone());
            move |exchange| {
                if exchange.index == 0 {
                    forwarded.wait();
                    let is_silent = exchange.wire.is_silent();
                    assert!(is_silent, "bytes behind the head");
                    heard.open();
                    answered.wait();
                }
                exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
                Ok(After::Keep)
            }
        });
        let bench = Bench::before(origin, |config| {
            config.beside("echo", "builtin:echo", "/echo", "")
        });
        let mut client = bench.client();
        // Bytes that would be tunnelled are a request of their own here, and are counted as one.
        client.send(format!("{message}{SMUGGLED}"));
        bench.origin.wait_for_requests(1);
        // The only worker has handled everything that was sent to it before.
        assert_eq!(get(bench.running.public, "/echo", "").status, 200);
        forwarded.open();
        heard.wait();
        let mut checked = || {
            expect(
                "targets",
                bench.origin.targets(),
                vec!["/socket".to_owned()],
            )?;
            answered.open();
            let answers = [client.answer(), client.answer()];
            expect(
                "statuses",
                answers.each_ref().map(|each_ref| each_ref.status),
                [200, 200],
            )?;
            let left = answers.each_ref().map(|each_ref| remaining(each_ref, "p"));
            expect("left", left, [QUOTA - 1, QUOTA - 2])?;
            for (at, seen) in bench.origin.requests().iter().enumerate() {
                let upgrades = seen.head.fields("upgrade");
                let is_first_and_told = at == 0 && is_told;
                expect("Upgrade", upgrades.len(), usize::from(is_first_and_told))?;
                if !is_first_and_told {
                    super::canonical::check(seen)?;
                }
                for (name, _) in &seen.head.fields {
                    let is_gone = !name.to_lowercase().starts_with("http2");
                    expect(name, is_gone, true)?;
                }
            }
            Ok::<_, String>(())
        };
        if let Err(failure) = checked() {
            failures.push(format!("{message:?}: {failure}"));
        }
    }
    assert_none(&failures);
}

/// Because what follows such a request is read as soon as that is answered, whether the protocol was switched or not.
#[test]
fn requests_behind_a_refused_wish_to_upgrade_are_answered() {
    let wish = "Host: a.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
    let plain = "GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for first in [
        format!("GET / HTTP/1.1\r\n{wish}\r\n"),
        format!("POST / HTTP/1.1\r\n{wish}Content-Length: 1\r\n\r\nx"),
        format!("POST / HTTP/1.1\r\n{wish}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
        format!("HEAD / HTTP/1.1\r\n{wish}\r\n"),
        format!("GET / HTTP/1.1\r\n{wish}Upgrade: other\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\n\r\n".to_owned(),
    ] {
        for message in [
            format!("{first}{plain}{plain}"),
            format!("{plain}{first}{plain}"),
            format!("{first}{first}{plain}"),
        ] {
            let bench = Bench::new();
            let mut client = bench.client();
            client.send(&message);
            for request in message.split("HTTP/1.1").take(3) {
                let is_head = request.ends_with("HEAD / ");
                let answer = if is_head {
                    client.answer_to_head()
                } else {
                    client.answer()
                };
                assert_eq!(answer.status, 200, "{message}");
            }
        }
    }
}

#[test]
fn an_origin_that_switches_protocols_unasked_is_a_502_and_gets_nothing_more() {
    for (message, _) in upgrades().into_iter().filter(|(_, is_told)| !is_told) {
        let origin = Origin::scripted(|exchange| {
            exchange.write(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\n\r\n",
            )?;
            // Any bytes that come now would be those of a tunnel.
            let tunnelled = exchange.wire.read_to_end()?;
            assert_eq!(String::from_utf8_lossy(&tunnelled), "");
            Ok(After::Close)
        });
        let bench = Bench::before(origin, |config| config);
        let mut client = bench.client();
        let answer = client.ask(&message);
        assert_eq!(answer.status, 502, "{message:?}");
        bench.origin.wait_for_ended(1);
        assert_eq!(bench.probe().status, 502, "{message:?}");
        assert_eq!(bench.origin.connections(), 2, "{message:?}");
    }
}

#[test]
fn expectations_other_than_continue_are_refused() {
    let head = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n\r\n");
    let messages = [
        head("Expect: foo\r\nContent-Length: 5"),
        head("Expect: miracles\r\nTransfer-Encoding: chunked"),
        head("Expect: 100-continue, foo\r\nContent-Length: 5"),
        head("Expect: 100-continue\r\nExpect: foo\r\nContent-Length: 5"),
        head("Expect: foo\r\nExpect: 100-continue\r\nContent-Length: 5"),
        head("Expect: 100-continue;q=1\r\nContent-Length: 5"),
        head("Expect:\r\nContent-Length: 5"),
        head("Expect: foo"),
    ];
    rejected(&rows(&messages, 417, "expectation_failed"));
}
