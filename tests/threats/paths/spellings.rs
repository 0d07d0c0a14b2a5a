//! Spellings of a limited path, one by one.

use super::Fate::{Bad, Limited, Other};
use super::{Fate, assert_none, limited, planted, quiet, send_many};
use crate::support::{Client, Garden, Origin, get, secs, start};

/// Targets, as bytes on the wire, and what must become of each.
const SPELLINGS: &[(&[u8], Fate)] = &[
    // Slashes and dots.
    (b"/login", Limited("/login")),
    (b"//login", Limited("/login")),
    (b"///login", Limited("/login")),
    (b"/./login", Limited("/login")),
    (b"/x/../login", Limited("/login")),
    (b"/../login", Limited("/login")),
    // Dot segments are resolved before slashes are merged (RFC 3986), so this is another resource.
    (b"/x//../login", Other("/x/login")),
    (b"/x//../../login", Limited("/login")),
    (b"//../login", Limited("/login")),
    (b"/login//..", Limited("/login/")),
    (b"/login//../x", Other("/login/x")),
    (b"/login/", Limited("/login/")),
    (b"/login//", Limited("/login/")),
    (b"/login/.", Limited("/login/")),
    (b"/login/./", Limited("/login/")),
    (b"/login/x/..", Limited("/login/")),
    // Escapes of unreserved characters.
    (b"/%6cogin", Limited("/login")),
    (b"/%6Cogin", Limited("/login")),
    (b"/%2e/login", Limited("/login")),
    (b"/%2E/login", Limited("/login")),
    (b"/x/%2e%2e/login", Limited("/login")),
    (b"/x/.%2e/login", Limited("/login")),
    (b"/.%2e/login", Limited("/login")),
    // Escapes are decoded once, not twice.
    (b"/%252e%252e/login", Other("/%252e%252e/login")),
    (b"/x/%252e%252e/login", Other("/x/%252e%252e/login")),
    (b"/%256cogin", Other("/%256cogin")),
    // Slashes and backslashes in disguise.
    (b"/login%2f", Bad),
    (b"/%2flogin", Bad),
    (b"/x%2f..%2flogin", Bad),
    (b"/x/..%2flogin", Bad),
    (b"/x/%2e%2e%2flogin", Bad),
    (b"\\login", Bad),
    (b"/\\login", Bad),
    (b"/x\\..\\login", Bad),
    (b"/%5clogin", Bad),
    (b"/login%5C", Bad),
    (b"/x/..%5clogin", Bad),
    // Parameters.
    (b"/login;a=b", Other("/login;a=b")),
    (b"/;a/login", Other("/;a/login")),
    (b"/login%3b", Other("/login%3B")),
    (b"/x/..;/login", Bad),
    (b"/x/..;a=b/login", Bad),
    (b"/x/..%3b/login", Bad),
    (b"/.;/login", Bad),
    // Control characters and white space.
    (b"/login%00", Bad),
    (b"/login\0", Bad),
    (b"/login%20", Other("/login%20")),
    (b"/login%09", Other("/login%09")),
    (b"/login\x09", Bad),
    (b"/login\x0c", Bad),
    (b"/login%0a", Other("/login%0A")),
    (b"/login%0d%0a", Other("/login%0D%0A")),
    (b"/login\x7f", Bad),
    // Queries and fragments.
    (b"/login?", Limited("/login?")),
    (b"/login?x", Limited("/login?x")),
    (b"/login??", Limited("/login??")),
    (b"/login?/../free", Limited("/login?/../free")),
    (b"/login/?x", Limited("/login/?x")),
    (b"//login?//x/..", Limited("/login?//x/..")),
    (b"/login#f", Limited("/login")),
    (b"/login#/../free", Limited("/login")),
    (b"/login?x#f", Limited("/login?x")),
    (b"/?", Other("/?")),
    (b"/login#?x", Limited("/login")),
    (b"/login#", Limited("/login")),
    (b"/login?a#b?c", Limited("/login?a")),
    (b"/login%3fx", Other("/login%3Fx")),
    (b"/login%23", Other("/login%23")),
    (b"/free%3f/../login", Limited("/login")),
    (b"/free%23/../login", Limited("/login")),
    // Bytes that are not ASCII, and malformed escapes.
    ("/ｌogin".as_bytes(), Other("/%EF%BD%8Cogin")),
    (b"/%ef%bd%8cogin", Other("/%EF%BD%8Cogin")),
    (b"/%c0%aflogin", Other("/%C0%AFlogin")),
    (b"/x/%c0%ae%c0%ae/login", Other("/x/%C0%AE%C0%AE/login")),
    (b"/login\xa0", Bad),
    (b"/login\x85", Bad),
    (b"/login\xc2\xa0", Other("/login%C2%A0")),
    (b"/login%85", Other("/login%85")),
    (b"/%u006cogin", Bad),
    (b"/login%", Bad),
    (b"/login%6", Bad),
    (b"/login%zz", Bad),
    (b"/login%+1", Bad),
    (b"/logi%6e%", Bad),
    // Similar names.
    (b"/LOGIN", Other("/LOGIN")),
    (b"/%4cogin", Other("/Login")),
    (b"/login.json", Other("/login.json")),
    (b"/login.", Other("/login.")),
    (b"/login/x", Other("/login/x")),
    (b"/login|", Other("/login%7C")),
    // Characters that no URL may contain.
    (b"/login<", Other("/login%3C")),
    (b"/login>", Other("/login%3E")),
    (b"/login`", Other("/login%60")),
    (b"/login\"", Other("/login%22")),
    (b"/</../login", Limited("/login")),
    (b"/login?<\">`|{}^", Limited("/login?%3C%22%3E%60|{}^")),
    (b"/login?\xc3\xa9\xff", Limited("/login?%C3%A9%FF")),
    (b"/login#<", Limited("/login")),
    (b"//login?<#>", Limited("/login?%3C")),
    // Absolute-form.
    (b"http://a.test/login", Limited("/login")),
    (b"http://a.test//login", Limited("/login")),
    (b"http://b.test/login", Limited("/login")),
    (b"HTTP://A.TEST:80/%6cogin?x", Limited("/login?x")),
    (b"http://a.test/login#f", Limited("/login")),
    (b"http://a.test/x/../login", Limited("/login")),
    (b"http://a.test", Other("/")),
    (b"http://a.test?/login", Other("/?/login")),
    (b"http://a.test#/login", Other("/")),
    (b"http:/login", Bad),
    (b"http:///login", Bad),
    (b"http://a.test\\login", Bad),
    (b"login", Bad),
    (b"a.test/login", Bad),
    (b"*", Bad),
    (b"?/login", Bad),
    (b"#/login", Bad),
];

