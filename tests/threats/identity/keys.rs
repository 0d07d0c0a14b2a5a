//! Keys of clients: counted byte for byte as the origin sees them, and hashed with a secret.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use super::{AGAIN, Cases, FIRST, ONCE};
use crate::support::wire::Wire;
use crate::support::{Client, Config, Process, get, ratelimit, start};

/// An origin that records heads as bytes, and answers 200 without a body.
#[derive(Clone)]
struct Raw {
    url: String,
    heads: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Raw {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let raw = Self {
            url: format!("http://{}", listener.local_addr().expect("a bound port")),
            heads: Arc::default(),
        };
        let heads = Arc::clone(&raw.heads);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (heads, mut wire) = (Arc::clone(&heads), Wire::new(stream));
                thread::spawn(move || {
                    // How the connection ends does not matter here.
                    while let Ok(head) = wire.read_until(b"\r\n\r\n") {
                        heads.lock().expect("nothing panics with it").push(head);
                        let _ = wire.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    }
                });
            }
        });
        raw
    }

    /// Returns the values of the last request's fields with that name, where `_` counts as `-`, and
    /// the number of requests so far.
    fn last(&self, name: &str) -> (Vec<Vec<u8>>, usize) {
        let heads = self.heads.lock().expect("nothing panics with it");
        let head = heads.last().map_or(&b""[..], |head| head);
        let lines = head.split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let found = String::from_utf8_lossy(&line[..colon]).replace('_', "-");
            let value = line[colon + 1..].trim_ascii_start();
            let value = value.strip_suffix(b"\r").unwrap_or(value);
            found.eq_ignore_ascii_case(name).then(|| value.to_vec())
        });
        (lines.collect(), heads.len())
    }
}

/// A case: its name, field lines, and the one value that names the client; `None` if nothing does.
type Row<'t> = (&'static str, &'t [u8], Option<&'t [u8]>);

const KEYS: &[Row<'static>] = &[
    ("plain", b"X-Api-Key: alpha\r\n", Some(b"alpha")),
    ("case of the name", b"x-API-key: alpha\r\n", Some(b"alpha")),
    (
        "space and tab around",
        b"X-Api-Key: \t alpha \t \r\n",
        Some(b"alpha"),
    ),
    ("case", b"X-Api-Key: Alpha\r\n", Some(b"Alpha")),
    ("shorter", b"X-Api-Key: alph\r\n", Some(b"alph")),
    ("longer", b"X-Api-Key: alpha2\r\n", Some(b"alpha2")),
    ("braces", b"X-Api-Key: {alpha}\r\n", Some(b"{alpha}")),
    ("space within", b"X-Api-Key: al pha\r\n", Some(b"al pha")),
    ("tab within", b"X-Api-Key: al\tpha\r\n", Some(b"al\tpha")),
    (
        "two lines",
        b"X-Api-Key: a\r\nX-Api-Key: b\r\n",
        Some(b"a, b"),
    ),
    (
        "two lines, turned",
        b"X-Api-Key: b\r\nX-Api-Key: a\r\n",
        Some(b"b, a"),
    ),
    (
        "the same twice",
        b"X-Api-Key: a\r\nx-api-key: a\r\n",
        Some(b"a, a"),
    ),
    ("a list", b"X-Api-Key: a, b\r\n", Some(b"a, b")),
    ("a list without space", b"X-Api-Key: a,b\r\n", Some(b"a,b")),
    ("first of the list", b"X-Api-Key: a\r\n", Some(b"a")),
    (
        "beside an empty line",
        b"X-Api-Key: alpha\r\nX-Api-Key:\r\n",
        Some(b"alpha"),
    ),
    (
        "after an empty line",
        b"X-Api-Key:  \r\nX-Api-Key: alpha\r\n",
        Some(b"alpha"),
    ),
    ("absent", b"", None),
    ("empty", b"X-Api-Key:\r\n", None),
    ("blank", b"X-Api-Key: \t \r\n", None),
    ("empty twice", b"X-Api-Key:\r\nX-Api-Key:\r\n", None),
    ("only a comma", b"X-Api-Key: ,\r\n", Some(b",")),
    ("underscores", b"X_Api_Key: alpha\r\n", None),
    ("an underscore", b"X-Api_Key: alpha\r\n", None),
    (
        "beside underscores",
        b"X_Api_Key: beta\r\nX-Api-Key: alpha\r\n",
        Some(b"alpha"),
    ),
    (
        "composed",
        b"X-Api-Key: caf\xc3\xa9\r\n",
        Some(b"caf\xc3\xa9"),
    ),
    (
        "decomposed",
        b"X-Api-Key: cafe\xcc\x81\r\n",
        Some(b"cafe\xcc\x81"),
    ),
    ("Latin-1", b"X-Api-Key: caf\xe9\r\n", Some(b"caf\xe9")),
    ("not UTF-8", b"X-Api-Key: \xff\xfe\r\n", Some(b"\xff\xfe")),
    (
        "not UTF-8 otherwise",
        b"X-Api-Key: \xfe\xff\r\n",
        Some(b"\xfe\xff"),
    ),
    (
        "no-break space",
        b"X-Api-Key: \xc2\xa0alpha\r\n",
        Some(b"\xc2\xa0alpha"),
    ),
    (
        "wide space in one byte",
        b"X-Api-Key: \xa0alpha\xa0\r\n",
        Some(b"\xa0alpha\xa0"),
    ),
    (
        "look-alike",
        b"X-Api-Key: \xd0\xb0lpha\r\n",
        Some(b"\xd0\xb0lpha"),
    ),
    (
        "the address",
        b"X-Api-Key: 127.0.0.1\r\n",
        Some(b"127.0.0.1"),
    ),
    ("plain again", b"X-Api-Key: alpha\r\n", Some(b"alpha")),
];

