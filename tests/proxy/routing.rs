//! Which route a request takes. `threats/paths` shows that no spelling leads to another route.

use crate::support::ratelimit::{remaining, state};
use crate::support::{Answer, Client, Config, Origin, get, start};

/// A route's name and the lines of its table.
type Route<'a> = (&'a str, &'a str);

/// Returns a file in which each route has a policy of its own name, by which answers show the route.
fn named(routes: &[Route]) -> Config {
    let mut config = Config::to("builtin:echo");
    for (name, lines) in routes {
        config = config
            .policy(name, "quota = '1000 per minute'\npartition = []")
            .with(&format!(
                "[[routes]]\nupstream = 'api'\npolicies = ['{name}']\n{lines}"
            ));
    }
    config
}

/// Returns the name of the route that an answer came by, or its status if there was none.
fn taken(answer: &Answer) -> String {
    let items = state(answer);
    match items.first() {
        Some((name, _)) => name.clone(),
        None => answer.status.to_string(),
    }
}

/// Sends each request and compares the routes taken, with the routes in the file's order and in reverse.
#[track_caller]
fn check(routes: &[Route], requests: &[(&str, &str)]) {
    let mut reversed = routes.to_vec();
    reversed.reverse();
    for routes in [routes, &reversed] {
        let running = start(&named(routes));
        for (request, expected) in requests {
            let (line, fields) = request
                .split_once('\n')
                .unwrap_or((request, "Host: a.test"));
            let fields = fields.replace('\n', "\r\n");
            let mut client = Client::connect(running.public);
            client.send(format!("{line} HTTP/1.1\r\n{fields}\r\n\r\n"));
            let answer = if line.starts_with("HEAD") {
                client.answer_to_head()
            } else {
                client.answer()
            };
            assert_eq!(taken(&answer), *expected, "{request}");
        }
    }
}

#[test]
fn the_most_specific_path_wins() {
    check(
        &[
            ("rest", "path = '/*'"),
            ("v1", "path = '/v1/*'"),
            ("regex", "path_regex = '^/[a-z]+[0-9]$'"),
            ("param", "path = '/v1/{id}'"),
            ("literal", "path = '/v1/product'"),
            ("deep", "path = '/v1/{id}/parts'"),
            ("deep-literal", "path = '/v1/product/{part}'"),
        ],
        &[
            ("GET /", "rest"),
            ("GET /v2/product", "rest"),
            ("GET /abc1", "regex"),
            ("GET /abc", "rest"),
            ("GET /v1/product", "literal"),
            ("GET /v1/product/", "literal"),
            ("GET /v1/product?x=1", "literal"),
            ("GET /v1/products", "param"),
            ("GET /v1/Product", "param"),
            ("GET /v1/a/b/c", "v1"),
            ("GET /v1/7/parts", "deep"),
            ("GET /v1/product/parts", "deep-literal"),
            ("GET /v1/product/a/b", "v1"),
        ],
    );
}

#[test]
fn path_patterns_are_tried_in_the_order_of_the_file() {
    let running = start(&named(&[
        ("first", "path_regex = '^/a[0-9]+$'"),
        ("second", "path_regex = '^/a.*$'"),
        ("third", "path_regex = '^/ab?$'"),
    ]));
    for (target, expected) in [("/a1", "first"), ("/a", "second"), ("/b", "404")] {
        assert_eq!(
            taken(&get(running.public, target, "")),
            expected,
            "{target}"
        );
    }
}

#[test]
fn an_exact_host_wins_then_the_longest_wildcard_then_none() {
    check(
        &[
            ("any", "path = '/*'"),
            ("wide", "path = '/*'\nhost = '*.test'"),
            ("long", "path = '/*'\nhost = '*.shop.test'"),
            ("exact", "path = '/*'\nhost = 'eu.shop.test'"),
            ("specific", "path = '/x'"),
        ],
        &[
            ("GET /\nHost: eu.shop.test", "exact"),
            ("GET /\nHost: EU.Shop.TEST", "exact"),
            ("GET /\nHost: eu.shop.test:8080", "exact"),
            ("GET /\nHost: us.shop.test", "long"),
            ("GET /\nHost: shop.test", "wide"),
            ("GET /\nHost: test", "any"),
            ("GET /\nHost: nottest", "any"),
            ("GET /\nHost: example.com", "any"),
            // The host is compared before the path.
            ("GET /x\nHost: eu.shop.test", "exact"),
            ("GET /x\nHost: example.com", "specific"),
            ("GET http://eu.shop.test/\nHost: example.com", "exact"),
        ],
    );
}

