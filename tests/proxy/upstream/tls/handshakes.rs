//! What a handshake tells the origin, and what later handshakes reuse.

use http_body_util::BodyExt as _;
use rustls::{HandshakeKind, version};
use tokio::io::AsyncWriteExt as _;
use tokio::join;
use tollgate::proxy::upstream::{ForwardError, UpstreamBodyError};

use super::origin::{CA, GATEWAY, SecureOrigin, Server, encrypt, tls, trusting};
use crate::upstream::harness::{Gateway, LAST, OK, get, read, request, text, upstream, worker};

#[test]
fn name_that_is_asked_for_is_the_endpoints_unless_the_file_gives_one() {
    for (host, server_name, sni) in [
        ("localhost", None, Some("localhost")),
        ("127.0.0.1", None, None),
        ("127.0.0.1", Some("localhost"), Some("localhost")),
        ("localhost", Some("127.0.0.1"), None),
    ] {
        worker(async {
            let origin = SecureOrigin::new(&Server::default()).await;
            let gateway = Gateway::with(&[origin.tcp.address], |http| {
                let mut tls = tls(CA, None);
                tls.server_name = server_name.map(|name| name.try_into().expect("a name"));
                encrypt(http, tls);
                let port = origin.tcp.address.port();
                http.endpoints[0].host = host.into();
                let authority = format!("{host}:{port}");
                http.endpoints[0].authority = authority.parse().expect("an authority");
            });
            let (answer, wire) = join!(gateway.send(get("/")), origin.answer(OK));
            assert_eq!(read(answer).await, "ok");
            assert_eq!(
                wire.0.get_ref().1.server_name(),
                sni,
                "{host} {server_name:?}"
            );
        });
    }
}

#[test]
fn server_that_chooses_no_protocol_speaks_http_1_1() {
    for protocols in [vec![], vec![&b"http/1.1"[..]]] {
        worker(async {
            let server = Server {
                protocols: protocols.clone(),
                ..Server::default()
            };
            let origin = SecureOrigin::new(&server).await;
            let gateway = trusting(&origin);
            let (answer, wire) = join!(gateway.send(get("/")), origin.answer(OK));
            assert_eq!(read(answer).await, "ok");
            let chosen = wire.0.get_ref().1.alpn_protocol();
            assert_eq!(chosen, protocols.first().copied());
        });
    }
}

#[test]
fn second_connection_to_an_origin_resumes_the_session() {
    for version in [&version::TLS13, &version::TLS12] {
        worker(async {
            let server = Server {
                versions: vec![version],
                ..Server::default()
            };
            let origin = SecureOrigin::new(&server).await;
            let gateway = trusting(&origin);
            let mut kinds = Vec::new();
            for _ in 0..2 {
                let (answer, wire) = join!(gateway.send(get("/")), origin.answer(LAST));
                assert_eq!(read(answer).await, "ok");
                kinds.push(wire.0.get_ref().1.handshake_kind());
            }
            let expected = [HandshakeKind::Full, HandshakeKind::Resumed];
            assert_eq!(kinds, expected.map(Some), "{version:?}");
        });
    }
}

#[test]
fn reload_keeps_connections_unless_the_certificates_are_others() {
    for (identity, is_kept) in [(None, true), (Some(GATEWAY), false)] {
        worker(async {
            let (origin, mut gateway) = SecureOrigin::with_gateway().await;
            let (answer, mut wire) = join!(gateway.send(get("/1")), origin.answer(OK));
            read(answer).await;
            gateway.upstream = upstream(&[origin.tcp.address], |http| {
                encrypt(http, tls(CA, identity));
            });
            let send = gateway.send(get("/2"));
            if is_kept {
                let (answer, ()) = join!(send, wire.answer(OK));
                assert_eq!(read(answer).await, "ok");
            } else {
                let (answer, _new) = join!(send, origin.answer(OK));
                assert_eq!(read(answer).await, "ok");
                gateway.pass(std::time::Duration::ZERO);
                assert_eq!(wire.rest().await, "", "the old connection is closed");
            }
        });
    }
}

#[test]
fn body_that_ends_with_its_connection_needs_the_end_of_tls() {
    for is_ended in [true, false] {
        worker(async {
            let (origin, gateway) = SecureOrigin::with_gateway().await;
            let (answer, wire) = join!(
                gateway.send(get("/")),
                origin.answer("HTTP/1.1 200 OK\r\n\r\nhalf")
            );
            let body = answer.expect("a response").into_body();
            let mut tls = wire.0;
            if is_ended {
                tokio::io::AsyncWriteExt::shutdown(&mut tls)
                    .await
                    .expect("a reader");
            }
            drop(tls);
            let collected = body.collect().await;
            match collected {
                Ok(whole) => assert!(is_ended && whole.to_bytes() == "half"),
                Err(error) => {
                    assert!(
                        !is_ended && matches!(error, UpstreamBodyError::Broken(_)),
                        "{error}"
                    );
                }
            }
        });
    }
}

#[test]
fn connection_that_closes_without_an_answer_is_a_bad_response() {
    worker(async {
        let (origin, gateway) = SecureOrigin::with_gateway().await;
        let post = request("POST", "/", text(""));
        let (answer, ()) = join!(gateway.send(post), async {
            let mut wire = origin.accept().await;
            wire.head().await;
        });
        let error = answer.err().expect("no answer");
        assert!(matches!(error, ForwardError::BadResponse(_)), "{error}");
    });
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
fn server_that_is_shown_no_certificate_does_not_accept_the_gateway() {
    for version in [&version::TLS12, &version::TLS13] {
        worker(async {
            let origin = SecureOrigin::new(&Server {
                asks_for_certificate: true,
                versions: vec![version],
                ..Server::default()
            })
            .await;
            let gateway = Gateway::with(&[origin.tcp.address], |http| {
                encrypt(http, tls(CA, None));
                http.retries = 0;
            });
            let (cause, _wire) = join!(gateway.cause(get("/")), async {
                let mut wire = origin.try_accept().await;
                if let Some(wire) = &mut wire {
                    // The server may have refused the client's certificate by then.
                    let _ = wire.0.flush().await;
                }
            });
            let expected = "the server does not accept the gateway's certificate";
            assert_eq!(cause, expected, "{version:?}");
            assert!(gateway.counts("tls_failures{reason=\"client_certificate\"} 1"));
        });
    }
}
