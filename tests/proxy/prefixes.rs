//! `strip_prefix`: how origins are told of it, and where it is put back into their answers.

use std::net::SocketAddr;
use std::thread;

use http::{Method, Response};
use tokio::net::TcpListener;

use crate::support::http2::{Http2, request};
use crate::support::{After, Answer, Client, Config, Origin, Running, get, start};

const FIELD: &str = "x-forwarded-prefix";

/// Forged prefixes, in every spelling that some origin takes for the field.
const LIES: &str = "X-Forwarded-Prefix: /evil\r\nx-forwarded-prefix: /evil2\r\nX_Forwarded_Prefix: /evil\r\n\
                    X-Forwarded_Prefix: /evil\r\nx_forwarded-PREFIX: /evil\r\n";

fn config(endpoint: &str) -> Config {
    Config::to(endpoint)
        .route("/api/*", "strip_prefix = '/api'")
        .route("/é/v:1/*", "strip_prefix = '/é/v:1/'\ncase_insensitive = true")
        .route(
            "/said/*",
            "strip_prefix = '/said'\n[routes.request_headers]\nset = { x-forwarded-prefix = '/public/said' }",
        )
        .route(
            "/silent/*",
            "strip_prefix = '/silent'\n[routes.request_headers]\nremove = ['x-forwarded-prefix']",
        )
        .route("/rewritten/*", "rewrite = '/*'")
        .route("/*", "")
}

#[test]
fn origins_are_told_of_the_prefix_by_the_gateway_alone() {
    for listener in [
        "",
        "trusted_proxies = ['127.0.0.0/8']",
        "trusted_proxies = ['127.0.0.0/8']\nclient_address = 'forwarded'",
        "trusted_proxies = ['127.0.0.0/8']\nclient_address = 'header:x-real-ip'",
    ] {
        let origin = Origin::plain();
        let running = start(&config(&origin.url()).listener(listener));
        for (target, expected) in [
            ("/api/x", &["/api"][..]),
            ("/api", &["/api"]),
            ("/%61pi//x", &["/api"]),
            ("/%C3%A9/V%3a1/x", &["/%C3%A9/v:1"]),
            ("/said/x", &["/public/said"]),
            ("/silent/x", &[]),
            ("/rewritten/x", &[]),
            ("/other", &[]),
        ] {
            for fields in [
                "",
                LIES,
                &format!("{LIES}Connection: X-Forwarded-Prefix\r\n"),
                &format!("Connection: close, x-forwarded-prefix, X_Forwarded_Prefix\r\n{LIES}"),
            ] {
                let before = origin.requests().len();
                let answer = get(running.public, target, fields);
                assert_eq!(answer.status, 200, "{listener} {target} {fields}");
                let head = &origin.requests()[before].head;
                assert_eq!(head.fields(FIELD), expected, "{listener} {target} {fields}");
                let names = head.fields.iter().map(|(name, _)| name.replace('_', "-"));
                let count = names
                    .filter(|name| name.eq_ignore_ascii_case(FIELD))
                    .count();
                assert_eq!(count, expected.len(), "{listener} {target} {fields}");
            }
        }
    }
}

#[test]
fn trailers_cannot_say_what_was_stripped() {
    let origin = Origin::plain();
    let running = start(&config(&origin.url()));
    let answer = Client::connect(running.public).ask(
        "POST /api/x HTTP/1.1\r\nHost: a.test\r\nTrailer: x-forwarded-prefix, x_forwarded_prefix, x-sum\r\n\
         Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Forwarded-Prefix: /evil\r\n\
         X_Forwarded_Prefix: /evil\r\nx-sum: 1\r\n\r\n",
    );
    assert_eq!(answer.status, 200);
    let seen = origin.only_request();
    assert_eq!(seen.head.fields(FIELD), ["/api"]);
    let trailers: Vec<_> = seen
        .trailers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(trailers, ["x-sum"]);
}

#[test]
fn no_route_or_partition_goes_by_what_a_client_says_was_stripped() {
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .policy(
            "p",
            "quota = '1 per hour'\npartition = ['header:x-forwarded-prefix']",
        )
        .route("/*", "policies = ['p']")
        .route("/x", "headers = { x-forwarded-prefix = '*' }");
    let running = start(&config);
    let ask = |value: &str| {
        let fields = format!("X-Forwarded-Prefix: {value}\r\n");
        get(running.public, "/x", &fields).status
    };
    assert_eq!(["/a", "/b"].map(ask), [200, 429], "both lack the part");
}

/// An origin that answers with these `Location` fields.
fn redirecting(lines: &[&str]) -> Origin {
    let lines = lines.iter().map(|line| format!("Location: {line}\r\n"));
    let lines = lines.collect::<Vec<_>>().concat();
    Origin::answering(format!(
        "HTTP/1.1 302 Found\r\n{lines}Content-Location: /x\r\nContent-Length: 0\r\n\r\n"
    ))
}