/// A [`Row`] that owns its bytes.
type Case = (&'static str, Vec<u8>, Option<Vec<u8>>);

/// Returns [`KEYS`], and some long keys.
fn table() -> Vec<Case> {
    const LONG: usize = 16 * 1024;
    let owned = |&(case, lines, key): &Row<'_>| (case, lines.to_vec(), key.map(<[u8]>::to_vec));
    let mut table: Vec<_> = KEYS.iter().map(owned).collect();
    for (case, last) in [
        ("long", b'a'),
        ("long, another", b'b'),
        ("long, again", b'a'),
    ] {
        let key = [vec![b'k'; LONG], vec![last]].concat();
        table.push((
            case,
            [b"X-Api-Key: ", &key[..], b"\r\n"].concat(),
            Some(key),
        ));
    }
    table
}

/// Takes all cases through one gateway. Compares for each the key at the origin, and the number of
/// earlier requests with the same quota, which must be those with the same key at the origin.
///
/// `keyless` says how requests without a key are counted (`Ok`), or with which status they are
/// refused (`Err`).
fn check(cases: &mut Cases, policy: &str, keyless: Result<Keyless, u16>) {
    const LIMIT: i64 = 100;
    let origin = Raw::start();
    let policy = format!("quota = '{LIMIT} per 366 days'\nalgorithm = 'fixed-window'\n{policy}");
    let running = start(&Config::limited(&origin.url, &policy));
    let mut seen: Vec<Option<Vec<u8>>> = Vec::new();
    for (case, lines, key) in table() {
        let name = format!("{policy:?}: {case}");
        let mut client = Client::connect(running.public);
        let before = origin.last("x-api-key").1;
        let answer =
            client.ask([b"GET / HTTP/1.1\r\nHost: a.test\r\n", &lines[..], b"\r\n"].concat());
        let (told, after) = origin.last("x-api-key");
        if let (None, Err(status)) = (&key, keyless) {
            cases.expect(&name, (answer.status, after), (status, before));
            continue;
        }
        cases.expect(&name, (answer.status, after), (FIRST, before + 1));
        // The origin may see an empty field line that the client sent; it names nobody.
        let told: Vec<_> = told.into_iter().filter(|line| !line.is_empty()).collect();
        cases.expect(
            &format!("{name}, at the origin"),
            told,
            key.clone().into_iter().collect(),
        );
        if key.is_none() && keyless == Ok(Keyless::Uncounted) {
            cases.expect(&name, ratelimit::state(&answer), Vec::new());
            continue;
        }
        let same = seen.iter().filter(|other| **other == key).count();
        let expected = LIMIT - 1 - i64::try_from(same).expect("few");
        cases.expect(
            &format!("{name}, left"),
            ratelimit::remaining(&answer, "p"),
            expected,
        );
        seen.push(key);
    }
}

/// How requests without a key are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyless {
    Together,
    Uncounted,
}

