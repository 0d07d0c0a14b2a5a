//! Ids of requests: where they go, and whose ids are kept; and the traces that requests are part of.

use crate::support::{Client, Config, Origin, Process, get, start};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn is_new(id: &str) -> bool {
    id.len() == 32
        && id
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[test]
fn every_request_has_an_id_of_its_own_upstream_and_back() {
    let origin =
        Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Request-Id: theirs\r\n\r\n");
    let running = start(&Config::to(origin.url()).with_ids().route("/*", ""));
    let mut client = Client::connect(running.public);
    let lies = "X-Request-Id: 7f\r\nX_Request_Id: 7f\r\nConnection: x-request-id\r\n";
    let back = [client.get("/", lies), client.get("/", "")];
    let back = back
        .each_ref()
        .map(|answer| answer.field("x-request-id").expect("an id"));
    assert!(
        is_new(back[0]) && is_new(back[1]) && back[0] != back[1],
        "{back:?}"
    );
    for (request, id) in origin.requests().iter().zip(back) {
        let ids: Vec<_> = (request.head.fields.iter())
            .filter(|(name, _)| name.to_ascii_lowercase().replace('_', "-") == "x-request-id")
            .collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
        assert_eq!(ids[0].1, id);
    }
}

#[test]
fn refusals_have_an_id_too_and_a_trusted_peers_is_kept() {
    let config = Config::to("builtin:echo").with_ids();
    let config = config
        .policy("p", "quota = '1 per hour'")
        .route("/one", "policies = ['p']");
    let running = start(&config.clone().listener("trusted_proxies = ['127.0.0.1']"));
    for (target, status) in [
        ("/one", 200),
        ("/one", 429),
        ("/none", 404),
        ("/a%00b", 400),
    ] {
        let given = get(running.public, target, "X-Request-Id: 7f-1\r\n");
        assert_eq!(
            (given.status, given.field("x-request-id")),
            (status, Some("7f-1"))
        );
        let made = get(running.public, target, "X-Request-Id: 7f 1\r\n");
        assert!(
            is_new(made.field("x-request-id").expect("an id")),
            "{target}"
        );
    }
}

#[test]
fn the_log_has_the_id_and_the_trace() {
    let config = Config::to("builtin:echo").with_ids().route("/*", "");
    let process = Process::start(&config.clone().listener("trusted_proxies = ['127.0.0.1']"));
    let fields = format!("X-Request-Id: 7f-1\r\nTraceparent: 00-{TRACE}-b7ad6b7169203331-01\r\n");
    let answer = get(process.public, "/", &fields);
    assert!(
        answer
            .text()
            .contains(&format!("00-{TRACE}-b7ad6b7169203331-01"))
    );
    let line = process.wait_for_line(&[
        "\"request_id\":\"7f-1\"",
        &format!("\"trace_id\":\"{TRACE}\""),
    ]);
    assert!(line.contains("\"status\":200"), "{line}");
}

#[test]
fn ids_have_another_name_or_none_if_the_file_says_so() {
    let running = start(&Config::to("builtin:echo").route("/*", ""));
    let answer = get(running.public, "/", "X-Request-Id: 7f\r\n");
    assert_eq!(answer.field("x-request-id"), None);
    assert!(answer.text().contains("7f"), "it passes");
    let named = Config::to("builtin:echo")
        .with_ids()
        .top("request_id = 'X-Correlation-Id'");
    let running = start(&named.route("/*", ""));
    let answer = get(running.public, "/", "");
    assert!(is_new(answer.field("x-correlation-id").expect("an id")));
    assert_eq!(answer.field("x-request-id"), None);
}
