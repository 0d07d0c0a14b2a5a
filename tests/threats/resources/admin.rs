//! The admin port: no header and no loop reaches it through the gateway, and it stays reachable directly.

use std::net::SocketAddr;

use crate::support::process::free_address;
use crate::support::{Client, Config, Metered, Origin, get, start};

#[test]
fn nothing_that_a_client_sends_reaches_the_admin_port() {
    let origin = Origin::plain();
    let config = Config::to(origin.url()).admin("127.0.0.1:0");
    // Only `/api` has a route, so any other answer is the gateway's own.
    let running = start(&config.route("/api/*", ""));
    let admin = running.admin();
    let hosts = [
        admin.to_string(),
        "127.0.0.1:8090".into(),
        "localhost".into(),
        "a.test".into(),
    ];
    let fields = [
        "",
        "X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n",
        "X-Forwarded-Host: 127.0.0.1:8090\r\nX-Original-URL: /metrics\r\nX-Rewrite-URL: /metrics\r\n",
    ];
    let mut reached = Vec::new();
    for path in [
        "/metrics",
        "/livez",
        "/readyz",
        "/admin",
        "/reload",
        "/api/../metrics",
    ] {
        for host in &hosts {
            for target in [path.to_owned(), format!("http://{host}{path}")] {
                for fields in fields {
                    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
                    let answer = Client::connect(running.public).ask(&request);
                    if answer.status != 404 || answer.problem()["status"] != 404 {
                        reached.push(request);
                    }
                }
            }
        }
    }
    assert_eq!(reached, Vec::<String>::new());
    assert_eq!(origin.targets(), Vec::<String>::new());
}

/// A file for a gateway at `address`; it stops soon, because its upstream is a gateway, too, for which it would wait.
fn gateway(address: SocketAddr, upstream: SocketAddr) -> Config {
    Config::to(format!("http://{upstream}"))
        .top("shutdown_grace = '1s'")
        .address(&address.to_string())
        .admin("127.0.0.1:0")
        .route("/*", "")
}

#[test]
fn a_gateway_that_is_its_own_upstream_is_a_508() {
    let address = free_address();
    let running = start(&gateway(address, address));
    assert_eq!(get(running.public, "/", "").status, 508);
    // Not even a client that knows of CDN-Loop can have it removed.
    let names_it = "Connection: cdn-loop\r\nCDN-Loop: x\r\n";
    assert_eq!(get(running.public, "/", names_it).status, 508);
}

/// Because a service may send requests through the same gateway that its own requests came through.
#[test]
fn up_to_ten_passes_are_no_circle_and_via_is_left_alone() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).route("/*", ""));
    let passes = |count: usize| format!("CDN-Loop: {}\r\n", ["tollgate"].repeat(count).join(", "));
    let nine = format!("{}Via: 1.1 other\r\n", passes(9));
    assert_eq!(get(running.public, "/", &nine).status, 200);
    let head = origin.only_request().head;
    assert_eq!(head.listed("cdn-loop").len(), 10);
    assert_eq!(head.fields("via"), ["1.1 other"]);
    assert_eq!(get(running.public, "/", &passes(10)).status, 508);
}

#[test]
fn two_gateways_in_a_circle_are_a_508() {
    let (first, second) = (free_address(), free_address());
    let [first, second] = [
        start(&gateway(first, second)),
        start(&gateway(second, first)),
    ];
    assert_eq!(get(first.public, "/", "").status, 508);
    let asked: u64 = [&first, &second]
        .map(|value| value.metric("tollgate_upstream_connections_opened_total"))
        .iter()
        .sum();
    assert_eq!(asked, 10, "five times around");
}

#[test]
fn an_upstream_that_is_the_admin_port_is_a_508() {
    let admin = free_address();
    let config = gateway(free_address(), admin).admin(&admin.to_string());
    let running = start(&config);
    for target in ["/metrics", "/livez", "/", "/api/overview"] {
        assert_eq!(get(running.public, target, "").status, 508, "{target}");
        let direct = format!("GET {target} HTTP/1.1\r\nHost: {admin}\r\n\r\n");
        let answer = Client::connect(admin).ask(direct);
        assert_eq!(answer.status, 200, "{target}");
    }
}