fn request(target: &[u8]) -> Vec<u8> {
    [b"GET ", target, b" HTTP/1.1\r\nHost: a.test\r\n\r\n"].concat()
}

#[test]
fn no_spelling_of_a_path_slips_past_its_policy() {
    let origin = Origin::plain();
    let running = start(&limited(&origin.url(), ""));
    let mut failures = Vec::new();
    for &(target, fate) in SPELLINGS {
        let before = origin.requests().len();
        let outcome = send_many(&running, &request(target));
        let plain = get(running.public, "/login", "").status;
        let targets = origin.targets().split_off(before);
        let shown = String::from_utf8_lossy(target);
        if outcome != fate.outcome() {
            failures.push(format!("{shown}: {outcome:?}, expected {fate:?}"));
        }
        // The spelling must spend the same quota as the plain path.
        let is_spent = matches!(fate, Limited(_));
        if (plain == 429) != is_spent {
            failures.push(format!("/login after {shown}: {plain}"));
        }
        let targets = targets.get(..outcome.admitted).unwrap_or_default();
        let strange = targets
            .iter()
            .find(|seen| Some(seen.as_str()) != fate.forwarded());
        if let Some(strange) = strange {
            failures.push(format!("{shown} is forwarded as {strange}"));
        }
        running.clock.advance(secs(120));
    }
    assert_none(&failures);
}

