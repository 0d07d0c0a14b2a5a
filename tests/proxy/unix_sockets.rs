//! Unix sockets: their peers have no address and are trusted, and HTTP works on them as on a port.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::support::{
    After, Client, Config, Gate, Metered, Origin, Running, eventually, secs, start,
};

/// A gateway with a listener `local` on a Unix socket.
struct Local {
    running: Running,
    path: PathBuf,
    _folder: TempDir,
}

impl Local {
    fn start(config: &Config, lines: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tollgate.sock");
        let listener = format!(
            "[listeners.local]\naddress = 'unix:{}'\n{lines}",
            path.display()
        );
        Self {
            running: start(&config.clone().with(&listener)),
            path,
            _folder: folder,
        }
    }

    fn connect(&self) -> Client {
        Client::try_connect_unix(&self.path).expect("the gateway accepts connections")
    }

    /// Sends these bytes and then a GET on a new connection, and returns the status.
    fn status(&self, beginning: &[u8], fields: &str) -> u16 {
        let mut client = self.connect();
        client.send(beginning);
        client.get("/limited", fields).status
    }
}

/// A file with a route `/limited` on which each client has one request.
fn limited(endpoint: impl AsRef<str>, policy: &str) -> Config {
    Config::to(endpoint)
        .admin("127.0.0.1:0")
        .policy("p", &format!("quota = '1 per hour'\n{policy}"))
        .route("/limited", "policies = ['p']")
        .route("/*", "")
}

#[test]
fn ip_is_what_the_peer_says_and_missing_where_it_says_nothing() {
    let [a, b] = [
        "X-Forwarded-For: 203.0.113.9\r\n",
        "X-Forwarded-For: 203.0.113.10\r\n",
    ];
    let unknown = "X-Forwarded-For: unix:\r\n";
    let forwarded = "Forwarded: for=203.0.113.9\r\n";
    for (listener, on_missing, requests) in [
        (
            "",
            "share",
            &[(a, 200), (a, 429), (b, 200), ("", 200), ("", 429)][..],
        ),
        (
            "",
            "share",
            &[(unknown, 200), ("", 429), (forwarded, 429), (a, 200)],
        ),
        ("", "skip", &[("", 200), ("", 200), (a, 200), (a, 429)]),
        ("", "refuse", &[("", 401), (a, 200), (a, 429)]),
        (
            "client_address = 'forwarded'",
            "share",
            &[(forwarded, 200), (forwarded, 429), (a, 200), (b, 429)],
        ),
        ("client_address = 'peer'", "share", &[(a, 200), (b, 429)]),
        // The client is the last address that is no trusted proxy's.
        (
            "trusted_proxies = ['203.0.113.9']",
            "share",
            &[
                ("X-Forwarded-For: 203.0.113.10, 203.0.113.9\r\n", 200),
                (b, 429),
            ],
        ),
    ] {
        let policy = format!("on_missing = '{on_missing}'");
        let local = Local::start(&limited("builtin:echo", &policy), listener);
        let statuses = requests.iter().map(|(fields, _)| local.status(b"", fields));
        let expected: Vec<_> = requests.iter().map(|(_, status)| *status).collect();
        assert_eq!(
            statuses.collect::<Vec<_>>(),
            expected,
            "{listener}, {on_missing}"
        );
    }
}

#[test]
fn a_connection_shares_what_is_missing_and_skips_it_by_turns() {
    let config = Config::to("builtin:echo")
        .policy("shared", "quota = '2 per hour'")
        .policy("skipped", "quota = '1 per hour'\non_missing = 'skip'")
        .route("/shared", "policies = ['shared']")
        .route("/skipped", "policies = ['skipped']");
    let local = Local::start(&config, "");
    let mut client = local.connect();
    let paths = ["/shared", "/skipped", "/skipped", "/shared", "/shared"];
    let statuses = paths.map(|path| client.get(path, "").status);
    assert_eq!(statuses, [200, 200, 200, 200, 429]);
}

#[test]
fn an_origin_is_told_what_the_peer_says_and_of_no_other_hop() {
    let origin = Origin::plain();
    let own = "for=203.0.113.9;host=\"a.test\";proto=http";
    let unknown = "for=unknown;host=\"a.test\";proto=http";
    for (source, sent, x_forwarded_for, forwarded) in [
        (
            "x-forwarded-for",
            "X-Forwarded-For: 198.51.100.7, 203.0.113.9\r\n",
            Some("198.51.100.7, 203.0.113.9"),
            own,
        ),
        (
            "x-forwarded-for",
            "X-Forwarded-For: unix:\r\n",
            Some("unix:"),
            unknown,
        ),
        (
            "x-forwarded-for",
            "Forwarded: for=203.0.113.9\r\n",
            None,
            unknown,
        ),
        (
            "forwarded",
            "X-Forwarded-For: 198.51.100.7, 203.0.113.9\r\n",
            None,
            unknown,
        ),
        (
            "forwarded",
            "Forwarded: for=203.0.113.9;proto=https\r\n",
            Some("203.0.113.9"),
            "for=203.0.113.9;proto=https",
        ),
        (
            "header:x-real-ip",
            "X-Real-IP: 203.0.113.9\r\n",
            Some("203.0.113.9"),
            own,
        ),
        (
            "peer",
            "X-Forwarded-For: 203.0.113.9\r\nForwarded: for=_a\r\n",
            None,
            unknown,
        ),
    ] {
        let config = Config::to(origin.url()).route("/*", "");
        let local = Local::start(&config, &format!("client_address = '{source}'"));
        let before = origin.requests().len();
        let lines = format!("{sent}X-Forwarded-Proto: https\r\n");
        let answer = local.connect().get("/", &lines);
        assert_eq!(answer.status, 200);
        let head = &origin.requests()[before].head;
        assert_eq!(head.field("x-forwarded-for"), x_forwarded_for, "{source}");
        assert_eq!(head.field("forwarded"), Some(forwarded), "{source}");
        let proto = if source == "x-forwarded-for" {
            "https"
        } else {
            "http"
        };
        assert_eq!(head.field("x-forwarded-proto"), Some(proto), "{source}");
    }
}

