//! Results of handshakes: certificate, version and protocol, which clients are let in, and what is resumed.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::{ClientConfig, HandshakeKind, version};

use crate::secure::{Secure, begin, tls, trusting, with_versions};
use crate::support::redis::{Authority, Certificate};
use crate::support::{Config, Origin, PATIENCE, Running, Stepped, secs, start};

/// A gateway with three certificates: the default one, one for `a.test`, and one for `*.w.test`.
struct Named {
    authority: Authority,
    certificates: [Certificate; 3],
}

impl Named {
    fn new() -> Self {
        let authority = Authority::new();
        let certificates = [
            authority.sign("default", &["DNS:d.test", "DNS:localhost", "IP:127.0.0.1"]),
            authority.sign("exact", &["DNS:a.test", "IP:127.0.0.1"]),
            authority.sign("wildcard", &["DNS:*.w.test"]),
        ];
        Self {
            authority,
            certificates,
        }
    }

    fn config(&self, endpoint: &str, more: &str) -> Config {
        let listener = tls(&self.certificates.each_ref(), more);
        Config::to(endpoint).listener(&listener).route("/*", "")
    }

    fn client(&self) -> Arc<ClientConfig> {
        Arc::new(trusting(&self.authority, None))
    }
}

#[track_caller]
fn assert_serves(running: &Running, client: &Arc<ClientConfig>) {
    let mut good = Secure::connect(running.public, client, Some("d.test")).expect("a handshake");
    assert_eq!(good.get("d.test").expect("an answer").0, 200);
}

#[test]
fn the_name_that_a_client_asks_for_selects_the_certificate_and_the_hosts_it_may_ask() {
    let named = Named::new();
    let origin = Origin::plain();
    let running = start(&named.config(&origin.url(), ""));
    let client = named.client();
    let (default, exact, wildcard) = (0, 1, 2);
    for (sni, certificate, hosts, misdirected) in [
        (
            Some("a.test"),
            exact,
            &["a.test", "A.TEST", "a.test:443"][..],
            &["d.test", "x.w.test", "other.test"][..],
        ),
        (Some("A.Test"), exact, &["a.test"], &["d.test"]),
        (
            Some("x.w.test"),
            wildcard,
            &["x.w.test", "y.w.test"],
            &["w.test", "a.test", "x.y.w.test"],
        ),
        (
            Some("d.test"),
            default,
            &["d.test", "other.test", "127.0.0.1"],
            &["a.test", "x.w.test"],
        ),
        (
            Some("localhost"),
            default,
            &["localhost", "d.test"],
            &["A.test"],
        ),
        // A client without SNI was not told of another certificate.
        (
            None,
            default,
            &["d.test", "a.test", "x.w.test", "other.test"],
            &[],
        ),
    ] {
        let connect = || Secure::connect(running.public, &client, sni).expect("a handshake");
        let shown = connect().certificate();
        let index = named
            .certificates
            .iter()
            .position(|x| der(x) == shown.as_ref());
        assert_eq!(index, Some(certificate), "{sni:?}");
        let mut connection = connect();
        for host in hosts {
            let (status, _) = connection.get(host).expect("an answer");
            assert_eq!(status, 200, "{sni:?}, {host}");
        }
        for host in misdirected {
            let (status, problem) = connection.get(host).expect("an answer");
            assert_eq!(status, 421, "{sni:?}, {host}: {problem}");
        }
    }
    assert_eq!(
        origin.requests().len(),
        15,
        "what was misdirected did not pass"
    );
}

fn der(certificate: &Certificate) -> Vec<u8> {
    let text = std::fs::read_to_string(&certificate.file).expect("a PEM file");
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    STANDARD.decode(lines.collect::<String>()).expect("base64")
}

#[test]
fn a_name_that_no_certificate_has_gets_the_default() {
    let named = Named::new();
    let running = start(&named.config("builtin:status/200", ""));
    for name in ["other.test", "w.test", "x.y.w.test"] {
        let shown = s_client(running.public, &["-servername", name]);
        assert!(shown.contains("subject=CN = default"), "{name}: {shown}");
    }
    let shown = s_client(running.public, &["-noservername"]);
    assert!(shown.contains("subject=CN = default"), "{shown}");
}

