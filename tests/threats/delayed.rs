//! Held requests (leaky-bucket): never early, bounded, and dropped at once when their client leaves.

use serde_json::Value;

use crate::support::ratelimit::remaining;
use crate::support::{Client, Config, Metered, Origin, Process, eventually, get};

/// How a client leaves.
#[derive(Clone, Copy, Debug)]
enum Departure {
    /// The client closes the connection.
    Closing,
    /// The client closes its sending side, and could go on reading.
    HalfClosing,
    /// The client resets the connection.
    Resetting,
}

impl Departure {
    fn leave(self, client: Client) -> Option<Client> {
        match self {
            Self::Closing => None,
            Self::HalfClosing => {
                client.wire.finish_writing();
                Some(client)
            }
            Self::Resetting => {
                client.wire.reset();
                None
            }
        }
    }
}

/// What the client of a delayed request sends: the rest of the head, and the bytes after it.
struct Sent {
    name: &'static str,
    method: &'static str,
    fields: &'static str,
    behind: Vec<u8>,
    /// Whether the client goes on sending until no more bytes are taken.
    is_flooding: bool,
}

fn sent(name: &'static str, method: &'static str, fields: &'static str, behind: &[u8]) -> Sent {
    Sent {
        name,
        method,
        fields,
        behind: behind.to_vec(),
        is_flooding: false,
    }
}

/// Returns every way of sending a request in which nobody reads the bytes after its head.
fn ways_of_sending() -> Vec<Sent> {
    let flooding = |sent: Sent| Sent {
        is_flooding: true,
        ..sent
    };
    let get = b"GET /behind HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let long = vec![b'x'; 20_000];
    let expect = "Expect: 100-continue\r\nContent-Length: 5\r\n";
    vec![
        sent("plain", "GET", "", b""),
        sent("a whole body", "POST", "Content-Length: 5\r\n", b"hello"),
        sent("half a body", "POST", "Content-Length: 10\r\n", b"hello"),
        sent("no body yet", "POST", "Content-Length: 10\r\n", b""),
        sent(
            "a body that fits the kernel",
            "POST",
            "Content-Length: 20000\r\n",
            &long,
        ),
        sent(
            "chunks",
            "POST",
            "Transfer-Encoding: chunked\r\n",
            b"5\r\nhello\r\n0\r\n\r\n",
        ),
        sent("an expectation", "POST", expect, b""),
        sent("an expectation and its body", "POST", expect, b"hello"),
        sent("a request behind", "GET", "", get),
        sent("half a request behind", "GET", "", b"GET /beh"),
        sent("bytes behind that fit the kernel", "GET", "", &long),
        sent(
            "a body and a request behind",
            "POST",
            "Content-Length: 5\r\n",
            &[b"hello", &get[..]].concat(),
        ),
        flooding(sent(
            "a body without end",
            "POST",
            "Content-Length: 1000000000\r\n",
            b"",
        )),
        flooding(sent(
            "chunks without end",
            "POST",
            "Transfer-Encoding: chunked\r\n",
            b"40000000\r\n",
        )),
        flooding(sent("bytes without end behind", "GET", "", b"")),
        flooding(sent(
            "an expectation not waited for",
            "POST",
            "Expect: 100-continue\r\nContent-Length: 1000000000\r\n",
            b"",
        )),
    ]
}

/// Starts a gateway whose delayed requests wait for up to nine hours.
fn shaping(origin: &Origin) -> Process {
    let config = Config::to(origin.url())
        .listener("max_delayed = 1")
        .policy(
            "p",
            "quota = '1 per hour'\nalgorithm = 'leaky-bucket'\nqueue = 9\n\
             partition = ['header:x-case']",
        )
        .route("/*", "policies = ['p']")
        .route("/look", "policies = ['p']\ncost = 0");
    Process::start(&config)
}

fn delayed(process: &Process) -> u64 {
    process
        .series("tollgate_requests_delayed")
        .expect("a gauge")
}

#[test]
fn a_delayed_request_is_let_go_when_its_client_leaves_whatever_it_has_sent() {
    let origin = Origin::plain();
    let process = shaping(&origin);
    let flood = vec![b'x'; 32 << 20];
    let mut case = 0;
    for leaving in [
        Departure::Closing,
        Departure::HalfClosing,
        Departure::Resetting,
    ] {
        for way in ways_of_sending() {
            // Bytes that wait in the client's kernel hold its FIN back, so the gateway cannot see it.
            if way.is_flooding && !matches!(leaving, Departure::Resetting) {
                continue;
            }
            let name = format!("{leaving:?}, {}", way.name);
            let key = format!("X-Case: {case}\r\n");
            case += 1;
            assert_eq!(get(process.public, "/", &key).status, 200, "{name}");
            let mut client = Client::connect(process.public);
            client.send(format!(
                "{} /delayed HTTP/1.1\r\nHost: a.test\r\n{key}{}\r\n",
                way.method, way.fields
            ));
            client.send(&way.behind);
            eventually(&format!("delayed: {name}"), || {
                (delayed(&process) == 1).then_some(())
            });
            if way.is_flooding {
                let settle = || assert_eq!(delayed(&process), 1, "{name}");
                let taken = client.wire.write_until_full(&flood, settle);
                assert!(taken < flood.len(), "nobody reads it: {name}");
            }
            let left = leaving.leave(client);
            // "At once", compared with a wait of an hour.
            eventually(&format!("let go: {name}"), || {
                (delayed(&process) == 0).then_some(())
            });
            if let Some(mut client) = left {
                let answer = client.rest();
                assert_eq!(String::from_utf8_lossy(&answer), "", "{name}");
            }
            // Its place among the delayed requests is free; its units stay spent, which leaves eight of ten.
            let look = get(process.public, "/look", &key);
            assert_eq!((look.status, remaining(&look, "p")), (200, 8), "{name}");
        }
    }
    let gone = eventually("a line of the access log for each", || {
        let lines = process.lines();
        let gone = lines.iter().filter(|line| line.contains("\"/delayed\""));
        let gone: Vec<Value> = gone
            .map(|line| serde_json::from_str(line).expect("a log line is JSON"))
            .collect();
        (gone.len() >= case).then_some(gone)
    });
    for record in gone {
        assert_eq!(record["reason"], "client_gone", "{record}");
        assert!(record["status"].is_null(), "{record}");
        assert!(record["delayed_us"].is_u64(), "{record}");
    }
    let targets = origin.targets();
    assert!(
        targets.iter().all(|x| x == "/" || x == "/look"),
        "forwarded: {targets:?}"
    );
}