#[test]
fn key_is_counted_byte_for_byte_as_the_origin_sees_it() {
    let mut cases = Cases::default();
    let by_key = "partition = ['header:x-api-key']";
    let or_address = "partition = ['header:x-api-key | ip']";
    let missing = |how: &str| format!("{by_key}\non_missing = '{how}'");
    check(&mut cases, by_key, Ok(Keyless::Together));
    check(&mut cases, or_address, Ok(Keyless::Together));
    check(&mut cases, &missing("share"), Ok(Keyless::Together));
    check(&mut cases, &missing("skip"), Ok(Keyless::Uncounted));
    check(&mut cases, &missing("refuse"), Err(401));
    cases.end();
}

#[test]
fn empty_key_does_not_hide_the_address_that_is_asked_for_instead() {
    let policy = format!("{ONCE}\npartition = ['header:x-api-key | ip']");
    let running = start(&Config::limited("builtin:echo", &policy));
    let mut cases = Cases::default();
    for (source, fields, expected) in [
        ([127, 0, 0, 1], "", FIRST),
        ([127, 0, 0, 2], "X-Api-Key:\r\n", FIRST),
        ([127, 0, 0, 1], "X-Api-Key:\r\nX-Api-Key: \t\r\n", AGAIN),
        ([127, 0, 0, 2], "X_Api_Key: k\r\n", AGAIN),
        // A key that looks like an address is a key like any other, not that address.
        ([127, 0, 0, 3], "X-Api-Key: 127.0.0.1\r\n", FIRST),
        ([127, 0, 0, 1], "X-Api-Key: 127.0.0.1\r\n", AGAIN),
    ] {
        let answer = Client::connect_from(source, running.public).get("/", fields);
        cases.expect(&format!("{source:?} {fields:?}"), answer.status, expected);
    }
    cases.end();
}

#[test]
fn key_of_64_kib_is_431_unless_the_listener_takes_such_heads() {
    let policy = format!("{ONCE}\npartition = ['header:x-api-key']");
    let field = |last| format!("X-Api-Key: {}{last}\r\n", "k".repeat(64 * 1024));
    let origin = Raw::start();
    let config = Config::limited(&origin.url, &policy);
    let running = start(&config);
    assert_eq!(get(running.public, "/", &field('a')).status, 431);
    assert_eq!(origin.last("x-api-key").1, 0, "requests at the origin");
    let running = start(&config.listener("max_header_bytes = '128KiB'"));
    let mut cases = Cases::default();
    for (last, expected) in [('a', FIRST), ('b', FIRST), ('a', AGAIN)] {
        let found = get(running.public, "/", &field(last)).status;
        cases.expect(&format!("64 KiB and {last}"), found, expected);
    }
    cases.end();
}

