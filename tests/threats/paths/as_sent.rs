//! Paths that are forwarded as the client sent them.

use super::{check, quiet};
use crate::support::http2::{Http2, request};
use crate::support::ratelimit::state;
use crate::support::{Client, Config, Origin, get, start};
use http::Method;

const AS_SENT: &str = "forward_path = 'as-sent'\nencoded_slash = 'keep'";

/// A file for a store of objects, one part of which is limited.
fn store(origin: &Origin) -> Config {
    quiet(&origin.url())
        .policy("p", "quota = '3 per minute'\npartition = ['path:bucket']")
        .policy("admin", "quota = '3 per minute'\npartition = []")
        .route("/{bucket}/*", &format!("policies = ['p']\n{AS_SENT}"))
        .route("/{bucket}", AS_SENT)
        .route("/admin/*", "policies = ['admin']")
        .route("/pub/{name}/meta", AS_SENT)
        .route("/pub/{name}", AS_SENT)
}

#[test]
fn keys_of_objects_arrive_byte_for_byte() {
    let origin = Origin::plain();
    let keys: [&str; 25] = [
        "/b/a//b",
        "/b//a",
        "/b/a///",
        "/b/a/./b/.",
        "/b/x/../a",
        "/b/x/%2e%2E/a",
        "/b/../b/a",
        "/b/a//../x",
        "/b//..//b/x",
        "/b/.../a",
        "/b/a%20b",
        "/b/a+b%2B",
        "/b/a%2Fb%2fc",
        "/b/a%5cb%5C",
        "/b/%61%7E%7e~%c3%a9%C3%A9",
        "/%62/a",
        "/b/!$&'()*,;=:@",
        "/b/a%3Ab%3ac",
        "/b/a%25%252F",
        "/b/a?list-type=2&prefix=x//y/../z%2f",
        "/b/a?",
        "/b/?{a}|^",
        "/b?uploads",
        "/b/",
        "/b",
    ];
    check(&store(&origin), &origin, &keys.map(|key| (key, Ok(key))));
}

#[test]
fn a_path_that_could_be_another_to_its_origin_is_refused() {
    let origin = Origin::plain();
    let refused: [&[u8]; 44] = [
        b"//b/a",
        b"/./b/a",
        b"/x/../b/a",
        b"/%2e/b/a",
        b"/%2E%2e/b/a",
        b"/b//../admin/x",
        b"/b//..//../admin",
        b"/admin/../b/a",
        b"/b/%2e%2e/c/a",
        b"/b//../c",
        b"/pub//a",
        b"/pub/a/./meta",
        b"/b/.",
        b"/b//",
        b"/b/../c",
        b"/b/..%2Fadmin",
        b"/b/%2e%2e%2fadmin",
        b"/b/..%5cadmin",
        b"/b/..;/admin/x",
        b"/b/..;x=1/admin/x",
        b"/b/..%3B/admin/x",
        b"/admin%2Fx",
        b"/admin%5cx",
        b"/%2Fadmin%2Fx",
        b"/%2Fadmin/x",
        b"/b%2F..%2Fadmin",
        b"/pub/a%2Fmeta",
        b"/pub/a%2Fb/../meta",
        b"/b/a\\b",
        b"/b/a%00",
        b"/b/a%",
        b"/b/a%zz",
        b"/b/a%u0061",
        // Characters that no target may contain are not escaped on these routes.
        b"/b/a\"b",
        b"/b/<a>",
        b"/b/a`b",
        b"/b/a|b",
        b"/b/a^b",
        b"/b/{a}",
        b"/b/\xc3\xa9",
        b"/b/a?x=\"y\"",
        b"/b/a?x=<y>",
        b"/b/a?x=\xc3\xa9",
        b"/b/a?x=`\xff",
    ];
    let refused = refused.iter().map(|&target| (target, Err(400)));
    // These belong to another route, which forwards them as they were matched.
    let others: [&[u8]; 3] = [b"/b/../admin/x", b"/b/../../admin/x", b"/b/%2e%2e/admin/x"];
    let others = others.iter().map(|&target| (target, Ok("/admin/x")));
    let nobodys = [(&b"/b/.."[..], Err(404))];
    let rows: Vec<_> = refused.chain(others).chain(nobodys).collect();
    check(&store(&origin), &origin, &rows);
}

/// An origin that parses the target as a URL reads a host after `//`, and the path only after that.
#[test]
fn a_path_behind_what_could_be_a_host_is_no_other_routes() {
    let origin = Origin::plain();
    let config = quiet(&origin.url())
        .route("/*", AS_SENT)
        .route("/login", "");
    let refused: [&[u8]; 9] = [
        b"//h/login",
        b"//h/l%6Fgin",
        b"///h/login",
        b"////h//login",
        b"//u@h:80/x/../login",
        b"//h/x/..//login",
        b"/.//h/login",
        b"/x/..//h/login",
        b"/%2Fh/login",
    ];
    let refused = refused.iter().map(|&target| (target, Err(400)));
    let forwarded = ["//h/x", "//h/login/x", "/h/login", "//h"];
    let forwarded = forwarded.map(|target| (target.as_bytes(), Ok(target)));
    let rows: Vec<_> = refused.chain(forwarded).collect();
    check(&config, &origin, &rows);
}

