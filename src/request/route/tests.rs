//! Tests of the router, case by case.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::{Case, HeaderMatch, HostPattern, Lookup, PathPattern, Router, Rule, Tie};

fn method(text: &str) -> Method {
    Method::from_bytes(text.as_bytes()).expect("good method")
}

fn plain(path: &str) -> Rule {
    Rule {
        path: PathPattern::parse(path).expect(path),
        host: None,
        methods: Vec::new(),
        headers: Vec::new(),
        case_insensitive: false,
    }
}

fn with_methods(path: &str, methods: &[&str]) -> Rule {
    Rule {
        methods: methods.iter().map(|m| method(m)).collect(),
        ..plain(path)
    }
}

fn with_header(path: &str, value: Option<&str>) -> Rule {
    let asked = HeaderMatch::parse(value.unwrap_or("*")).expect("good value");
    let headers = vec![(HeaderName::from_static("x-a"), asked)];
    Rule {
        headers,
        ..plain(path)
    }
}

fn with_headers(path: &str, headers: &[(&'static str, &str)]) -> Rule {
    let headers = headers.iter().map(|(name, value)| {
        let asked = HeaderMatch::parse(value).expect("good value");
        (HeaderName::from_static(name), asked)
    });
    Rule {
        headers: headers.collect(),
        ..plain(path)
    }
}

fn pair(first: usize, second: usize) -> Tie {
    Tie { first, second }
}

#[test]
fn ties_are_named_and_rules_that_cannot_meet_are_none() {
    let any_case = |path| Rule {
        case_insensitive: true,
        ..plain(path)
    };
    let on = |host, path| Rule {
        host: HostPattern::parse(host).ok(),
        ..plain(path)
    };
    let table: [(&str, [Rule; 2], bool); 14] = [
        ("the same", [plain("/a"), plain("/a/")], true),
        ("parameter names", [plain("/{a}"), plain("/{b}")], true),
        ("escapes", [plain("/a:b"), plain("/a%3ab")], true),
        ("case", [plain("/a"), plain("/A")], false),
        ("case ignored", [plain("/a"), any_case("/A")], true),
        ("rest", [plain("/a"), plain("/a/*")], false),
        (
            "GET and HEAD",
            [with_methods("/a", &["GET"]), with_methods("/a", &["HEAD"])],
            true,
        ),
        (
            "HEAD and GET",
            [with_methods("/a", &["HEAD"]), with_methods("/a", &["GET"])],
            true,
        ),
        (
            "methods",
            [with_methods("/a", &["PUT"]), with_methods("/a", &["POST"])],
            false,
        ),
        (
            "method and all",
            [with_methods("/a", &["PUT"]), plain("/a")],
            false,
        ),
        (
            "values",
            [with_header("/a", Some("1")), with_header("/a", Some("2"))],
            false,
        ),
        (
            "value and any",
            [with_header("/a", Some("1")), with_header("/a", None)],
            true,
        ),
        ("hosts", [on("a.com", "/a"), on("b.com", "/a")], false),
        (
            "host spellings",
            [on("a.com", "/a"), on("A.com.", "/a")],
            true,
        ),
    ];
    for (name, rules, tie) in table {
        let expected = tie.then(|| vec![pair(0, 1)]);
        assert_eq!(Router::new(rules.to_vec()).err(), expected, "{name}");
    }
}

#[test]
fn only_rules_that_differ_in_expressions_for_one_header_alone_do_not_tie() {
    let asking = |methods, headers: &[(&'static str, &str)]| Rule {
        headers: with_headers("/a", headers).headers,
        ..with_methods("/a", methods)
    };
    let of_a = |value| asking(&[], &[("x-a", value)]);
    let of_method = |methods, value| asking(methods, &[("x-a", value)]);
    let both = |a, b| asking(&[], &[("x-a", a), ("x-b", b)]);
    let any_case = |rule| Rule {
        case_insensitive: true,
        ..rule
    };
    for (rules, ties) in [
        ([of_a("re:1.*"), of_a("re:.*1")], false),
        ([of_a("re:1.*"), of_a("re:1.*")], true),
        ([of_a("re:1.*"), of_a("*")], true),
        ([of_a("re:1.*"), of_a("1")], true),
        ([of_a("re:1.*"), of_a("2")], false),
        ([of_a("2"), of_a("re:1.*")], false),
        ([of_a("re:1.*"), asking(&[], &[("x-b", "re:.*1")])], true),
        ([both("re:1.*", "re:1.*"), both("re:.*1", "re:.*1")], true),
        ([both("re:1.*", "2"), both("re:.*1", "2")], false),
        ([both("re:1.*", "2"), both("re:.*1", "*")], true),
        ([of_a("re:1.*"), any_case(of_a("re:.*1"))], true),
        ([any_case(of_a("re:1.*")), any_case(of_a("re:.*1"))], false),
        (
            [
                of_method(&["GET", "PUT"], "re:1.*"),
                of_method(&["PUT", "GET"], "re:.*1"),
            ],
            false,
        ),
        (
            [
                of_method(&["GET"], "re:1.*"),
                of_method(&["GET", "PUT"], "re:.*1"),
            ],
            true,
        ),
    ] {
        let expected = ties.then(|| vec![pair(0, 1)]);
        assert_eq!(Router::new(rules.to_vec()).err(), expected, "{rules:?}");
    }
}

#[test]
fn each_tied_rule_is_named_once_beside_the_first() {
    let three = vec![plain("/a"), plain("/a"), plain("/b"), plain("/a")];
    let ties = [pair(0, 1), pair(0, 3)];
    assert_eq!(Router::new(three).expect_err("ties"), ties);
}

#[test]
fn segments_are_found_whatever_their_length_and_case() {
    let (long, longer) = ("/a-literal-of-more-than-sixteen-bytes", "x".repeat(1_000));
    let found = |case_insensitive: bool, path: &str| {
        let rules = ["/short/{id}", long, "/*"].map(|path| Rule {
            case_insensitive,
            ..plain(path)
        });
        let router = Router::new(rules.into()).expect("no ties");
        match router.find("", &Method::GET, path, &HeaderMap::new()) {
            Lookup::Found(found) => usize::from(found.route),
            other => panic!("{path}: {other:?}"),
        }
    };
    for (path, as_is, in_any_case) in [
        (long.to_owned(), 1, 1),
        (long.to_ascii_uppercase(), 2, 1),
        (format!("/short/{longer}"), 0, 0),
        (format!("/SHORT/{longer}"), 2, 0),
        (format!("/{longer}"), 2, 2),
        (format!("{long}x"), 2, 2),
    ] {
        assert_eq!(found(false, &path), as_is, "{path}");
        assert_eq!(found(true, &path), in_any_case, "{path} in any case");
    }
}

#[test]
fn an_encoded_slash_hides_another_route_unless_that_takes_the_path_as_it_is() {
    let expression = PathPattern::regex("/old/[a-z/]+", Case::Exact).expect("good expression");
    let rules = vec![
        plain("/*"),
        plain("/files/{name}"),
        plain("/files/{name}/meta"),
        plain("/files/top/secret"),
        with_methods("/post/only", &["POST"]),
        Rule {
            path: expression,
            ..plain("/")
        },
        plain("/repos/{id}/*"),
        Rule {
            case_insensitive: true,
            ..plain("/Any/Case")
        },
    ];
    let router = Router::new(rules).expect("no ties");
    for (path, route, hides) in [
        ("/files/a%2Fb", 1, false),
        ("/files/a%2Fb%2Fc", 1, false),
        ("/files/a%2Fmeta", 1, true),
        ("/files/a%5Cmeta", 1, true),
        ("/files/top%2Fsecret", 1, true),
        ("/files/top%2F%2Fsecret%2F", 1, true),
        ("/files%2Fa", 0, true),
        ("/%2Ffiles/a", 0, true),
        ("/files/%2F", 1, false),
        ("/files/top%252Fsecret", 1, false),
        ("/post%2Fonly", 0, false),
        ("/old%2Fa", 0, true),
        ("/repos/a%2Fb/c", 6, false),
        ("/repos%2Fa/c", 0, true),
        ("/any%2Fcase", 0, true),
        ("/a%2Fb", 0, false),
    ] {
        let headers = HeaderMap::new();
        let Lookup::Found(found) = router.find("a", &Method::GET, path, &headers) else {
            panic!("{path} has no route")
        };
        let found_hides = router.hides_another(&found, "a", &Method::GET, path, &headers);
        assert_eq!(
            (usize::from(found.route), found_hides),
            (route, hides),
            "{path}"
        );
    }
}

/// Few rules are tried one by one, and many by an index of the values that they ask for.
#[test]
fn expressions_of_one_header_are_tried_in_the_files_order() {
    let asked = [
        "re:2\\..*",
        "re:2\\.1",
        "re:[0-9.]+",
        "beta",
        "re:b",
        "re:(alpha|gamma)",
    ];
    for count in [0, 40] {
        let mut rules: Vec<Rule> = asked
            .iter()
            .map(|value| with_header("/a", Some(value)))
            .collect();
        rules.extend((0..count).map(|at| with_header("/a", Some(&format!("tenant-{at}")))));
        rules.push(plain("/a"));
        let last = rules.len() - 1;
        let router = Router::new(rules).expect("no ties");
        for (value, expected) in [
            (&b"2.1"[..], 0),
            (b"2.17", 0),
            (b"3.0", 2),
            (b"21", 2),
            (b"beta", 3),
            (b"b", 4),
            (b"gamma", 5),
            (b"gamma2", last),
            (b"2.1, 2.2", 0),
            (b"3.1, 2.2", last),
            (b"\xff", last),
        ] {
            let mut headers = HeaderMap::new();
            headers.append("x-a", HeaderValue::from_bytes(value).expect("a value"));
            let found = router.find("", &Method::GET, "/a", &headers);
            let Lookup::Found(found) = found else {
                panic!("{value:?} has no route")
            };
            assert_eq!(usize::from(found.route), expected, "{value:?}");
        }
    }
}
