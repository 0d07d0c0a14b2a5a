//! The PROXY protocol: a header before a connection's first byte names its client.

use std::process::Command;

use crate::support::process::free_address;
use crate::support::{
    Answer, Client, Config, Flow, Metered, Origin, Running, eventually, secs, start,
};

/// A file whose listener expects a PROXY header; each address may send one request to `/limited`.
fn behind_a_proxy() -> Config {
    Config::to("builtin:echo")
        .admin("127.0.0.1:0")
        .listener("proxy_protocol = true\ntrusted_proxies = ['127.0.0.1', '10.0.0.0/8']")
        .policy("p", "quota = '1 per hour'")
        .route("/limited", "policies = ['p']")
        .route("/*", "")
}

/// Returns a header of version 2 that names this IPv4 address, followed by these values.
fn binary(source: [u8; 4], values: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
    let length = u16::try_from(12 + values.len()).expect("a short header");
    header.extend(length.to_be_bytes());
    header.extend(source);
    header.extend([192, 0, 2, 1, 0xc3, 0x50, 0x01, 0xbb]);
    header.extend(values);
    header
}

const REQUEST: &str =
    "GET /limited HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n";

fn ask(running: &Running, header: &[u8], how: fn(&mut Client, &[u8])) -> Answer {
    let mut client = Client::connect(running.public);
    how(&mut client, &[header, REQUEST.as_bytes()].concat());
    client.answer()
}

fn at_once(client: &mut Client, bytes: &[u8]) {
    client.send(bytes);
}

fn byte_by_byte(client: &mut Client, bytes: &[u8]) {
    for byte in bytes {
        client.send([*byte]);
    }
}

#[track_caller]
fn check(status: u16, answer: &Answer, client: &str) {
    assert_eq!(answer.status, status);
    let text = answer.text();
    assert!(
        status != 200 || text.contains(&format!("\"{client}\"")),
        "{client} in {text}"
    );
}

#[test]
fn the_header_names_the_client_however_it_comes_in() {
    for how in [at_once, byte_by_byte] {
        let running = start(&behind_a_proxy());
        let line = b"PROXY TCP4 203.0.113.9 192.0.2.1 50000 443\r\n";
        check(200, &ask(&running, line, how), "203.0.113.9");
        check(
            429,
            &ask(&running, &binary([203, 0, 113, 9], &[4, 0, 1, 7]), how),
            "",
        );
        check(
            200,
            &ask(&running, &binary([203, 0, 113, 10], &[]), how),
            "203.0.113.10",
        );
        let line = b"PROXY TCP6 ::ffff:203.0.113.10 ::1 50000 443\r\n";
        check(429, &ask(&running, line, how), "");
    }
}

#[test]
fn fields_are_believed_only_if_the_named_address_is_trusted_too() {
    let running = start(&behind_a_proxy());
    let chain = "198.51.100.7, 10.0.0.1";
    check(
        200,
        &ask(&running, &binary([10, 0, 0, 1], &[]), at_once),
        chain,
    );
    check(
        200,
        &ask(&running, &binary([198, 51, 100, 8], &[]), at_once),
        "198.51.100.8",
    );
}

/// Such connections are the proxy's own and count as the peer's; their fields are not trusted, whoever caused them.
#[test]
fn a_header_that_names_nobody_keeps_the_peer_and_no_field_is_believed() {
    let origin = Origin::plain();
    let config = behind_a_proxy().endpoints(&[origin.url()]);
    let binary = |command: u8, family: u8, addresses: usize| {
        let length = u8::try_from(addresses).expect("a short header");
        let head = [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family, 0, length]].concat();
        [head, vec![1; addresses]].concat()
    };
    for header in [
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN 10.0.0.1 10.0.0.2 1 2\r\n".to_vec(),
        // LOCAL, UNSPEC, UDP over IPv4, Unix sockets.
        binary(0x20, 0, 0),
        binary(0x20, 0x11, 12),
        binary(0x21, 0, 0),
        binary(0x21, 0x12, 12),
        binary(0x21, 0x31, 216),
    ] {
        let running = start(&config.clone().with_ids());
        let before = origin.requests().len();
        let lies = "X-Forwarded-For: 198.51.100.7\r\nX-Forwarded-Proto: https\r\n\
                    X-Forwarded-Host: b.test\r\nX-Request-Id: 7f\r\nX-Real-IP: 198.51.100.7\r\n";
        let request = format!("GET /limited HTTP/1.1\r\nHost: a.test\r\n{lies}\r\n");
        let ask = || {
            let mut client = Client::connect(running.public);
            client
                .ask([&header[..], request.as_bytes()].concat())
                .status
        };
        assert_eq!([ask(), ask()], [200, 429], "{header:?}");
        let head = &origin.requests()[before].head;
        for (name, expected) in [
            ("x-forwarded-for", &["127.0.0.1"][..]),
            ("x-forwarded-proto", &["http"]),
            ("x-forwarded-host", &["a.test"]),
            ("x-real-ip", &[]),
        ] {
            assert_eq!(head.fields(name), expected, "{name}, {header:?}");
        }
        assert_ne!(head.field("x-request-id"), Some("7f"), "{header:?}");
    }
}