/// Has OpenSSL do a handshake, and returns what it prints about it.
fn s_client(address: SocketAddr, options: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-connect", &address.to_string()])
        .args(options);
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn versions_older_than_the_oldest_are_refused_and_nothing_is_sent_early() {
    let named = Named::new();
    let old = ["-cipher", "DEFAULT:@SECLEVEL=0"];
    let any = start(&named.config("builtin:status/200", ""));
    let new = start(&named.config("builtin:status/200", ", min_version = '1.3'"));
    for (running, version, agreed) in [
        (&any, "-tls1", false),
        (&any, "-tls1_1", false),
        (&any, "-tls1_2", true),
        (&any, "-tls1_3", true),
        (&new, "-tls1_2", false),
        (&new, "-tls1_3", true),
    ] {
        let shown = s_client(running.public, &[&old[..], &[version]].concat());
        assert_eq!(shown.contains("subject=CN"), agreed, "{version}: {shown}");
    }
    // Every supported suite of TLS 1.2 has ephemeral keys and authenticated encryption.
    for suite in [
        "AES128-SHA",
        "ECDHE-ECDSA-AES128-SHA",
        "ECDHE-ECDSA-AES128-SHA256",
    ] {
        let shown = s_client(any.public, &["-tls1_2", "-cipher", suite]);
        assert!(!shown.contains("subject=CN"), "{suite}: {shown}");
    }
    let mut client = trusting(&named.authority, None);
    client.enable_early_data = true;
    let client = Arc::new(client);
    assert_eq!(resumed(any.public, &client), HandshakeKind::Full);
    assert_eq!(resumed(any.public, &client), HandshakeKind::Resumed);
    let mut tls = begin(&client, Some("d.test"));
    assert!(
        tls.early_data().is_none(),
        "a ticket that allows early data"
    );
}

/// Sends one request, so that tickets are stored, and returns the kind of the handshake.
fn resumed(address: SocketAddr, client: &Arc<ClientConfig>) -> HandshakeKind {
    let mut connection = Secure::connect(address, client, Some("d.test")).expect("a handshake");
    connection.get("d.test").expect("an answer");
    let kind = connection.tls().handshake_kind();
    kind.expect("it is complete")
}

#[test]
fn the_client_and_the_listener_agree_on_a_protocol_or_part() {
    let named = Named::new();
    let both = start(&named.config("builtin:status/200", ""));
    let one = start(
        &named
            .config("builtin:status/200", "")
            .listener("http2 = false"),
    );
    for (running, offered, agreed) in [
        (&both, &["h2", "http/1.1"][..], Ok(Some("h2"))),
        (&both, &["http/1.1", "h2"], Ok(Some("h2"))),
        (&both, &["junk", "", "http/1.1"], Ok(Some("http/1.1"))),
        (&both, &[], Ok(None)),
        (&one, &["h2", "http/1.1"], Ok(Some("http/1.1"))),
        (&one, &["h2"], Err(())),
        (&both, &["http/1.0", "h2"], Ok(Some("h2"))),
        (&both, &["http/1.0"], Ok(Some("http/1.0"))),
        (&one, &["http/1.0", "http/1.1"], Ok(Some("http/1.1"))),
        (&one, &["h2", "http/1.0"], Ok(Some("http/1.0"))),
        (&both, &["junk", "h3", "http/0.9"], Err(())),
    ] {
        let mut client = trusting(&named.authority, None);
        client.alpn_protocols = offered
            .iter()
            .filter(|x| !x.is_empty())
            .map(|x| x.as_bytes().to_vec())
            .collect();
        let made = Secure::connect(running.public, &Arc::new(client), Some("d.test"));
        let made = made.as_ref().map_err(|_| ()).map(|made| {
            let protocol = made.tls().alpn_protocol();
            protocol.map(|protocol| std::str::from_utf8(protocol).expect("text"))
        });
        assert_eq!(made, agreed, "{offered:?}");
    }
    assert_serves(&both, &named.client());
}

#[test]
fn a_listener_with_client_ca_lets_in_its_clients_alone() {
    let named = Named::new();
    let clients = Authority::new();
    let (own, foreign) = (
        clients.sign("client", &["DNS:client"]),
        named.authority.sign("foreign", &["DNS:x"]),
    );
    let more = format!(", client_ca = '{}'", clients.file().display());
    let running = start(&named.config("builtin:status/200", &more));
    for version in rustls::ALL_VERSIONS {
        for certificate in [None, Some(&foreign)] {
            let client = Arc::new(with_versions(&named.authority, certificate, &[version]));
            // In TLS 1.3, the client has finished its handshake before the gateway checks the certificate.
            let asked = Secure::connect(running.public, &client, Some("d.test"))
                .and_then(|mut connection| connection.get("d.test"));
            assert!(asked.is_err(), "{version:?}: {asked:?}");
        }
        let client = with_versions(&named.authority, Some(&own), &[version]);
        assert_serves(&running, &Arc::new(client));
    }
}

#[test]
fn a_handshake_that_stops_half_way_is_cut_at_its_deadline() {
    let named = Named::new();
    let running = Stepped::start(
        &named
            .config("builtin:status/200", "")
            .listener("handshake_timeout = '10s'"),
    );
    let hello = hello(&named.client());
    for sent in [0, 1, 5, hello.len() / 2, hello.len() - 1, hello.len()] {
        let mut socket = TcpStream::connect(running.public).expect("it listens");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket takes options");
        socket.write_all(&hello[..sent]).expect("it reads");
        running.settle();
        running.advance(secs(9));
        let mut byte = [0];
        if sent < hello.len() {
            socket
                .set_nonblocking(true)
                .expect("a socket takes options");
            assert!(
                socket.peek(&mut byte).is_err(),
                "{sent} bytes: it is cut too early"
            );
            socket
                .set_nonblocking(false)
                .expect("a socket takes options");
        }
        running.advance(secs(2));
        let ended = socket.read_to_end(&mut Vec::new());
        assert!(ended.is_ok(), "{sent} bytes: {ended:?}");
    }
    assert_serves(&running, &named.client());
}

#[test]
fn a_handshake_that_is_under_way_when_the_gateway_ends_is_completed_and_its_request_answered() {
    let named = Named::new();
    let mut running = Stepped::start(&named.config("builtin:status/200", ""));
    let public = running.public;
    let connect = || {
        let socket = TcpStream::connect(public).expect("it listens");
        let timeout = socket.set_read_timeout(Some(PATIENCE));
        timeout.expect("a socket takes options");
        socket
    };
    let client = Arc::new(with_versions(&named.authority, None, &[&version::TLS12]));
    let mut begun = [1, 5, 100].map(|come| {
        let (mut socket, mut tls) = (connect(), begin(&client, Some("d.test")));
        let mut hello = Vec::new();
        tls.write_tls(&mut hello).expect("a vector takes bytes");
        socket.write_all(&hello[..come]).expect("it reads");
        (socket, tls, hello.split_off(come))
    });
    let mut silent = connect();
    running.settle();
    let ending = thread::spawn(move || running.gateway.shutdown());
    let ended = silent.read_to_end(&mut Vec::new());
    assert!(ended.is_ok(), "it has sent nothing: {ended:?}");
    for (socket, tls, rest) in &mut begun {
        socket.write_all(rest).expect("it reads");
        while tls.is_handshaking() {
            tls.complete_io(socket).expect("a handshake");
        }
        let mut stream = rustls::Stream::new(tls, socket);
        let request = b"GET / HTTP/1.1\r\nHost: d.test\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        read.expect("an end with close_notify");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
    }
    ending.join().expect("shutting down does not fail");
}

/// Returns the first bytes that a client sends.
fn hello(client: &Arc<ClientConfig>) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin(client, Some("d.test"))
        .write_tls(&mut bytes)
        .expect("a vector takes bytes");
    bytes
}

