//! What a failure of TLS is called in the log and in the metric.

use std::fs;
use std::time::Duration;

use rustls::version;
use tokio::io::AsyncWriteExt as _;
use tokio::join;
use tollgate::proxy::upstream::{ConnectError, ForwardError};
use tollgate::snapshot::UpstreamTls;

use super::origin::{CA, GATEWAY, OTHER_CA, SecureOrigin, Server, encrypt, tls};
use crate::support::Authority;
use crate::upstream::harness::{Gateway, LAST, OK, Origin, get, read, request, text, worker};

fn named(tls: UpstreamTls, name: &'static str) -> UpstreamTls {
    UpstreamTls {
        server_name: Some(name.try_into().expect("a name")),
        ..tls
    }
}

/// Asks an origin that shakes hands as `server` does, and says why there is no answer.
fn cause(server: &Server, tls: UpstreamTls, reason: &str) -> String {
    worker(async {
        let origin = SecureOrigin::new(server).await;
        let gateway = Gateway::with(&[origin.tcp.address], |http| {
            encrypt(http, tls);
            http.retries = 0;
        });
        let (cause, _wire) = join!(gateway.cause(get("/")), async {
            let mut wire = origin.try_accept().await;
            if let Some(wire) = &mut wire {
                // The server may have refused the client's certificate by then.
                let _ = wire.0.flush().await;
            }
        });
        let series = format!("tls_failures{{reason=\"{reason}\"}} 1");
        assert!(gateway.counts(&series), "{}", gateway.metrics.render());
        assert!(gateway.counts("connections_opened 0") || reason == "client_certificate");
        cause
    })
}

#[test]
fn handshake_that_fails_says_why() {
    let expired = {
        let authority = Authority::new();
        let certificate = authority.sign_expired("expired", &["IP:127.0.0.1"]);
        let files = [&certificate.file, &certificate.key, &authority.file()];
        files.map(|file| fs::read(file).expect("a file that was made"))
    };
    let [certificate, key, ca] = expired;
    let old = Server {
        identity: (certificate, key),
        ..Server::default()
    };
    let plain = Server::default;
    let other = Server {
        protocols: vec![b"spdy/3"],
        ..plain()
    };
    let asking = |version| Server {
        asks_for_certificate: true,
        versions: vec![version],
        ..plain()
    };
    let cases = [
        (
            old,
            tls(&ca, None),
            "expired",
            "the certificate has expired",
        ),
        (
            plain(),
            tls(OTHER_CA, None),
            "unknown_issuer",
            "the certificate is from an unknown authority",
        ),
        (
            plain(),
            named(tls(CA, None), "api.internal"),
            "wrong_name",
            "the certificate is for another name",
        ),
        (
            asking(&version::TLS12),
            tls(CA, None),
            "client_certificate",
            "the server does not accept the gateway's certificate",
        ),
        (
            asking(&version::TLS13),
            tls(CA, None),
            "client_certificate",
            "the server does not accept the gateway's certificate",
        ),
        (
            other,
            tls(CA, None),
            "refused",
            "the server ended TLS with an alert",
        ),
    ];
    for (server, tls, reason, text) in cases {
        assert_eq!(cause(&server, tls, reason), text, "{reason}");
    }
}

#[test]
fn certificate_of_the_gateway_is_shown_to_who_asks() {
    worker(async {
        let server = Server {
            asks_for_certificate: true,
            ..Server::default()
        };
        let origin = SecureOrigin::new(&server).await;
        let gateway = Gateway::with(&[origin.tcp.address], |http| {
            encrypt(http, tls(CA, Some(GATEWAY)));
        });
        let (answer, wire) = join!(gateway.send(get("/")), origin.answer(OK));
        answer.expect("an answer");
        let shown = wire.0.get_ref().1.peer_certificates().map(<[_]>::len);
        assert_eq!(shown, Some(1));
    });
}

#[test]
fn server_that_speaks_no_tls_or_hangs_up_is_named() {
    for (said, reason, text) in [
        (
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "malformed",
            "the server does not speak TLS properly",
        ),
        ("", "closed", "closed without ending TLS"),
    ] {
        worker(async {
            let origin = Origin::new().await;
            let gateway = Gateway::with(&[origin.address], |http| {
                encrypt(http, tls(CA, None));
                http.retries = 0;
            });
            let (cause, ()) = join!(gateway.cause(get("/")), async {
                let mut wire = origin.accept().await;
                wire.say(said).await;
            });
            assert_eq!(cause, text);
            let series = format!("tls_failures{{reason=\"{reason}\"}} 1");
            assert!(gateway.counts(&series), "{reason}");
        });
    }
}

#[test]
fn handshake_is_over_within_the_time_to_connect() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::with(&[origin.address], |http| {
            encrypt(http, tls(CA, None));
            http.retries = 0;
        });
        let mut sent = std::pin::pin!(gateway.try_send(get("/")));
        let wire = tokio::select! {
            _ = &mut sent => unreachable!("nobody answers"),
            wire = async {
                let mut wire = origin.accept().await;
                wire.read_to("\x01").await;
                wire
            } => wire,
        };
        gateway.pass(Duration::from_millis(2900));
        let early = std::future::poll_fn(|cx| std::task::Poll::Ready(sent.as_mut().poll(cx)));
        assert!(early.await.is_pending());
        gateway.pass(Duration::from_millis(100));
        let failure = sent.await.err().expect("no answer");
        assert!(matches!(
            failure.error,
            ForwardError::Connect(ConnectError::Tls { .. })
        ));
        assert_eq!(&*failure.cause, "TLS handshake timed out");
        assert!(gateway.counts("tls_failures{reason=\"timeout\"} 1"));
        drop(wire);
    });
}

#[test]
fn endpoint_without_tls_costs_a_retry_at_the_next() {
    worker(async {
        let (bad, good) = (
            Origin::new().await,
            SecureOrigin::new(&Server::default()).await,
        );
        let gateway = Gateway::with(&[bad.address, good.tcp.address], |http| {
            encrypt(http, tls(CA, None));
        });
        // Either endpoint may be the first.
        let posts = async {
            for _ in 0..2 {
                let post = request("POST", "/", text("body"));
                assert_eq!(read(gateway.send(post).await).await, "ok");
            }
        };
        let ((), (), ()) = join!(posts, async { drop(bad.accept().await) }, async {
            for _ in 0..2 {
                let mut wire = good.accept().await;
                let sent = wire.read_to("\r\n\r\nbody").await;
                assert!(sent.starts_with("POST / HTTP/1.1\r\n"));
                wire.say(LAST).await;
            }
        });
        assert!(gateway.counts("retries 1"));
    });
}
