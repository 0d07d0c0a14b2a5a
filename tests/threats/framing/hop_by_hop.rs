//! Fields that Connection names do not reach the origin. The gateway's own fields stay, and naming a field that
//! identifies the client or selects the route is refused.

use std::fs;

use super::assert_none;
use super::bench::{Bench, expect};
use crate::support::{Client, Config, Haproxy, Head, Origin, Running, eventually, get, start};

/// Checks the fields that the gateway sets about itself and its client, which no client can have removed.
fn own_fields(head: &Head, client: &str) -> Result<(), String> {
    expect("host", head.fields("host"), vec!["a.test"])?;
    expect(
        "x-forwarded-for",
        head.fields("x-forwarded-for"),
        vec![client],
    )?;
    expect(
        "x-forwarded-proto",
        head.fields("x-forwarded-proto"),
        vec!["http"],
    )?;
    expect(
        "x-forwarded-host",
        head.fields("x-forwarded-host"),
        vec!["a.test"],
    )?;
    expect("cdn-loop", head.fields("cdn-loop"), vec!["tollgate"])?;
    let forwarded = head.fields("forwarded").join("");
    expect("forwarded", forwarded.contains(client), true)
}

/// A gateway that decides by a field, and a request that has it.
struct Case {
    /// The part of the configuration that reads the field.
    reader: &'static str,
    config: fn(Config) -> Config,
    /// Name of the field, and a value with which requests are answered 200.
    field: (&'static str, &'static str),
}

const READERS: [Case; 12] = [
    Case {
        reader: "the partition of a policy",
        config: |config| limited(config, "partition = ['header:x-api-key']"),
        field: ("X-Api-Key", "one"),
    },
    Case {
        reader: "an alternative of a partition",
        config: |config| limited(config, "partition = ['header:x-api-key | ip']"),
        field: ("X-Api-Key", "one"),
    },
    Case {
        reader: "a password",
        config: |config| limited(config, "partition = ['header:authorization']"),
        field: ("Authorization", "Basic eA=="),
    },
    Case {
        reader: "a cookie",
        config: |config| limited(config, "partition = ['cookie:key']"),
        field: ("Cookie", "key=1"),
    },
    Case {
        reader: "a policy in shadow",
        config: |config| limited(config, "partition = ['header:x-api-key']\nmode = 'shadow'"),
        field: ("X-Api-Key", "one"),
    },
    Case {
        reader: "overrides_by",
        config: |config| {
            limited(
                config,
                "partition = ['ip']\noverrides_by = 'header:x-plan'\noverrides = { paid = '9 per hour' }",
            )
        },
        field: ("X-Plan", "paid"),
    },
    Case {
        reader: "a cost",
        config: |config| limited(config, "partition = ['ip']\ncost = 'request-header:x-cost'"),
        field: ("X-Cost", "3"),
    },
    Case {
        reader: "a token",
        config: |config| {
            let jwt = format!("[jwt]\nkeys = ['{ISSUER}']\nheader = 'x-token'");
            limited(config.with(&jwt), "partition = ['jwt:sub']")
        },
        field: ("X-Token", "none"),
    },
    Case {
        reader: "the value that a route asks for",
        config: |config| {
            config
                .route("/*", "name = 'rest'")
                .route("/*", "name = 'paid'\nheaders = { x-plan = 'paid' }")
        },
        field: ("X-Plan", "paid"),
    },
    Case {
        reader: "the field that a route asks for",
        config: |config| config.route("/*", "headers = { x-plan = '*' }"),
        field: ("X-Plan", "paid"),
    },
    Case {
        reader: "an upstream's hash",
        config: |config| {
            config
                .upstream("balance = 'hash'\nhash_by = ['header:x-shard']")
                .route("/*", "")
        },
        field: ("X-Shard", "3"),
    },
    Case {
        reader: "whether a body can be read",
        config: |config| {
            limited(
                config,
                "partition = ['ip']\ncost = 'response-json:/n'\nreserve = 'request-bytes'\nreserve_default = 5",
            )
        },
        field: ("Content-Encoding", "identity"),
    },
];

/// Spellings of a Connection that names the field NAME.
const SPELLINGS: [&str; 6] = [
    "Connection: NAME",
    "connection:close, name",
    "Connection: keep-alive ,\t, NAME\t,",
    "Connection: TE, Upgrade\r\nConnection: name",
    "CONNECTION: X-Other,NAME,HTTP2-Settings",
    "Connection: name, name\r\nConnection: keep-alive",
];

