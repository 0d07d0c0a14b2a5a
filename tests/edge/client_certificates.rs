//! Client certificates: how long one lets its client in, and what is reported about handshakes that fail.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Method};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, HandshakeKind, version};
use serde_json::Value;
use tollgate::clock::{Micros, Timestamp};
use x509_cert::der::Decode as _;

use crate::secure::{Secure, tls, trusting, with_versions};
use crate::support::http2::{Http2, request};
use crate::support::redis::{Authority, Certificate};
use crate::support::{
    After, Config, Gate, Metered, Origin, Running, Stepped, eventually, secs, start,
};

/// Authorities for the listener, for its clients, and for others, and a certificate of each.
struct Parties {
    servers: Authority,
    server: Certificate,
    clients: Authority,
    client: Certificate,
    others: Authority,
    other: Certificate,
}

impl Parties {
    fn new() -> Self {
        let [servers, clients, others] = [(); 3].map(|()| Authority::new());
        Self {
            server: servers.sign("server", &["DNS:d.test"]),
            client: clients.sign("client", &["DNS:client"]),
            other: others.sign("other", &["DNS:other"]),
            servers,
            clients,
            others,
        }
    }

    /// A file whose listener admits the clients of these authorities.
    fn config(&self, endpoint: &str, client_ca: &[&Authority]) -> Config {
        let pem = client_ca
            .iter()
            .map(|authority| fs::read_to_string(authority.file()).expect("a PEM file"));
        let file = self.server.file.with_file_name("client_ca.pem");
        fs::write(&file, pem.collect::<String>()).expect("the directory is writable");
        let more = format!(", client_ca = '{}'", file.display());
        Config::to(endpoint)
            .admin("127.0.0.1:0")
            .listener(&tls(&[&self.server], &more))
            .route("/*", "")
    }

    fn client(&self) -> Arc<ClientConfig> {
        Arc::new(trusting(&self.servers, Some(&self.client)))
    }
}

/// Returns the first moment at which a certificate is no longer valid.
fn expiry(certificate: &Certificate) -> Timestamp {
    let der = CertificateDer::from_pem_file(&certificate.file).expect("a certificate");
    let leaf = x509_cert::Certificate::from_der(&der).expect("a certificate");
    let last = leaf.tbs_certificate().validity().not_after;
    Timestamp::default() + secs(last.to_unix_duration().as_secs() + 1)
}

fn errors(running: &Running, reason: &str) -> u64 {
    let series = format!("tollgate_errors_total{{reason=\"{reason}\",fault=\"client\"}}");
    metric(running, &series)
}

fn metric(running: &Running, series: &str) -> u64 {
    running.series(series).expect("a number")
}

/// No peer is named to the origin by a certificate that the listener did not ask for.
#[test]
fn a_certificate_that_nobody_asked_for_names_nobody() {
    let parties = Parties::new();
    let origin = Origin::plain();
    let config = Config::to(origin.url()).listener(&tls(&[&parties.server], ""));
    let running = start(&config.route("/*", ""));
    for version in rustls::ALL_VERSIONS {
        let client = with_versions(&parties.servers, Some(&parties.client), &[version]);
        let connected = Secure::connect(running.public, &Arc::new(client), Some("d.test"));
        let answer = connected.expect("a handshake").get("d.test");
        assert_eq!(answer.expect("an answer").0, 200, "{version:?}");
        let told = origin.requests().pop().expect("a request").head;
        assert_eq!(told.field("client-cert"), None, "{version:?}");
    }
}

#[test]
fn a_certificate_names_a_client_and_its_origin_is_told_whatever_the_client_says_of_it() {
    let parties = Parties::new();
    let origin = Origin::plain();
    let config = parties.config(&origin.url(), &[&parties.clients]);
    let config = config
        .listener("trusted_proxies = ['127.0.0.1']")
        .top("default_policies = ['p']")
        .policy(
            "p",
            "quota = '2 per hour'\npartition = ['client-cert']\non_missing = 'refuse'",
        );
    let running = start(&config);
    let lies = [
        "client-cert",
        "client_cert",
        "client-cert-chain",
        "client_cert_chain",
    ];
    let fields = lies.map(|name| format!("{name}: :YQ==:\r\n")).concat();
    let ask = || {
        let connected = Secure::connect(running.public, &parties.client(), Some("d.test"));
        let mut connection = connected.expect("a handshake");
        let sent = connection.send(format!("GET / HTTP/1.1\r\nHost: d.test\r\n{fields}\r\n"));
        sent.expect("it reads");
        connection.answer().expect("an answer").0
    };
    assert_eq!(ask(), 200);
    let mut http2 = Http2::connect_secure(running.public, &parties.client(), "d.test");
    let mut request = request(Method::GET, "/");
    for name in lies {
        let lie = HeaderValue::from_static(":YQ==:");
        request.headers_mut().append(name, lie);
    }
    assert_eq!(http2.begin(request, true).status(), Ok(200));
    assert_eq!(ask(), 429);
    let leaf = CertificateDer::from_pem_file(&parties.client.file).expect("a certificate");
    let leaf = format!(":{}:", STANDARD.encode(leaf));
    for request in origin.requests() {
        let fields = request.head.fields.into_iter();
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value));
        let told: Vec<_> = fields
            .filter(|(name, _)| name.replace('_', "-").starts_with("client-cert"))
            .collect();
        assert_eq!(told, [("client-cert".to_owned(), leaf.clone())]);
    }
}

