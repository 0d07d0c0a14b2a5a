//! Whose quota a request spends: what names a client, and how no client can pretend to be another.

use crate::support::{Answer, Client, Config, get, start};

/// One request: its method, target, host and further field lines.
type Request<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Status of the first request of a partition, and of one too many.
const FIRST: u16 = 200;
const AGAIN: u16 = 429;

fn send(client: &mut Client, (method, target, host, fields): Request) -> Answer {
    client.ask(format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n{fields}\r\n"
    ))
}

/// A file with a policy of one request per hour, so that the second request of a partition is refused.
fn once(partition: &str) -> Config {
    Config::to("builtin:echo").policy(
        "p",
        &format!("quota = '1 per hour'\nalgorithm = 'fixed-window'\npartition = {partition}"),
    )
}

/// Sends the requests one after the other on one connection, and compares their statuses.
#[track_caller]
fn check(config: &Config, requests: &[(Request, u16)]) {
    let running = start(config);
    let mut client = Client::connect(running.public);
    for (request, status) in requests {
        let answer = send(&mut client, *request);
        assert_eq!(answer.status, *status, "{request:?} of {requests:#?}");
    }
}

fn at(target: &str) -> Request<'_> {
    ("GET", target, "a.test", "")
}

#[test]
fn routes_name_partitions() {
    check(
        &once("['route']")
            .route("/one/*", "policies = ['p']")
            .route("/two/*", "policies = ['p']"),
        &[
            (at("/one/a"), FIRST),
            (at("/two/a"), FIRST),
            (at("/one/b"), AGAIN),
        ],
    );
}

#[test]
fn cookies_and_parameters_are_alternatives_and_compounds_like_any_part() {
    let request = |target, fields| ("GET", target, "a.test", fields);
    let config = once("['cookie:sid | query:key | ip']").route("/*", "policies = ['p']");
    check(
        &config,
        &[
            (request("/?key=1", "Cookie: sid=1\r\n"), FIRST),
            (request("/?key=2", "Cookie: sid=1\r\n"), AGAIN),
            // The same text in another part names another client, and an empty value names none.
            (request("/?key=1", ""), FIRST),
            (request("/?key=1", "Cookie: sid=\r\n"), AGAIN),
            (request("/?key=", "Cookie: a=sid\r\n"), FIRST),
            (request("/", ""), AGAIN),
        ],
    );
    let config = once("['cookie:sid', 'query:key']").route("/*", "policies = ['p']");
    check(
        &config,
        &[
            (request("/?key=b", "Cookie: sid=a\r\n"), FIRST),
            (request("/?key=ab", "Cookie: sid=\r\n"), FIRST),
            (request("/?key=a", "Cookie: sid=b\r\n"), FIRST),
            (request("/?key=b&x=1", "Cookie: x=1; sid=a\r\n"), AGAIN),
        ],
    );
}

#[test]
fn an_unidentified_client_is_told_how_to_identify_itself() {
    let policy = |partition: &str| {
        format!("quota = '9 per minute'\npartition = {partition}\non_missing = 'refuse'")
    };
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls/issuer.pem");
    let config = Config::to("builtin:echo")
        .with(&format!("[jwt]\nkeys = ['{key}']"))
        .policy("key", &policy("['header:x-api-key']"))
        .policy("session", &policy("['ip', 'cookie:session']"))
        .policy("basic", &policy("['header:authorization']"))
        .policy("token", &policy("['jwt:sub']"))
        .policy("either", &policy("['header:x-api-key | jwt:sub']"))
        .policy("both", &policy("['header:x-tenant', 'jwt:sub']"))
        .route("/key", "policies = ['key']")
        .route("/session", "policies = ['session']")
        .route("/basic", "policies = ['basic']")
        .route("/token", "policies = ['token']")
        .route("/either", "policies = ['either']")
        .route("/both", "policies = ['both']");
    let running = start(&config);
    let api_key = "ApiKey realm=\"tollgate\"";
    for (target, fields, challenge) in [
        ("/key", "", api_key),
        ("/session", "", api_key),
        ("/basic", "", "Bearer"),
        ("/token", "Authorization: Bearer none\r\n", "Bearer"),
        ("/either", "", "Bearer"),
        ("/both", "", api_key),
        ("/both", "X-Tenant: a\r\n", "Bearer"),
    ] {
        let answer = get(running.public, target, fields);
        assert_eq!(answer.status, 401, "{target}");
        assert_eq!(
            answer.field("www-authenticate"),
            Some(challenge),
            "{target}"
        );
    }
}

#[test]
fn an_unidentified_client_spends_nothing_of_other_policies() {
    let config = Config::to("builtin:echo")
        .policy("all", "quota = '10 per minute'\npartition = []")
        .policy(
            "keyed",
            "quota = '10 per minute'\npartition = ['header:x-api-key']\non_missing = 'refuse'",
        )
        .route("/*", "policies = ['all', 'keyed']");
    let running = start(&config);
    for _ in 0..3 {
        let answer = get(running.public, "/", "");
        assert_eq!(answer.status, 401);
        assert_eq!(answer.problem()["policy"], "keyed");
    }
    let answer = get(running.public, "/", "X-Api-Key: one\r\n");
    assert_eq!(crate::support::ratelimit::remaining(&answer, "all"), 9);
}