#[test]
fn records_of_one_byte_are_as_good_as_others() {
    let named = Named::new();
    let running = start(&named.config("builtin:status/200", ""));
    let mut socket = TcpStream::connect(running.public).expect("it listens");
    socket.set_nodelay(true).expect("a socket takes options");
    let mut tls = begin(&named.client(), Some("d.test"));
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).expect("a vector takes bytes");
    let (head, payload) = hello.split_at(5);
    for byte in payload {
        let record = [head[0], head[1], head[2], 0, 1, *byte];
        socket.write_all(&record).expect("it reads");
    }
    while tls.is_handshaking() {
        tls.complete_io(&mut socket).expect("a handshake");
    }
    let mut connection = Secure::over(tls, socket);
    for byte in b"GET / HTTP/1.1\r\nHost: d.test\r\n\r\n" {
        connection.send([*byte]).expect("it reads");
    }
    assert_eq!(connection.answer().expect("an answer").0, 200);
}

#[test]
fn what_is_no_handshake_ends_the_connection_and_passes_nothing() {
    let named = Named::new();
    let origin = Origin::plain();
    let running = start(&named.config(&origin.url(), ""));
    let huge = [&[22, 3, 1, 255, 255][..], &[1; 1000]].concat();
    let says_https = "{\"type\":\"about:blank\",\"title\":\"This port speaks HTTPS: begin the URL with https://\",\
                      \"status\":400}\n";
    for (bytes, is_http) in [
        (&b"GET / HTTP/1.1\r\nHost: d.test\r\n\r\n"[..], true),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            true,
        ),
        (
            b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10\x01\x00\x80",
            false,
        ),
        (b"get / http/1.1\r\n\r\n", false),
        (&[0; 64], false),
        (&huge, false),
    ] {
        let mut socket = TcpStream::connect(running.public).expect("it listens");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket takes options");
        socket.write_all(bytes).expect("it reads");
        let mut answer = Vec::new();
        // The connection ends, with an alert or without.
        let _ = socket.read_to_end(&mut answer);
        if is_http {
            let answer = String::from_utf8(answer).expect("text");
            assert!(
                answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
                "{answer}"
            );
            assert!(answer.ends_with(says_https), "{answer}");
        } else {
            assert!(answer.len() <= 7, "more than an alert: {answer:?}");
        }
    }
    assert_eq!(origin.connections(), 0);
    assert_serves(&running, &named.client());
}