#[test]
fn an_expired_client_certificate_is_refused_at_each_request_however_its_session_began() {
    let parties = Parties::new();
    let expiry = expiry(&parties.client);
    for (versions, is_http2) in [
        (&[&version::TLS12][..], false),
        (&[&version::TLS13], false),
        (&[&version::TLS12], true),
        (&[&version::TLS13], true),
    ] {
        let case = format!("{versions:?}, {is_http2}");
        let origin = Origin::plain();
        let running = start(&parties.config(&origin.url(), &[&parties.clients]));
        let client = with_versions(&parties.servers, Some(&parties.client), versions);
        let client = Arc::new(client);
        running.clock.set(Timestamp(expiry.0 - 1));
        // Sessions are stored in this client, so it can resume them.
        let mut kept =
            Secure::connect(running.public, &client, Some("d.test")).expect("a handshake");
        assert_eq!(kept.get("d.test").expect("an answer").0, 200, "{case}");
        let mut http2 = Http2::connect_secure(running.public, &client, "d.test");
        let ask = |http2: &mut Http2| http2.ask(Method::GET, "/").status().expect("an answer");
        assert_eq!(ask(&mut http2), 200, "{case}");
        let before = origin.requests().len();
        running.clock.advance(Micros(1));
        if is_http2 {
            assert_eq!(ask(&mut http2), 400, "{case}");
            http2.wait_for_end();
            let mut resumed = Http2::connect_secure(running.public, &client, "d.test");
            assert_eq!(ask(&mut resumed), 400, "{case}");
            resumed.wait_for_end();
        } else {
            assert_eq!(kept.get("d.test").expect("an answer").0, 400, "{case}");
            assert_eq!(kept.rest().expect("an end"), b"", "{case}");
            let mut resumed =
                Secure::connect(running.public, &client, Some("d.test")).expect("a handshake");
            assert_eq!(
                resumed.tls().handshake_kind(),
                Some(HandshakeKind::Resumed),
                "{case}"
            );
            assert_eq!(resumed.get("d.test").expect("an answer").0, 400, "{case}");
            assert_eq!(resumed.rest().expect("an end"), b"", "{case}");
        }
        assert_eq!(origin.requests().len(), before, "{case}");
        assert_eq!(errors(&running, "client_certificate_expired"), 2, "{case}");
    }
}

/// Connections that were admitted by authorities which a reload removed get no further request, but requests in flight
/// are answered.
#[test]
fn connections_of_another_client_ca_end_after_what_is_in_flight() {
    let parties = Parties::new();
    let gate = Gate::default();
    let origin = Origin::scripted({
        let gate = gate.clone();
        move |exchange| {
            if exchange.target().starts_with("/held") {
                gate.wait();
            }
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            Ok(After::Keep)
        }
    });
    // One worker, which checks all of its connections at once.
    let config = |client_ca: &[&Authority]| parties.config(&origin.url(), client_ca).one_worker();
    let mut running = start(&config(&[&parties.clients]));
    let client = parties.client();
    let connect = || Secure::connect(running.public, &client, Some("d.test")).expect("a handshake");
    let (mut idle, mut held, mut begun) = (connect(), connect(), connect());
    for connection in [&mut idle, &mut begun] {
        assert_eq!(connection.get("d.test").expect("an answer").0, 200);
    }
    begun.send("GET / HT").expect("it reads");
    // The first request of a connection may be on its way, so the gateway keeps the connection until that comes.
    let (mut at_once, mut later) = (connect(), connect());
    let mut http2 = Http2::connect_secure(running.public, &client, "d.test");
    let mut stream = http2.ask(Method::GET, "/held/2");
    held.send("GET /held/1 HTTP/1.1\r\nHost: d.test\r\n\r\n")
        .expect("it reads");
    origin.wait_for_requests(4);

    let text = config(&[&parties.others]).text();
    running.gateway.reload(&text).expect("a good file");
    assert_eq!(at_once.get("d.test").expect("an answer").0, 400);
    assert_eq!(at_once.rest().expect("an end"), b"");
    assert_eq!(idle.rest().expect("an end"), b"");
    begun
        .send("TP/1.1\r\nHost: d.test\r\n\r\n")
        .expect("it reads");
    assert_eq!(begun.answer().expect("an answer").0, 400);
    assert_eq!(begun.rest().expect("an end"), b"");
    gate.open();
    assert_eq!(held.answer().expect("an answer").0, 200);
    assert_eq!(held.rest().expect("an end"), b"");
    assert_eq!(stream.status(), Ok(200));
    assert_eq!(stream.rest().expect("a body"), b"ok");
    http2.wait_for_end();
    assert_eq!(later.get("d.test").expect("an answer").0, 400);
    assert_eq!(later.rest().expect("an end"), b"");
    assert_eq!(errors(&running, "client_certificate_untrusted"), 3);
}