#[test]
fn what_is_no_path_is_refused_whatever_the_route_wants() {
    let origin = Origin::plain();
    let config = quiet(&origin.url()).route("/*", AS_SENT);
    let running = start(&config);
    for line in [
        "OPTIONS * HTTP/1.1",
        "GET * HTTP/1.1",
        "GET ftp://a.test/x HTTP/1.1",
    ] {
        let answer = Client::connect(running.public).ask(format!("{line}\r\nHost: a.test\r\n\r\n"));
        assert_eq!(answer.status, 400, "{line}");
    }
    for (line, expected) in [
        ("GET http://a.test HTTP/1.1", "/"),
        ("GET http://a.test//x/../y?z HTTP/1.1", "//x/../y?z"),
        ("GET http://a.test?z HTTP/1.1", "/?z"),
        ("GET http://a.test//b#c HTTP/1.1", "//b"),
        ("GET /a#b HTTP/1.1", "/a"),
        ("GET //evil.test/x HTTP/1.1", "//evil.test/x"),
    ] {
        let answer = Client::connect(running.public).ask(format!("{line}\r\nHost: a.test\r\n\r\n"));
        assert_eq!(answer.status, 200, "{line}");
        assert_eq!(
            origin.targets().last().map(String::as_str),
            Some(expected),
            "{line}"
        );
    }
}

/// Only the escaped target counts as escaped: other requests on the connection are forwarded as they were sent.
#[test]
fn an_escaped_target_refuses_its_own_request_alone() {
    let origin = Origin::plain();
    let config = quiet(&origin.url()).route("/*", "").route("/b/*", AS_SENT);
    let running = start(&config);
    let one = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut client = Client::connect(running.public);
    // All at once, so that several targets are escaped before the first request is answered.
    let targets = [
        "/a?<1>",
        "/b//2?%3C",
        "/a?<3>",
        "/a\"",
        "/b/%3c/5",
        "/b//<6>",
    ];
    client.send(targets.map(one).concat());
    let statuses = targets.map(|_| client.answer().status);
    assert_eq!(statuses, [200, 200, 200, 200, 200, 400]);
    client.assert_closed();
    let expected = ["/a?%3C1%3E", "/b//2?%3C", "/a?%3C3%3E", "/a%22", "/b/%3c/5"];
    assert_eq!(origin.targets(), expected);
    // One after the other, with bodies in between.
    let mut client = Client::connect(running.public);
    for _ in 0..3 {
        assert_eq!(client.get("/a?<1>", "").status, 200);
        assert_eq!(client.post("/b//2", "", "<\"body\">").status, 200);
    }
    assert_eq!(client.get("/b/a?<1>", "").status, 400);
}

#[test]
fn a_path_as_sent_may_be_as_long_as_a_target() {
    let origin = Origin::plain();
    let config = quiet(&origin.url())
        .listener("max_header_bytes = '128KiB'")
        .route("/*", AS_SENT);
    let running = start(&config);
    for (piece, status) in [("a//./", 200), ("a%2f/", 200), ("a/../", 200), ("a|", 400)] {
        let target = format!("/{}", piece.repeat(60_000 / piece.len()));
        let before = origin.requests().len();
        let answer = get(running.public, &target, "");
        assert_eq!(answer.status, status, "{piece}");
        if status == 200 {
            assert_eq!(origin.targets()[before], target);
        }
    }
    let too_long = format!("/{}", "a".repeat(70_000));
    assert_eq!(get(running.public, &too_long, "").status, 414);
}

#[test]
fn requests_are_counted_by_what_they_were_decided_by() {
    let origin = Origin::plain();
    let running = start(&store(&origin));
    let ask = |target: &str| {
        let answer = get(running.public, target, "");
        (
            answer.status,
            state(&answer).first().map(|item| item.0.clone()),
        )
    };
    for target in ["/b/a", "/b//a", "/%62/x/../a"] {
        assert_eq!(ask(target), (200, Some("p".to_owned())), "{target}");
    }
    assert_eq!(ask("/b/a%2Fb").0, 429);
    assert_eq!(ask("/%62//").0, 400, "it is `/{{bucket}}` once normalised");
    assert_eq!(ask("/c/a").0, 200);
}

#[test]
fn http2_has_the_same_rules() {
    let origin = Origin::plain();
    let running = start(&store(&origin));
    let mut client = Http2::connect(running.public, 65_535);
    for (target, expected) in [
        ("/b/a//b/./c%2f%7e+?x//y", Ok("/b/a//b/./c%2f%7e+?x//y")),
        ("/b/x/../a", Ok("/b/x/../a")),
        ("/b/../c/a", Err(400)),
        ("/b/..%2Fadmin", Err(400)),
        ("/admin%2Fx", Err(400)),
        ("/b/a|b", Err(400)),
        ("/b/{a}", Err(400)),
    ] {
        let before = origin.requests().len();
        let status = client.begin(request(Method::GET, target), true).status();
        let seen = origin.targets().split_off(before);
        let found = match status.expect("an answer") {
            200 => seen.first().map(String::as_str).ok_or(200),
            other => Err(other),
        };
        assert_eq!(found, expected, "{target}");
    }
}

/// A preflight has the route of the request that it announces, and its path is forwarded as it was sent, too.
#[test]
fn a_preflight_is_decided_as_the_request_that_it_announces() {
    let origin = Origin::plain();
    let config = quiet(&origin.url())
        .top("preflight_policies = ['preflights']")
        .policy("preflights", "quota = '100 per minute'")
        .route("/{bucket}/*", &format!("methods = ['PUT']\n{AS_SENT}"))
        .route("/*", "");
    let running = start(&config);
    let ask = |target: &str| {
        Client::connect(running.public).ask(format!(
            "OPTIONS {target} HTTP/1.1\r\nHost: a.test\r\nOrigin: https://b.test\r\n\
             Access-Control-Request-Method: PUT\r\n\r\n"
        ))
    };
    assert_eq!(ask("/b//a%7e").status, 200);
    assert_eq!(origin.targets(), ["/b//a%7e"]);
    assert_eq!(ask("/b/../c/a").status, 400);
}
