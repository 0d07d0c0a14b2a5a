//! Recipes about how clients come in, and which endpoints their requests go to.

use std::net::SocketAddr;
use std::process::Command;

use super::{cook, count, obedient, on_each_store_text, recipe};
use crate::support::gateway::start_text;
use crate::support::ratelimit::remaining;
use crate::support::{Client, Origin, eventually, get};

/// Requests a URL with curl from that address, and returns what curl prints of the answer in this format.
fn curl(address: SocketAddr, url: &str, format: &str) -> String {
    let certificates = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls");
    let output = Command::new("curl")
        .args(["--silent", "--output", "/dev/null", "--write-out", format])
        .args(["--cacert", &format!("{certificates}/public-ca.pem")])
        .args(["--connect-to", &format!("::{address}")])
        .arg(url)
        .output()
        .expect("curl is installed");
    String::from_utf8(output.stdout).expect("curl says text")
}

#[test]
fn edge() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls/");
    let origin = obedient();
    let text = recipe("edge", &origin).replace("0.0.0.0:443", "127.0.0.1:0");
    on_each_store_text(&text.replace("/etc/tollgate/", folder), |running| {
        for host in ["example.com", "api.example.com"] {
            let url = format!("https://{host}/");
            let answer = curl(running.public, &url, "%{http_version} %{http_code}");
            assert_eq!(answer, "2 200", "{host}");
        }
    });
}

#[test]
fn https() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls/");
    let origin = obedient();
    let text = recipe("https", &origin).replace("/etc/tollgate/", folder);
    let text = text.replace("0.0.0.0:443", "127.0.0.1:0");
    let text = text.replace("0.0.0.0:80", "127.0.0.1:0");
    let reported = "%{http_code} %{redirect_url}";
    on_each_store_text(&text, |running| {
        let clear = running.gateway.address("clear").expect("a listener");
        let before = origin.requests().len();
        let answer = curl(clear, "http://example.com:8080/a?b", reported);
        assert_eq!(answer, "308 https://example.com/a?b");
        let forged = get(clear, "/", "X-Forwarded-Proto: https\r\n");
        assert_eq!(forged.status, 308);
        assert_eq!(origin.requests().len(), before);
        let answer = curl(running.public, "https://example.com/a?b", reported);
        assert_eq!(answer, "200 ");
    });
    // Without the condition, requests over TLS would be redirected to their own URL.
    let (api, https) = text.split_once("[[routes]]").expect("two routes");
    let (_, https) = https.split_once("[[routes]]").expect("two routes");
    let https = https.replace("headers = { x-forwarded-proto = \"http\" }", "");
    let running = start_text(&format!("{api}[[routes]]{https}"));
    assert_eq!(
        curl(running.public, "https://example.com/", reported),
        "508 "
    );
}

/// Returns a recipe with two origins, and the origins.
fn with_two_origins(name: &str) -> (String, [Origin; 2]) {
    let origins = [obedient(), obedient()];
    let text = recipe(name, &origins[0]).replace("http://127.0.0.1:9001", &origins[1].url());
    (text, origins)
}

#[test]
fn weights() {
    let (text, origins) = with_two_origins("weights");
    on_each_store_text(&text, |running| {
        let of_clients = |origin: &Origin| {
            let targets = origin.targets();
            targets.iter().filter(|target| *target == "/").count()
        };
        let before = origins.each_ref().map(of_clients);
        let mut client = Client::connect(running.public);
        assert_eq!(count(&mut client, "/", "", 80, 200), 80);
        let after = origins.each_ref().map(of_clients);
        assert_eq!([after[0] - before[0], after[1] - before[1]], [60, 20]);
        eventually("both are checked", || {
            let is_checked =
                |origin: &Origin| origin.targets().iter().any(|target| target == "/healthz");
            origins.iter().all(is_checked).then_some(())
        });
        let answer = client.get("/", "");
        assert_eq!(remaining(&answer, "per-ip"), 19);
    });
}

#[test]
fn sticky() {
    let (text, origins) = with_two_origins("sticky");
    on_each_store_text(&text, |running| {
        let asked = |fields: &str| {
            let before = origins.each_ref().map(|origin| origin.requests().len());
            let mut client = Client::connect(running.public);
            assert_eq!(count(&mut client, "/", fields, 3, 200), 3, "{fields}");
            let after = origins.each_ref().map(|origin| origin.requests().len());
            [after[0] - before[0], after[1] - before[1]]
        };
        let sessions = (0..20).map(|session| asked(&format!("Cookie: session={session}\r\n")));
        let sessions: Vec<_> = sessions.collect();
        assert!(
            sessions.iter().all(|asked| asked.contains(&3)),
            "{sessions:?}"
        );
        assert!(sessions.contains(&[3, 0]) && sessions.contains(&[0, 3]));
        // Two cookies do not say which session is meant, so the address decides.
        let by_address = asked("");
        assert_eq!(asked("Cookie: session=1; session=2\r\n"), by_address);
    });
}

#[test]
fn grpc() {
    let origin = obedient();
    let text = recipe("grpc", &origin).replace("h2c://127.0.0.1:9000", &origin.url());
    on_each_store_text(&text, |running| {
        let mut client = Client::connect(running.public);
        let mut call = |method: &str| {
            let fields = "Content-Type: application/grpc\r\nX-Api-Key: a\r\n";
            let answer = client.get(&format!("/shop.v1.Orders/{method}"), fields);
            (answer.status, remaining(&answer, "per-key"))
        };
        assert_eq!(call("List"), (200, 99));
        for called in 1..10 {
            assert_eq!(call("Watch"), (200, 99 - 10 * called));
        }
        let fields = "Content-Type: application/grpc\r\nX-Api-Key: a\r\n";
        let refused = client.get("/shop.v1.Orders/Watch", fields);
        assert_eq!(
            (refused.status, refused.field("grpc-status")),
            (200, Some("8"))
        );
    });
}

#[test]
fn websocket() {
    cook("websocket", |running, origin| {
        let mut client = Client::connect(running.public);
        for (target, is_told, left) in [("/", false, 99), ("/socket", true, 89)] {
            let answer = client.get(target, "Connection: upgrade\r\nUpgrade: websocket\r\n");
            assert_eq!(remaining(&answer, "per-ip"), left);
            let requests = origin.requests();
            let seen = requests.last().expect("it was forwarded");
            assert_eq!(seen.head.fields("upgrade").is_empty(), !is_told, "{target}");
        }
    });
}

#[test]
fn balancer() {
    let origin = obedient();
    let text = recipe("balancer", &origin).replace("10.0.0.0/24", "127.0.0.1");
    on_each_store_text(&text, |running| {
        let left = |address: &str| {
            let mut client = Client::connect(running.public);
            client.send(format!("PROXY TCP4 {address} 192.0.2.1 50000 443\r\n"));
            remaining(&client.get("/", ""), "per-ip")
        };
        let reported = ["203.0.113.9", "203.0.113.9", "203.0.113.8"].map(left);
        assert_eq!(reported, [99, 98, 99]);
        let mut stranger = Client::connect_from([127, 0, 0, 9], running.public);
        stranger.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(stranger.rest(), b"");
    });
}