/// A reload that adds an authority, or renews an authority's certificate, harms no client that is still admitted.
#[test]
fn a_client_that_the_new_client_ca_lets_in_is_answered_and_connects_again() {
    let parties = Parties::new();
    let config = |client_ca: &[&Authority]| parties.config("builtin:status/200", client_ca);
    let mut running = start(&config(&[&parties.clients]));
    let mut connection =
        Secure::connect(running.public, &parties.client(), Some("d.test")).expect("a handshake");
    let text = config(&[&parties.clients, &parties.others]).text();
    running.gateway.reload(&text).expect("a good file");
    assert_eq!(connection.get("d.test").expect("an answer").0, 200);
    assert_eq!(connection.rest().expect("an end"), b"");
    assert_eq!(errors(&running, "client_certificate_untrusted"), 0);
}

/// Fails the test unless this client's handshake, or its first request, fails.
fn fail(address: SocketAddr, client: &Arc<ClientConfig>) {
    let asked = Secure::connect(address, client, Some("d.test"))
        .and_then(|mut connection| connection.get("d.test"));
    assert!(asked.is_err(), "{asked:?}");
}

#[test]
fn handshakes_that_fail_are_counted_by_reason_and_logged_at_most_once_a_second() {
    let parties = Parties::new();
    let directory = tempfile::tempdir().expect("a directory for the log");
    let log = directory.path().join("log");
    let config = parties
        .config("builtin:status/200", &[&parties.clients])
        .listener("handshake_timeout = '10s'")
        .with(&format!(
            "[log]\nfile = '{}'\nformat = 'json'",
            log.display()
        ));
    let running = Stepped::start(&config);
    let lines = || -> Vec<Value> {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let failed = |line: &Value| line["listener"] == "public";
        lines.filter(failed).collect()
    };
    let own = |certificate: &Certificate| Arc::new(trusting(&parties.servers, Some(certificate)));
    let expired = parties.clients.sign_expired("expired", &["DNS:client"]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/tls");
    let stranger = Certificate {
        file: folder.join("client.pem"),
        key: folder.join("client.key"),
        authority: folder.join("client.pem"),
    };
    let nobody = Arc::new(trusting(&parties.servers, None));
    // This client does not know the listener's authority.
    let doubting = Arc::new(trusting(&parties.others, Some(&parties.client)));
    let mut odd = ClientConfig::clone(&parties.client());
    odd.alpn_protocols = vec![b"odd".to_vec()];
    let odd = Arc::new(odd);
    let raw = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(running.public).expect("it listens");
        socket.write_all(bytes).expect("it reads");
        socket
            .shutdown(std::net::Shutdown::Write)
            .expect("it is open");
        let _ = socket.read_to_end(&mut Vec::new());
    };
    let late = || {
        let mut socket = TcpStream::connect(running.public).expect("it listens");
        socket.write_all(&[22]).expect("it reads");
        running.settle();
        running.advance(secs(11));
        let _ = socket.read_to_end(&mut Vec::new());
    };
    let cases: [(&str, &dyn Fn()); 10] = [
        ("no_certificate", &|| fail(running.public, &nobody)),
        ("expired", &|| fail(running.public, &own(&expired))),
        ("unknown_issuer", &|| fail(running.public, &own(&stranger))),
        // Its authority has the name of a known one, but another key.
        ("bad_certificate", &|| {
            fail(running.public, &own(&parties.other));
        }),
        ("refused", &|| fail(running.public, &doubting)),
        ("incompatible", &|| fail(running.public, &odd)),
        ("plain_http", &|| {
            raw(b"GET / HTTP/1.1\r\nHost: d.test\r\n\r\n");
        }),
        ("malformed", &|| raw(&[0; 64])),
        ("closed", &|| raw(&[22, 3, 1])),
        ("timeout", &late),
    ];
    for (reason, fails) in cases {
        let series =
            format!("tollgate_handshake_failures_total{{listener=\"public\",reason=\"{reason}\"}}");
        let before = lines().len();
        let second = running.clock.now();
        for _ in 0..3 {
            fails();
        }
        eventually(reason, || (metric(&running, &series) == 3).then_some(()));
        // The log is written a few times a second, so the lines of later requests may come after this.
        running.advance(secs(1));
        let seconds = usize::from(reason == "timeout") * 2 + 1;
        eventually("the log is written", || {
            (lines().len() >= before + seconds).then_some(())
        });
        let logged = lines().split_off(before);
        assert_eq!(logged.len(), seconds, "{reason}: {logged:?}");
        let status = (reason == "plain_http").then_some(400);
        let is_right = |line: &Value| line["status"].as_u64() == status;
        assert!(logged.iter().all(is_right), "{reason}: {logged:?}");
        assert!(second < running.clock.now());
    }
}