const ISSUER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls/issuer.pem");

fn limited(config: Config, policy: &str) -> Config {
    config
        .policy("p", &format!("quota = '1000 per hour'\n{policy}"))
        .route("/*", "policies = ['p']")
}

/// Returns `connection` with `field` in the place of NAME, and with its lower case in the place of `name`.
fn naming(connection: &str, field: &str) -> String {
    let lower = field.to_lowercase();
    connection.replace("NAME", field).replace("name", &lower)
}

#[test]
fn connection_cannot_name_a_field_that_the_route_goes_by() {
    let mut failures = Vec::new();
    for Case {
        reader,
        config,
        field: (field, value),
    } in READERS
    {
        let origin = Origin::plain();
        let running = start(&config(Config::to(origin.url())));
        for (connection, version) in SPELLINGS
            .into_iter()
            .flat_map(|spelling| [(spelling, "1.1"), (spelling, "1.0")])
        {
            let connection = naming(connection, field);
            let checked = || {
                let mut client = Client::connect(running.public);
                let mut ask = |field: &str, connection: &str| {
                    client.ask(format!(
                        "GET / HTTP/{version}\r\nHost: a.test\r\n{field}: {value}\r\n{connection}\r\n\r\n"
                    ))
                };
                let before = origin.requests().len();
                let refused = ask(field, &connection);
                expect("status", refused.status, 400)?;
                expect("requests", origin.requests().len(), before)?;
                if version == "1.1" && !connection.contains("close") {
                    // Only a field was wrong, so it is still clear where the next request begins.
                    expect("the next", ask(field, "Connection: close").status, 200)?;
                }
                Ok(())
            };
            let checked: Result<(), String> = checked();
            if let Err(failure) = checked {
                failures.push(format!("{reader}, {version}, {connection:?}: {failure}"));
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn what_connection_names_and_nobody_reads_is_gone_for_the_origin_alone() {
    let origin = Origin::plain();
    let config = limited(Config::to(origin.url()), "partition = ['header:x-api-key']");
    // This field selects another route than the request's.
    let config = config.route("/other", "headers = { x-plan = '*' }");
    let running = start(&config);
    let mut failures = Vec::new();
    for field in [
        "X-Plan",
        "Authorization",
        "Cookie",
        "X-Real-IP",
        "X-Forwarded-For",
        "Forwarded",
    ] {
        for connection in SPELLINGS {
            let connection = naming(connection, field);
            let answer = Client::connect(running.public).ask(format!(
                "GET / HTTP/1.1\r\nHost: a.test\r\nX-Api-Key: one\r\n{field}: 9.9.9.9\r\n{connection}\r\n\r\n"
            ));
            let checked = || {
                expect("status", answer.status, 200)?;
                let head = origin.requests().pop().expect("a request").head;
                let left = head.fields(&field.to_lowercase()).join("");
                expect("what is left", left.contains("9.9.9.9"), false)?;
                own_fields(&head, "127.0.0.1")
            };
            if let Err(failure) = checked() {
                failures.push(format!("{connection:?}: {failure}"));
            }
        }
    }
    assert_none(&failures);
}

/// Fields in which trusted peers are trusted, by `client_address`.
const BELIEVED: [(&str, &[&str]); 4] = [
    (
        "x-forwarded-for",
        &[
            "X-Forwarded-For",
            "X-Forwarded-Proto",
            "X-Forwarded-Host",
            "X-Id",
        ],
    ),
    ("forwarded", &["Forwarded", "X-Id"]),
    ("header:x-real-ip", &["X-Real-IP", "X-Id"]),
    ("peer", &["X-Id"]),
];

#[test]
fn connection_cannot_name_what_the_listener_believes() {
    let mut failures = Vec::new();
    for (source, fields) in BELIEVED {
        let origin = Origin::plain();
        let config = |listener: &str| {
            let config = limited(Config::to(origin.url()), "partition = ['ip']").with_ids();
            start(&config.top("request_id = 'x-id'").listener(listener))
        };
        let source = format!("client_address = '{source}'");
        let believing = config(&format!("trusted_proxies = ['127.0.0.1']\n{source}"));
        let alone = config(&source);
        for (field, connection) in fields
            .iter()
            .flat_map(|field| SPELLINGS.map(|spelling| (field, naming(spelling, field))))
        {
            let fields = format!("{field}: 203.0.113.9\r\n{connection}\r\n");
            let ask = |running: &Running| get(running.public, "/", &fields).status;
            let checked = expect("with trusted proxies", ask(&believing), 400)
                .and_then(|()| expect("without", ask(&alone), 200));
            if let Err(failure) = checked {
                failures.push(format!("{source}, {connection:?}: {failure}"));
            }
        }
        // Names that do not make the gateway remove any field that it trusts.
        let harmless =
            "Connection: close, TE, HTTP2-Settings, Upgrade, Host, Content-Length, Keep-Alive\r\n";
        assert_eq!(get(believing.public, "/", harmless).status, 200);
    }
    assert_none(&failures);
}

/// HAProxy passes on what its client wrote in Connection, together with the address that it adds.
#[test]
fn a_client_behind_haproxy_cannot_erase_its_address() {
    let directory = tempfile::tempdir().expect("a directory for the log");
    let log = directory.path().join("log");
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .listener("trusted_proxies = ['127.0.0.1']")
        .policy(
            "p",
            "quota = '1 per hour'\npartition = ['ip']\noverrides = { '127.0.0.9' = 'blocked' }",
        )
        .route("/*", "policies = ['p']")
        .with(&format!(
            "[log]\nfile = '{}'\nformat = 'json'",
            log.display()
        ));
    let running = start(&config);
    let haproxy = Haproxy::before(running.public, "option forwardfor");
    let ask = |source: [u8; 4], fields: &str| {
        let mut client = Client::connect_from(source, haproxy.address);
        client.get("/", fields).status
    };
    let (blocked, limited) = ([127, 0, 0, 9], [127, 0, 0, 8]);
    assert_eq!(ask(blocked, ""), 403);
    assert_eq!([ask(limited, ""), ask(limited, "")], [200, 429]);
    for spelling in SPELLINGS {
        let connection = format!("{}\r\n", naming(spelling, "X-Forwarded-For"));
        for source in [blocked, limited] {
            assert_eq!(ask(source, &connection), 400, "{connection:?}");
        }
    }
    // An address that the client cannot erase is the one it is counted by.
    assert_eq!(ask(blocked, "Connection: X-Other\r\n"), 403);
    assert_eq!(origin.requests().len(), 1);
    // And the log names the client of each refused request.
    let told = |client: &str| {
        let told = format!("\"client\":\"{client}\"");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines = text.lines().filter(|line| line.contains(&told));
        lines
            .filter(|line| line.contains("\"reason\":\"bad_connection_field\""))
            .count()
    };
    eventually("each is logged under its client", || {
        let counts = ["127.0.0.9", "127.0.0.8"].map(told);
        (counts == [SPELLINGS.len(); 2]).then_some(())
    });
}

#[test]
fn what_the_gateway_says_cannot_be_named_away() {
    let named = "close, Host, Content-Length, Transfer-Encoding, X-Forwarded-For, \
                 X-Forwarded-Proto, X-Forwarded-Host, Forwarded, CDN-Loop, Connection, Tollgate-Tier";
    let mut failures = Vec::new();
    for (framing, body) in [
        ("Content-Length: 3", "abc"),
        ("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n"),
    ] {
        let bench = Bench::new();
        let message = format!(
            "POST / HTTP/1.1\r\nHost: a.test\r\n{framing}\r\nX-Forwarded-For: 9.9.9.9\r\n\
             X-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test\r\nForwarded: for=9.9.9.9\r\n\
             CDN-Loop: other\r\nTollgate-Over: p\r\nTollgate-Tier: gold\r\n\
             Connection: {named}\r\n\r\n{body}"
        );
        let checked = bench
            .one_and_close(message.as_bytes(), b"")
            .and_then(|seen| {
                expect("body", &*seen.body, b"abc")?;
                for name in ["tollgate-over", "tollgate-tier"] {
                    expect(name, seen.head.fields(name).len(), 0)?;
                }
                own_fields(&seen.head, "127.0.0.1")
            });
        if let Err(failure) = checked {
            failures.push(format!("{framing}: {failure}"));
        }
    }
    assert_none(&failures);
}