#[test]
fn what_is_not_limited_is_another_resource_at_every_origin() {
    let garden = Garden::start(&["/login", "/login/"]);
    let config = quiet("builtin:echo");
    let running = start(&planted(config, &garden, &[("/*", "")]));
    let mut failures = Vec::new();
    for (name, _) in &garden.origins {
        let mut client = Client::connect(running.public);
        for &(target, fate) in SPELLINGS
            .iter()
            .filter(|(target, _)| target.starts_with(b"/"))
        {
            let Some(forwarded) = fate.forwarded() else {
                continue;
            };
            let head = format!(" HTTP/1.1\r\nHost: {name}.test\r\n\r\n");
            let answer = client.ask([b"GET ", target, head.as_bytes()].concat());
            if answer.status != 200 {
                failures.push(format!("{name} answers {forwarded} with {}", answer.status));
                client = Client::connect(running.public);
                continue;
            }
            for reading in garden.readings(name, &answer.body) {
                let is_login = matches!(reading.text().as_str(), "/login" | "/login/");
                // Origins that cut off parameters have to be declared to the gateway: see the test below.
                let is_known = reading.by == "python-urlparse" && target == b"/login;a=b";
                if is_login != (matches!(fate, Limited(_)) || is_known) {
                    failures.push(format!(
                        "{} reads {forwarded} as {}",
                        reading.by,
                        reading.text()
                    ));
                }
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn an_origin_that_cuts_parameters_off_is_covered_by_an_expression() {
    let origin = Origin::plain();
    let config = quiet(&origin.url())
        .policy("p", "quota = '3 per minute'\npartition = []")
        .with("[[routes]]\npath_regex = '/login(;[^/]*)?'\nupstream = 'api'\npolicies = ['p']")
        .route("/*", "");
    let running = start(&config);
    let spellings = [
        "/login;a=b",
        "/login;",
        "/login;a/",
        "/%6cogin%3bx",
        "/login",
    ];
    let statuses = spellings.map(|target| get(running.public, target, "").status);
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    assert_eq!(get(running.public, "/loginx", "").status, 200);
}

#[test]
fn a_route_that_ignores_case_counts_every_case() {
    let origin = Origin::plain();
    let running = start(&limited(&origin.url(), "case_insensitive = true"));
    let mut failures = Vec::new();
    for target in ["/LOGIN", "/Login/", "/%4cOGIN", "//x/..//lOgIn?X", "/login"] {
        let outcome = send_many(&running, &request(target.as_bytes()));
        if outcome != Limited("").outcome() {
            failures.push(format!("{target}: {outcome:?}"));
        }
        running.clock.advance(secs(120));
    }
    // Beyond ASCII, no two letters are the same: this one is not an `i`.
    let outcome = send_many(&running, &request("/logın".as_bytes()));
    assert_eq!(outcome, Other("").outcome());
    assert_none(&failures);
}

#[test]
fn expressions_and_parameters_see_the_normalised_path() {
    let once = "quota = '1 per minute'";
    let config = quiet("builtin:echo")
        .policy("user", &format!("{once}\npartition = ['path:id']"))
        .policy("file", &format!("{once}\npartition = ['path']"))
        .route("/users/{id}", "policies = ['user']\ncase_insensitive = true")
        .route("/strict/{id}", "policies = ['user']")
        .route("/Docs/{id}", "policies = ['file']\ncase_insensitive = true")
        .route("/plain/{id}", "policies = ['file']")
        .with("[[routes]]\npath_regex = '/files/[a-z]+:[0-9]+'\nupstream = 'api'\npolicies = ['file']");
    let running = start(&config);
    let mut failures = Vec::new();
    for (target, expected) in [
        ("/users/anna", 200),
        ("/users/ann%61", 429),
        ("/users/x/../anna/", 429),
        ("/USERS/ANNA", 429),
        ("/users//Anna?x", 429),
        ("/users/a%3ab", 200),
        ("/users/a:b", 429),
        ("/users/a%253ab", 200),
        ("/strict/a", 200),
        ("/strict/A", 200),
        ("/docs/a", 200),
        ("/DOCS/A", 429),
        ("/plain/a", 200),
        ("/plain/A", 200),
        ("/files/a:1", 200),
        ("/files/%61%3A%31", 429),
        ("/files/./a:1/", 429),
        ("/files/b:1/", 200),
        ("/files/b:1", 429),
        ("/files/b:1?x", 429),
        ("/files/a%253A1", 404),
    ] {
        let status = get(running.public, target, "").status;
        if status != expected {
            failures.push(format!("{target}: {status}, expected {expected}"));
        }
    }
    assert_none(&failures);
}

#[test]
fn huge_paths_are_answered_and_reach_what_they_lead_to() {
    let origin = Origin::plain();
    let config = limited(&origin.url(), "").listener("max_header_bytes = '256KiB'");
    let running = start(&config);
    let segments = 20_000;
    let up = format!("{}{}/login", "/a".repeat(segments), "/.".repeat(10_000));
    let climbs = format!("/{}login", "a/../".repeat(12_000));
    let slashes = format!("{}login", "/".repeat(65_000));
    let escapes = format!("{}/login", "/%2e".repeat(16_000));
    let deep = "/a".repeat(30_000);
    let long = format!("/{}", "a".repeat(70_000));
    let table: [(&str, &str, u16, usize); 6] = [
        (
            "20,000 segments and 10,000 dots",
            &up,
            200,
            2 * segments + "/login".len(),
        ),
        ("12,000 climbs", &climbs, 200, "/login".len()),
        ("65,000 slashes", &slashes, 200, "/login".len()),
        ("16,000 encoded dots", &escapes, 200, "/login".len()),
        ("30,000 segments", &deep, 200, deep.len()),
        ("one beyond a target", &long, 414, 0),
    ];
    for (name, target, status, length) in table {
        let before = origin.requests().len();
        assert_eq!(get(running.public, target, "").status, status, "{name}");
        let lengths: Vec<_> = origin.targets()[before..].iter().map(String::len).collect();
        let expected = if status == 200 { vec![length] } else { vec![] };
        assert_eq!(lengths, expected, "{name}");
    }
    let answer = get(running.public, "/login", "");
    assert_eq!(answer.status, 429, "three of them were /login");
}