#[test]
fn methods_and_headers_narrow_a_route_and_the_next_one_is_tried() {
    check(
        &[
            ("any", "path = '/a'"),
            ("get", "path = '/a'\nmethods = ['GET']"),
            ("write", "path = '/a'\nmethods = ['POST', 'PUT']"),
            (
                "beta",
                "path = '/a'\nmethods = ['GET']\nheaders = { x-beta = '1' }",
            ),
            (
                "beta-user",
                "path = '/a'\nmethods = ['GET']\nheaders = { x-beta = '1', x-user = '*' }",
            ),
            ("only-post", "path = '/b'\nmethods = ['POST']"),
            ("b-any", "path = '/{x}'"),
        ],
        &[
            ("GET /a", "get"),
            ("HEAD /a", "get"),
            ("PUT /a", "write"),
            ("DELETE /a", "any"),
            ("GET /a\nHost: a.test\nX-Beta: 1", "beta"),
            ("GET /a\nHost: a.test\nX-Beta: 2", "get"),
            ("GET /a\nHost: a.test\nX-Beta: 1\nX-User: u", "beta-user"),
            ("POST /a\nHost: a.test\nX-Beta: 1\nX-User: u", "write"),
            ("POST /b", "only-post"),
            ("GET /b", "b-any"),
        ],
    );
}

#[test]
fn what_no_route_matches_is_a_404() {
    check(
        &[
            ("exact", "path = '/v1/product'"),
            ("post", "path = '/only'\nmethods = ['POST']"),
            ("hosted", "path = '/*'\nhost = 'shop.test'"),
        ],
        &[
            ("GET /", "404"),
            ("GET /v1", "404"),
            ("GET /v1/product/x", "404"),
            ("GET /v1/PRODUCT", "404"),
            ("GET /only", "404"),
            ("GET /\nHost: shop.test", "hosted"),
        ],
    );
}

#[test]
fn a_rewritten_path_is_normalised_and_keeps_its_query() {
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .route("/v1/users/{id}/*", "rewrite = '/users/{id}/files/*'")
        .route("/x/{id}", "rewrite = '/y/{id}'")
        .route("/z/{id}", "rewrite = '/y/{id}/'")
        .route("/app/*", "rewrite = '/index.html'")
        .route("/raw/{id}/*", "rewrite = '/{id}/*'\nencoded_slash = 'keep'")
        .route("/all/*", "rewrite = '/*'")
        .route("/sw/{a}/{b}", "rewrite = '/{b}/{a}/{b}'")
        .route("/root/{id}", "rewrite = '/'")
        .route(
            "/e/{id}/*",
            "rewrite = '/é/c%3ad/{id}/*'\nencoded_slash = 'keep'",
        );
    let running = start(&config);
    let targets = [
        (
            "/v1/users/7/a/b?c=/v1/../d",
            "/users/7/files/a/b?c=/v1/../d",
        ),
        ("/v1/users/7", "/users/7/files"),
        ("/v1/users/7/", "/users/7/files/"),
        ("/v1/users/7/a/", "/users/7/files/a/"),
        ("//v1/./users/%37/%2e%2e/8//a/../b", "/users/8/files/b"),
        ("/v1/users/%c3%a9/a%20b;c", "/users/%C3%A9/files/a%20b;c"),
        ("/v1/users/.../%252e%252e", "/users/.../files/%252e%252e"),
        ("/x/7", "/y/7"),
        ("/x/7/", "/y/7"),
        ("/z/7", "/y/7/"),
        ("/app/", "/index.html"),
        ("/app/a/b/?c", "/index.html?c"),
        ("/raw/a%2fb/c%5cd", "/a%2Fb/c%5Cd"),
        ("/all", "/"),
        ("/all/?", "/?"),
        ("http://a.test/all/./b#f", "/b"),
        ("http://a.test/x/./7#f", "/y/7"),
        ("/sw/x/y", "/y/x/y"),
        ("/root/7/", "/"),
        ("/e/%3A/%2f/x", "/%C3%A9/c%3Ad/%3A/%2F/x"),
    ];
    let mut client = Client::connect(running.public);
    for (target, _) in targets {
        assert_eq!(client.get(target, "").status, 200, "{target}");
    }
    assert_eq!(origin.targets(), targets.map(|(_, forwarded)| forwarded));
    let before = origin.targets().len();
    for target in [
        "/v1/users/..;/a",
        "/v1/users/7/..%2fa",
        "/raw/a%2f../b",
        "/v1/users/7/a%2fb",
    ] {
        assert_eq!(get(running.public, target, "").status, 400, "{target}");
    }
    assert_eq!(origin.targets().len(), before);
}