/// The partition id is the partition's hash in the store's tables, and the log shows keys by the same keyed digest, so
/// no outsider can choose keys that collide.
#[test]
fn keys_are_hashed_under_a_secret_that_each_process_draws_anew() {
    let policy = format!("{ONCE}\npartition = ['header:x-api-key']");
    let digests = || {
        let process = Process::start(&Config::limited("builtin:status/204", &policy));
        // On one connection, because its worker logs in order.
        let mut client = Client::connect(process.public);
        for key in ["alpha", "beta", "alpha"] {
            client.get("/", &format!("X-Api-Key: {key}\r\n"));
        }
        let records = process.wait_for_records(3);
        let shown = |record: &Value| record["partitions"][0].as_str().expect("a key").to_owned();
        records.iter().map(shown).collect::<Vec<_>>()
    };
    let (one, other) = (digests(), digests());
    assert_eq!(one[0], one[2], "the same client in one process");
    assert_ne!(one[0][5..], one[1][5..], "two clients");
    assert_ne!(one[0], other[0], "two processes");
    assert_ne!(one[1], other[1], "two processes");
}

/// Each row has the value of `Authorization`, and the status that it gets; earlier rows have spent the quotas of
/// `Bearer k1` and of the password in `Basic YTpiYw==`, and `k3` is blocked.
#[test]
fn spellings_of_one_credential_are_one_client() {
    const UNREAD: u16 = 400;
    const BLOCKED: u16 = 403;
    let policy = "quota = '1 per day'\npartition = ['header:authorization']\n\
                  overrides = { 'bearer   k3' = 'blocked', 'BASIC YTpk*' = 'unlimited' }";
    let running = start(&Config::limited("builtin:echo", policy).route("/free", ""));
    let status = |target: &str, value: &str| {
        let fields = format!("Authorization: {value}\r\n");
        get(running.public, target, &fields).status
    };
    for (value, expected) in [
        ("Bearer k1", FIRST),
        ("bearer k1", AGAIN),
        ("BEARER  \t k1 \t", AGAIN),
        ("Bearer\tk1", AGAIN),
        ("Bearer K1", FIRST),
        ("k1", FIRST),
        ("Token k1", FIRST),
        ("Basic YTpiYw==", FIRST),
        ("bAsIc YTpiYw", AGAIN),
        ("Basic   YTpiYw==", AGAIN),
        ("Basic YTpiYx==", UNREAD),
        ("Basic YTpiYw=", UNREAD),
        ("basic YTpi Yw==", UNREAD),
        ("Basic a:bc", UNREAD),
        ("Bearer k3", BLOCKED),
        ("BEARER\tk3", BLOCKED),
        ("Bearer k1\r\nAuthorization: Bearer k1", UNREAD),
        ("Basic YTpkZQ==", FIRST),
        ("basic YTpkZQ", FIRST),
    ] {
        assert_eq!(status("/", value), expected, "{value:?}");
    }
    assert_eq!(
        status("/free", "Basic a:bc"),
        FIRST,
        "nobody reads it there"
    );
}

#[test]
fn cases_of_one_method_are_one_client() {
    let policy = "quota = '1 per day'\npartition = ['method']";
    let running = start(&Config::limited("builtin:echo", policy));
    for (method, expected) in [("PURGE", FIRST), ("purge", AGAIN), ("LINK", FIRST)] {
        let head = format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let status = Client::connect(running.public).ask(head).status;
        assert_eq!(status, expected, "{method}");
    }
}

#[test]
fn a_password_is_logged_as_a_digest_alone() {
    let policy = "quota = '9 per day'\npartition = ['header:authorization']";
    let process = Process::start(&Config::limited("builtin:echo", policy).one_worker());
    for value in ["Basic YTpiYw==", "Bearer abcdef"] {
        get(process.public, "/", &format!("Authorization: {value}\r\n"));
    }
    let records = process.wait_for_records(2);
    let partitions: Vec<_> = records
        .iter()
        .map(|record| record["partitions"][0].to_string())
        .collect();
    assert!(
        !partitions[0].contains('~') && partitions[0].len() == 10,
        "{partitions:?}"
    );
    assert!(partitions[1].starts_with("\"Bear~"), "{partitions:?}");
}