fn locations(answer: &Answer) -> Vec<&str> {
    answer.head.fields("location")
}

#[test]
fn a_location_below_the_root_of_an_origin_gets_its_prefix_back() {
    for (said, expected) in [
        ("/login?next=/x", "/api/login?next=/x"),
        ("https://A.test:443/login", "https://A.test:443/api/login"),
        ("https://other.test/login", "https://other.test/login"),
    ] {
        let origin = redirecting(&[said]);
        let running = start(&config(&origin.url()));
        let answer = get(running.public, "/api/x", "");
        assert_eq!(locations(&answer), [expected], "{said}");
        assert_eq!(answer.field("content-location"), Some("/x"));
        for unstripped in ["/other", "/rewritten/x"] {
            let answer = get(running.public, unstripped, "");
            assert_eq!(locations(&answer), [said], "{said} of {unstripped}");
        }
    }
}

#[test]
fn every_line_of_location_gets_it() {
    let origin = redirecting(&["/a", "https://other.test/", "/api/b"]);
    let running = start(&config(&origin.url()));
    let answer = get(running.public, "/api/x", "");
    assert_eq!(
        locations(&answer),
        ["/api/a", "https://other.test/", "/api/b"]
    );
}

/// Whichever Host the origin gets, its own address must not reach clients.
#[test]
fn a_location_at_the_endpoint_becomes_a_path() {
    for preserve_host in [true, false] {
        let origin = Origin::scripted(|exchange| {
            let own = exchange.head.field("x-own").unwrap_or_default().to_owned();
            exchange.read_body()?;
            exchange.wire.write(
                format!("HTTP/1.1 201 Created\r\nLocation: {own}\r\nContent-Length: 0\r\n\r\n")
                    .as_bytes(),
            )?;
            Ok(After::Keep)
        });
        let lines = format!("strip_prefix = '/api'\npreserve_host = {preserve_host}");
        let running = start(&Config::to(origin.url()).route("/api/*", &lines));
        let own = origin.address;
        for (said, expected) in [
            (format!("http://{own}/x?y#z"), "/api/x?y#z".to_owned()),
            (
                format!("http://{own}@evil.test/"),
                format!("http://{own}@evil.test/"),
            ),
            (
                "http://a.test/x".to_owned(),
                "http://a.test/api/x".to_owned(),
            ),
        ] {
            let answer = get(running.public, "/api/x", &format!("X-Own: {said}\r\n"));
            assert_eq!(locations(&answer), [&*expected], "{said} {preserve_host}");
        }
    }
}

#[test]
fn what_the_operator_says_of_location_wins() {
    let origin = redirecting(&["/a"]);
    let running = start(&Config::to(origin.url()).route(
        "/api/*",
        "strip_prefix = '/api'\n[routes.response_headers]\nset = { location = '/said' }",
    ));
    let answer = get(running.public, "/api/x", "");
    assert_eq!(locations(&answer), ["/said"]);
}

/// An origin over HTTP/2 that redirects, and that shows the prefix it was told of.
fn http2_origin() -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    thread::spawn(move || {
        runtime.block_on(async {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut connection) = h2::server::handshake(stream).await else {
                    continue;
                };
                while let Some(Ok((request, mut answer))) = connection.accept().await {
                    let mut response = Response::builder().status(302).header("location", "/login");
                    for told in request.headers().get_all(FIELD) {
                        response = response.header("x-told", told);
                    }
                    let response = response.body(()).expect("a response");
                    // The other end may have left.
                    let _ = answer.send_response(response, true);
                }
            }
        });
    });
    address
}

#[test]
fn prefixes_are_told_and_put_back_over_http2() {
    let running: Running = start(&config(&format!("h2c://{}", http2_origin())));
    let mut client = Http2::connect(running.public, 65_535);
    let mut ask = |target: &str| {
        let mut request = request(Method::GET, target);
        for name in [FIELD, "x_forwarded_prefix"] {
            let evil = http::HeaderValue::from_static("/evil");
            request.headers_mut().append(name, evil);
        }
        let head = client.begin(request, true).head().expect("an answer");
        let told: Vec<_> = head.headers().get_all("x-told").iter().cloned().collect();
        (told, head.headers()["location"].clone())
    };
    let (told, location) = ask("/api/x");
    assert_eq!(
        (told, location),
        (
            vec!["/api".parse().expect("a value")],
            "/api/login".parse().expect("a value")
        )
    );
    let (told, location) = ask("/other");
    assert_eq!(
        (told, location),
        (vec![], "/login".parse().expect("a value"))
    );
}