#[test]
fn a_target_that_a_rewrite_makes_too_long_is_refused_and_spends_nothing() {
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .listener("max_header_bytes = '128KiB'")
        .policy("p", "quota = '10 per minute'\npartition = []")
        .route("/a/*", "policies = ['p']\nrewrite = '/much-longer/*'");
    let running = start(&config);
    let target = |bytes: usize| format!("/a/b?{}", "c".repeat(bytes - "/a/b?".len()));
    let grown = "/much-longer".len() - "/a".len();
    let too_long = get(running.public, &target(TARGET_BYTES_MAX - grown + 1), "");
    assert_eq!(too_long.status, 400);
    let fits = get(running.public, &target(TARGET_BYTES_MAX - grown), "");
    assert_eq!((fits.status, remaining(&fits, "p")), (200, 9));
}

/// Most bytes of a path together with its query.
const TARGET_BYTES_MAX: usize = 65_534;

/// The first route in the file that matches wins, even if the reverse order would give another one.
#[test]
fn expressions_of_one_header_are_tried_in_the_files_order() {
    let two = "path = '/a'\nheaders = { x-api-version = 're:2\\.\\d+' }";
    let any_number = "path = '/a'\nheaders = { x-api-version = 're:[\\d.]+' }";
    let beta = "path = '/a'\nheaders = { x-api-version = 'beta' }";
    let none = "path = '/a'";
    let ordered = [
        ("two", two),
        ("number", any_number),
        ("beta", beta),
        ("none", none),
    ];
    let reversed = [
        ("none", none),
        ("beta", beta),
        ("number", any_number),
        ("two", two),
    ];
    for (routes, of_two) in [(ordered, "two"), (reversed, "number")] {
        let running = start(&named(&routes));
        for (fields, expected) in [
            ("X-Api-Version: 2.1\r\n", of_two),
            ("x-api-version:   2.17  \r\n", of_two),
            ("X-Api-Version: 3\r\n", "number"),
            ("X-Api-Version: 12.1\r\n", "number"),
            ("X-Api-Version: beta\r\n", "beta"),
            ("X-Api-Version: beta2\r\n", "none"),
            ("X-Api-Version: v2.1\r\n", "none"),
            ("X-Api-Version: 2.1 \t2.1\r\n", "none"),
            ("X-Api-Version:\r\n", "none"),
            ("", "none"),
            // Several lines of a field are joined before they are matched, as for plain values.
            ("X-Api-Version: 2.1\r\nX-Api-Version: 2.1\r\n", "none"),
            ("X-Api-Version: 2.1\r\nX_Api_Version: 3\r\n", of_two),
            ("X_Api_Version: 2.1\r\n", "none"),
        ] {
            let answer = get(running.public, "/a", fields);
            assert_eq!(taken(&answer), expected, "{fields}");
        }
    }
}

/// An origin may read `_` as `-`, or the other way round, so it must not see a value that the route did not.
#[test]
fn what_reads_like_a_routes_header_does_not_reach_the_origin() {
    for (routed, sent, others) in [
        ("x-tier", "X-Tier", ["X_Tier", "x_tier"]),
        ("x-the-tier", "X-The-Tier", ["X_The_Tier", "X-The_Tier"]),
        ("x_tier", "X_Tier", ["X-Tier", "x-tier"]),
        ("-tier", "-Tier", ["_Tier", "_tier"]),
    ] {
        let running = start(&named(&[
            (
                "asked",
                &format!("path = '/a'\nheaders = {{ '{routed}' = 'free' }}"),
            ),
            ("none", "path = '/*'"),
        ]));
        for other in others {
            for (fields, expected) in [
                (format!("{sent}: free\r\n{other}: gold\r\n"), "asked"),
                (format!("{other}: gold\r\n{sent}: free\r\n"), "asked"),
                (format!("{other}: free\r\n"), "none"),
                (format!("{other}: gold\r\nX-Top: 1\r\nx_top: 2\r\n"), "none"),
            ] {
                let answer = get(running.public, "/a", &fields);
                assert_eq!(taken(&answer), expected, "{fields}");
                let seen = answer.text().to_ascii_lowercase();
                let other = format!("\"{}\":", other.to_ascii_lowercase());
                assert!(!seen.contains(&other), "{fields}: {seen}");
                assert_eq!(seen.contains("free"), expected == "asked", "{seen}");
            }
        }
    }
}