#[test]
fn a_connection_that_begins_otherwise_is_closed_and_counted() {
    let running = start(&behind_a_proxy());
    let wrong = binary([203, 0, 113, 9], &[3, 0, 4, 0, 0, 0, 0]);
    for beginning in [
        REQUEST.as_bytes(),
        b"PROXY TCP4 203.0.113.9\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"P\r\n",
        &wrong,
    ] {
        let mut client = Client::connect(running.public);
        client.send(beginning);
        assert_eq!(client.rest(), b"", "{beginning:?}");
    }
    // This peer is not trusted to name the client that it connects for.
    let mut stranger = Client::connect_from([127, 0, 0, 2], running.public);
    assert_eq!(stranger.rest(), b"");
    let counted = "tollgate_errors_total{reason=\"proxy_header\",fault=\"client\"} 6\n";
    running.wait_for_metric(counted);
}

#[test]
fn a_header_must_be_there_in_time() {
    let running = start(&behind_a_proxy().listener("header_timeout = '5s'"));
    let mut client = Client::connect(running.public);
    client.send("PROXY TCP4 203.0.113.9 ");
    assert!(client.is_silent());
    let flow = Flow::of(&running.clock, secs(1));
    client.assert_closed();
    drop(flow);
}

const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls");

#[test]
fn tls_and_http2_follow_the_header() {
    let plain = start(&behind_a_proxy());
    let certificate = format!(
        "tls.certificates = [{{ certificate = '{TLS}/public.pem', key = '{TLS}/public.key' }}]"
    );
    let encrypted = start(&behind_a_proxy().listener(&certificate));
    for (address, scheme, version) in [
        (plain.public, "http", "--http1.1"),
        (plain.public, "http", "--http2-prior-knowledge"),
        (encrypted.public, "https", "--http1.1"),
        (encrypted.public, "https", "--http2"),
    ] {
        let output = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--fail",
                "--haproxy-protocol",
                version,
            ])
            .args(["--cacert", &format!("{TLS}/public-ca.pem")])
            .args(["--connect-to", &format!("::{address}")])
            .arg(format!("{scheme}://example.com/"))
            .output()
            .expect("curl is installed");
        assert!(output.status.success(), "{scheme} {version}: {output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("\"127.0.0.1\""), "{said}");
    }
}

#[test]
fn a_client_with_too_many_connections_is_closed_before_anything_is_said() {
    let config = behind_a_proxy().listener("max_connections_per_client = 2");
    let running = start(&config);
    let open = |source: [u8; 4]| {
        let mut client = Client::connect(running.public);
        client.send(binary(source, &[]));
        client
    };
    let mut kept = [9, 9, 10].map(|last| open([203, 0, 113, last]));
    for client in &mut kept {
        assert_eq!(client.get("/", "").status, 200);
    }
    assert_eq!(open([203, 0, 113, 9]).rest(), b"");
    let counted = "tollgate_errors_total{reason=\"too_many_connections\",fault=\"client\"} 1\n";
    running.wait_for_metric(counted);
    drop(kept);
    eventually("there is room again", || {
        let mut client = open([203, 0, 113, 9]);
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        client.try_answer().ok()
    });
}

/// HAProxy passes connections on, with version 2 and its checksum.
#[test]
fn haproxy_names_its_clients() {
    let running = start(&behind_a_proxy());
    let (folder, front) = (tempfile::tempdir().expect("a folder"), free_address());
    let file = folder.path().join("haproxy.cfg");
    let text = format!(
        "defaults\n timeout client 10s\n timeout server 10s\n timeout connect 10s\n\
         listen front\n bind {front}\n mode tcp\n \
         server gateway {} send-proxy-v2 proxy-v2-options crc32c,unique-id\n",
        running.public
    );
    std::fs::write(&file, text).expect("a writable folder");
    let mut haproxy = Command::new("haproxy")
        .args(["-db", "-f"])
        .arg(&file)
        .spawn()
        .expect("haproxy is installed");
    let mut client = eventually("HAProxy listens", || Client::try_connect(front).ok());
    let answer = client.get("/", "");
    haproxy.kill().expect("it runs");
    haproxy.wait().expect("it runs");
    check(200, &answer, "127.0.0.1");
}