/// As over TCP, a client of a trusted proxy cannot get the fields removed that the proxy sets.
#[test]
fn connection_names_no_field_that_the_peer_is_believed_in() {
    let local = Local::start(&limited("builtin:echo", ""), "");
    let lines = "X-Forwarded-For: 203.0.113.9\r\nConnection: x-forwarded-for\r\n";
    assert_eq!(local.status(b"", lines), 400);
}

#[test]
fn a_proxy_header_takes_the_place_of_the_peer() {
    let local = Local::start(
        &limited("builtin:echo", ""),
        "proxy_protocol = true\ntrusted_proxies = ['10.0.0.0/8']",
    );
    let header = |source: &str| format!("PROXY TCP4 {source} 192.0.2.1 50000 443\r\n").into_bytes();
    let field = "X-Forwarded-For: 203.0.113.9\r\n";
    for (beginning, fields, status) in [
        (header("203.0.113.8"), field, 200),
        (header("203.0.113.8"), "", 429),
        (header("10.0.0.1"), field, 200),
        (header("10.0.0.2"), field, 429),
        // The header names nobody, so the fields are not trusted.
        (b"PROXY UNKNOWN\r\n".to_vec(), field, 200),
        (
            b"PROXY UNKNOWN\r\n".to_vec(),
            "X-Forwarded-For: 203.0.113.7\r\n",
            429,
        ),
    ] {
        let shown = String::from_utf8_lossy(&beginning).into_owned();
        assert_eq!(
            local.status(&beginning, fields),
            status,
            "{shown:?}, {fields:?}"
        );
    }
}

#[test]
fn connections_of_one_client_are_limited_where_a_proxy_header_names_it() {
    for (proxy_protocol, header, is_limited) in [
        (false, "", false),
        (true, "PROXY TCP4 203.0.113.9 192.0.2.1 50000 443\r\n", true),
        (true, "PROXY UNKNOWN\r\n", false),
    ] {
        let lines = format!("max_connections_per_client = 1\nproxy_protocol = {proxy_protocol}");
        let local = Local::start(&limited("builtin:echo", ""), &lines);
        let mut first = local.connect();
        first.send(header);
        assert_eq!(first.get("/", "").status, 200);
        let mut second = local.connect();
        second.send(format!("{header}GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        assert_eq!(second.try_answer().is_err(), is_limited, "{header:?}");
    }
}

#[test]
fn connections_beyond_the_maximum_wait_and_idle_ones_make_room() {
    let local = Local::start(&limited("builtin:echo", ""), "max_connections = 1");
    let mut first = local.connect();
    assert_eq!(first.get("/", "").status, 200);
    local.running.clock.advance(secs(5));
    assert_eq!(local.connect().get("/", "").status, 200);
    first.assert_closed();
}

#[test]
fn bodies_larger_than_what_a_socket_holds_pass_unchanged() {
    let origin = Origin::echoing();
    let local = Local::start(&Config::to(origin.url()).route("/*", ""), "");
    let body = "0123456789abcdef\n".repeat(100_000);
    let mut client = local.connect();
    for _ in 0..2 {
        let answer = client.post("/", "", &body);
        assert!(answer.status == 200 && answer.body == body.as_bytes());
    }
}

#[test]
fn a_client_that_still_sends_can_read_an_early_answer() {
    let local = Local::start(&limited("builtin:echo", ""), "max_body_bytes = '1KiB'");
    let mut client = local.connect();
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n");
    client.send(vec![b'x'; 1_000_000]);
    let answer = client.answer();
    assert_eq!((answer.status, answer.says_close()), (413, true));
    client.assert_closed();
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let gate = Gate::default();
    let origin = Origin::behind(&gate);
    let config = Config::to(origin.url())
        .admin("127.0.0.1:0")
        .route("/*", "");
    let local = Local::start(&config, "");
    let mut client = local.connect();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    origin.wait_for_requests(1);
    drop(client);
    let counted = "tollgate_errors_total{reason=\"client_gone\",fault=\"client\"} 1\n";
    local.running.wait_for_metric(counted);
    gate.open();
}

#[test]
fn a_tunnel_ends_with_either_side() {
    let origin = Origin::scripted(|exchange| {
        exchange.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhi")?;
        exchange.until_closed();
        Ok(After::Close)
    });
    let local = Local::start(&Config::to(origin.url()).route("/*", ""), "");
    let mut client = local.connect();
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
    client.until("\r\n\r\nhi");
    drop(client);
    origin.wait_for_ended(1);
}

#[test]
fn connections_that_are_queued_when_the_gateway_stops_are_served() {
    let local = Local::start(&limited("builtin:echo", ""), "");
    let mut clients: Vec<_> = (0..20).map(|_| local.connect()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    }
    let Local { running, path, .. } = local;
    let stopping = std::thread::spawn(move || drop(running));
    for client in &mut clients {
        assert_eq!(client.answer().status, 200);
    }
    eventually("the socket is gone", || {
        Client::try_connect_unix(&path).is_err().then_some(())
    });
    // The gateway waits for clients that may send another request.
    drop(clients);
    stopping.join().expect("the gateway stops");
}
