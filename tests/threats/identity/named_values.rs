//! Cookies, query parameters and `Authorization` in which origins could read another client than
//! the gateway does.

use super::{AGAIN, Cases, FIRST, ONCE};
use crate::support::{Client, Config, Origin, start};

/// The part that is read, and a target and fields in which some origin could read another value.
const AMBIGUOUS: &[(&str, &str, &str)] = &[
    ("cookie:key", "/", "Cookie: key=1; key=2\r\n"),
    ("cookie:key", "/", "Cookie: key=1; key=1\r\n"),
    ("cookie:key", "/", "Cookie: key=1\r\nCookie: key=2\r\n"),
    ("cookie:key", "/", "Cookie: key; key=2\r\n"),
    ("cookie:key", "/", "Cookie: a=1, key=2\r\n"),
    ("cookie:key", "/", "Cookie: a=1,key=2; key=3\r\n"),
    ("cookie:key", "/", "Cookie: key=1,2\r\n"),
    ("cookie:key", "/", "Cookie: k%65y=1\r\n"),
    ("cookie:key", "/", "Cookie: key[]=1\r\n"),
    ("cookie:key", "/", "Cookie: key=\"1\r\n"),
    ("cookie:key", "/", "Cookie: key=\"a\\142\"\r\n"),
    ("cookie:key", "/", "Cookie: a=\"1; key=2\"\r\n"),
    ("cookie:key", "/", "Cookie: key=a b\r\n"),
    ("cookie:a_key", "/", "Cookie: a.key=1\r\n"),
    ("cookie:a_key", "/", "Cookie: a_key=1; a key=2\r\n"),
    ("cookie:a_key", "/", "Cookie: a[key=2; a_key=1\r\n"),
    ("cookie:key | ip", "/", "Cookie: key=1; key=2\r\n"),
    ("ip | cookie:key", "/", "Cookie: key=1; key=2\r\n"),
    ("query:key", "/?key=1&key=2", ""),
    ("query:key", "/?key=1&key=1", ""),
    ("query:key", "/?key&key=2", ""),
    ("query:key", "/?key=1&k%65y=2", ""),
    ("query:key", "/?a=1;key=2", ""),
    ("query:key", "/?key=1;x", ""),
    ("query:key", "/?key[]=1", ""),
    ("query:key", "/?key%5Ba%5D=1&key=2", ""),
    ("query:key", "/?key%3D1", ""),
    ("query:key", "/?+key=1", ""),
    ("query:key", "/?key%00=1", ""),
    ("query:key", "/?key=1%00", ""),
    ("query:key", "http://a.test/?key=1&key=2", ""),
    ("query:a_key", "/?a.key=1", ""),
    ("query:a_key", "/?a+key=1&a_key=2", ""),
    ("query:a_key", "/?a%5Bkey=1", ""),
    (
        "header:authorization",
        "/",
        "Authorization: a\r\nAuthorization: b\r\n",
    ),
    (
        "header:authorization",
        "/",
        "Authorization: a\r\nauthorization:\r\n",
    ),
];

/// A file whose route `/*` is limited by that part, and `/free` by the address.
fn config(origin: &Origin, part: &str) -> Config {
    let policy = format!("{ONCE}\npartition = ['{part}']");
    Config::limited(origin.url(), &policy)
        .policy("by-address", "quota = '1000 per hour'")
        .policy("off", &format!("{policy}\nmode = 'off'"))
        .route("/free", "policies = ['by-address', 'off']")
}

#[test]
fn what_origins_could_read_differently_is_refused_where_a_policy_reads_it_and_spends_nothing() {
    let mut cases = Cases::default();
    for (part, target, fields) in AMBIGUOUS {
        let name = format!("{part}: {target} {fields:?}");
        let origin = Origin::plain();
        let running = start(&config(&origin, part));
        let mut client = Client::connect(running.public);
        let answer = client.ask(format!(
            "GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"
        ));
        cases.expect(&name, (answer.status, answer.says_close()), (400, false));
        cases.expect(&name, origin.requests().len(), 0);
        // The clients that it might have named still have their whole quota, on the same connection.
        for (target, fields) in [
            (
                "/?key=1&a_key=1",
                "Cookie: key=1; a_key=1\r\nAuthorization: a\r\n",
            ),
            (
                "/?key=2&a_key=2",
                "Cookie: key=2; a_key=2\r\nAuthorization: b\r\n",
            ),
        ] {
            let expected = match *part {
                "ip | cookie:key" if fields.contains("key=2") => AGAIN,
                _ => FIRST,
            };
            cases.expect(
                &format!("{name}, then {target}"),
                client.get(target, fields).status,
                expected,
            );
        }
        // The gateway does not check what no policy of the route reads.
        let target = target.replacen("/?", "/free?", 1);
        let target = if target == "/" { "/free" } else { &*target };
        let answer = client.ask(format!(
            "GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"
        ));
        cases.expect(&format!("{name}, then {target}"), answer.status, 200);
        let query = target.split_once('?').map(|(_, query)| query.to_owned());
        let seen = origin.targets().pop().unwrap_or_default();
        let seen = seen.split_once('?').map(|(_, query)| query.to_owned());
        cases.expect(target, seen, query);
    }
    cases.end();
}

/// If a client may spell a value in two ways, both are the same client.
#[test]
fn spellings_of_one_value_are_one_client() {
    let mut cases = Cases::default();
    for (part, [one, same, other]) in [
        ("cookie:key", ["key=ab", "a=1;  key = \"ab\" ", "key=AB"]),
        ("cookie:key", ["key=ab", "key=%61b", "key=ab%20"]),
        ("cookie:key", ["key=a=b", "key=a%3Db", "key=a"]),
        ("query:key", ["?key=ab", "?x&k%65y=%61b", "?key=AB"]),
        ("query:key", ["?key=a+b", "?key=a%2Bb", "?key=a%20b"]),
        (
            "query:user[id]",
            ["?user[id]=1", "?user%5Bid%5D=1", "?user[id]=2"],
        ),
    ] {
        let origin = Origin::plain();
        let running = start(&config(&origin, part));
        let mut client = Client::connect(running.public);
        for (value, expected) in [(one, FIRST), (same, AGAIN), (other, FIRST)] {
            let answer = if part.starts_with("cookie") {
                client.get("/", &format!("Cookie: {value}\r\n"))
            } else {
                client.get(&format!("/{value}"), "")
            };
            cases.expect(&format!("{part} {value}"), answer.status, expected);
        }
    }
    cases.end();
}

#[test]
fn cookies_reach_the_origin_in_one_line_and_never_in_a_trailer() {
    let origin = Origin::plain();
    let running = start(&config(&origin, "cookie:key"));
    let answer = Client::connect(running.public).ask(
        "POST / HTTP/1.1\r\nHost: a.test\r\nCookie: a=1\r\nCookie: key=1\r\nTrailer: cookie, x-a\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\nCookie: key=2\r\nX-A: 1\r\n\r\n",
    );
    assert_eq!(answer.status, FIRST);
    let request = origin.only_request();
    assert_eq!(request.head.fields("cookie"), ["a=1; key=1"]);
    assert!(!format!("{:?}", request.trailers).contains("key=2"));
}
