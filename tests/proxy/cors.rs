//! `cors_origins`: pages of other origins can read the gateway's own answers.

use crate::support::gateway::start;
use crate::support::{Answer, Client, Config, Origin};

const APP: &str = "https://app.example.com";
const ALLOW: &str = "access-control-allow-origin";
const EXPOSE: &str = "access-control-expose-headers";

/// Returns the CORS fields of an answer: the origin that may read it, the fields it may read, and `Vary`.
fn cors(answer: &Answer) -> [Option<&str>; 3] {
    assert_eq!(answer.field("access-control-allow-credentials"), None);
    [ALLOW, EXPOSE, "vary"].map(|name| answer.field(name))
}

fn asked(client: &mut Client, target: &str, origin: &str) -> Answer {
    let fields = match origin {
        "" => String::new(),
        origin => format!("Origin: {origin}\r\n"),
    };
    client.get(target, &fields)
}

#[test]
fn pages_of_listed_origins_can_read_refusals() {
    let config = Config::to("builtin:status/204")
        .policy("all", "quota = '3 per hour'\npartition = ['path']")
        .policy(
            "keyed",
            "quota = '3 per hour'\npartition = ['header:x-api-key']\non_missing = 'refuse'",
        )
        .route(
            "/list",
            "policies = ['all']\ncors_origins = ['https://a.test', 'https://app.example.com']",
        )
        .route("/any", "policies = ['all']\ncors_origins = '*'")
        .route(
            "/keyed",
            "policies = ['keyed']\ncors_origins = ['https://app.example.com']",
        )
        .route("/none", "policies = ['all']");
    let running = start(&config);
    let mut client = Client::connect(running.public);
    let exposed = Some("Retry-After, RateLimit, RateLimit-Policy");
    let (app, vary) = (
        [Some(APP), exposed, Some("Origin")],
        [None, None, Some("Origin")],
    );
    let any = [Some("*"), exposed, Some("Origin")];
    for (target, origin, statuses, expected) in [
        ("/list", APP, [204, 204, 204, 429], app),
        ("/list", "https://another.test", [429; 4], vary),
        ("/list", "https://app.example.com:8443", [429; 4], vary),
        ("/list", "null", [429; 4], vary),
        (
            "/list",
            "https://app.example.com\r\nOrigin: https://a.test",
            [429; 4],
            vary,
        ),
        ("/list", "", [429; 4], vary),
        ("/any", APP, [204, 204, 204, 429], any),
        ("/any", "null", [429; 4], any),
        ("/any", "", [429; 4], any),
        ("/keyed", APP, [401; 4], app),
        ("/none", APP, [204, 204, 204, 429], [None; 3]),
        ("/nowhere", APP, [404; 4], [None; 3]),
    ] {
        for status in statuses {
            let answer = asked(&mut client, target, origin);
            assert_eq!(answer.status, status, "{target} {origin}");
            assert_eq!(cors(&answer), expected, "{target} {origin} {status}");
        }
    }
}

#[test]
fn the_fields_of_each_style_are_exposed() {
    for (style, exposed) in [
        ("ietf", "Retry-After, RateLimit, RateLimit-Policy"),
        (
            "x",
            "Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
        ),
        (
            "both",
            "Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
        ),
        ("off", "Retry-After"),
    ] {
        let config = Config::to("builtin:status/204")
            .top(&format!("ratelimit_headers = '{style}'"))
            .policy("one", "quota = '1 per hour'")
            .route("/*", "policies = ['one']\ncors_origins = '*'");
        let running = start(&config);
        let mut client = Client::connect(running.public);
        for status in [204, 429] {
            let answer = asked(&mut client, "/", APP);
            assert_eq!(answer.status, status);
            let exposing = answer.head.fields(EXPOSE);
            assert_eq!(exposing, [exposed], "{style} {status}");
        }
    }
}

#[test]
fn what_a_route_sets_wins() {
    let lines = "cors_origins = '*'\n[routes.response_headers]\n\
                 set = { access-control-allow-origin = 'https://a.test', vary = 'x-version' }";
    let running = start(&Config::to("builtin:status/204").route("/*", lines));
    let answer = asked(&mut Client::connect(running.public), "/", APP);
    assert_eq!(answer.head.fields(ALLOW), ["https://a.test"]);
    assert_eq!(answer.head.fields("vary"), ["x-version"]);
}

#[test]
fn an_origins_own_answers_stay_as_they_are() {
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .policy("one", "quota = '1 per hour'")
        .route(
            "/*",
            "policies = ['one']\ncors_origins = ['https://app.example.com']",
        );
    let running = start(&config);
    let mut client = Client::connect(running.public);
    let answer = asked(&mut client, "/", APP);
    assert_eq!((answer.status, cors(&answer)), (200, [None; 3]));
    let refused = asked(&mut client, "/", APP);
    assert_eq!((refused.status, refused.field(ALLOW)), (429, Some(APP)));
}
