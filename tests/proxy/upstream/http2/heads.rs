//! What an origin sees of a request, and a client of the answer.

use http::{HeaderMap, HeaderValue, Method, Response, Version};
use http_body::Body as _;
use tokio::join;
use tollgate::proxy::upstream::{BadResponse, ForwardError, HostField};

use super::origin::{Http2Origin, Peer};
use crate::upstream::harness::{OK, get, read, request, text, worker};
use crate::upstream::tls::origin::{SecureOrigin, Server, trusting};

#[test]
fn origin_sees_the_request_with_its_authority_and_no_host() {
    for (host, authority) in [
        (HostField::Client, "shop.example".to_owned()),
        (HostField::Endpoint, String::new()),
    ] {
        worker(async {
            let (origin, mut gateway) = Http2Origin::with_gateway().await;
            gateway.terms.host = host;
            let (answer, (seen, _peer)) = join!(gateway.send(get("/a?b=1")), origin.answer());
            assert_eq!(read(answer).await, "ok");
            let expected = match host {
                HostField::Client => authority,
                HostField::Endpoint => origin.tcp.address.to_string(),
            };
            assert_eq!(seen.method(), Method::GET);
            assert_eq!(seen.uri().to_string(), format!("http://{expected}/a?b=1"));
            assert_eq!(seen.headers(), &HeaderMap::new());
        });
    }
}

#[test]
fn handshake_decides_the_protocol_of_each_connection() {
    worker(async {
        let server = Server {
            protocols: vec![b"h2", b"http/1.1"],
            ..Server::default()
        };
        let origin = SecureOrigin::new(&server).await;
        let gateway = trusting(&origin);
        let (answer, (seen, _peer)) = join!(gateway.send(get("/")), async {
            let wire = origin.accept().await;
            assert_eq!(wire.0.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            let mut peer = Peer::begin(wire.0, &h2::server::Builder::new()).await;
            (peer.answer().await, peer)
        });
        let answer = answer.expect("an answer");
        assert_eq!(answer.version(), Version::HTTP_11);
        assert_eq!(read(Ok(answer)).await, "ok");
        assert_eq!(seen.uri().scheme_str(), Some("https"));
    });
}

#[test]
fn request_for_an_upgrade_speaks_http_1_1_beside_others_that_do_not() {
    worker(async {
        let server = Server {
            protocols: vec![b"h2", b"http/1.1"],
            ..Server::default()
        };
        let origin = SecureOrigin::new(&server).await;
        let gateway = trusting(&origin);
        let (answer, mut peer) = join!(gateway.send(get("/1")), async {
            let mut peer = Peer::accept(&origin).await;
            peer.answer().await;
            peer
        });
        assert_eq!(read(answer).await, "ok");
        let mut upgrade = get("/2");
        let websocket = HeaderValue::from_static("websocket");
        upgrade.headers_mut().insert("upgrade", websocket);
        let (answer, (head, _wire)) = join!(gateway.send(upgrade), async {
            let mut wire = origin.accept().await;
            assert_eq!(wire.0.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            let head = wire.head().await;
            wire.say(OK).await;
            (head, wire)
        });
        assert_eq!(read(answer).await, "ok");
        assert!(head.contains("\r\nupgrade: websocket\r\n"), "{head}");
        peer.answers(&gateway, "/3").await;
    });
}

#[test]
fn endpoint_that_changes_its_protocol_is_followed() {
    worker(async {
        let origin = SecureOrigin::new(&Server {
            protocols: vec![b"h2"],
            ..Server::default()
        })
        .await;
        let gateway = trusting(&origin);
        let (answer, peer) = join!(gateway.send(get("/1")), async {
            let mut peer = Peer::accept(&origin).await;
            peer.answer().await;
            peer
        });
        assert_eq!(read(answer).await, "ok");
        drop(peer);
        let origin = origin.restart(&Server::default());
        let (answer, mut wire) = join!(gateway.send(get("/2")), origin.answer(OK));
        assert_eq!(read(answer).await, "ok");
        let (answer, ()) = join!(gateway.send(get("/3")), wire.answer(OK));
        assert_eq!(read(answer).await, "ok", "HTTP/1.1 is kept as before");
    });
}

#[test]
fn answer_that_http_1_1_would_refuse_is_refused() {
    let bad: [(&str, &[(&str, &str)]); 4] = [
        (
            "two lengths",
            &[("content-length", "2"), ("content-length", "2")],
        ),
        ("a list of lengths", &[("content-length", "2, 2")]),
        ("a field of the connection", &[("connection", "close")]),
        ("a coding", &[("transfer-encoding", "chunked")]),
    ];
    for (what, fields) in bad {
        worker(async {
            let (origin, gateway) = Http2Origin::with_gateway().await;
            let (answer, _peer) = join!(gateway.send(get("/")), async {
                let (peer, mut stream) = origin.next().await;
                let mut response = Response::new(());
                for (name, value) in fields {
                    let value = HeaderValue::from_static(value);
                    response.headers_mut().append(*name, value);
                }
                // The library of the origin refuses some of them already.
                if let Ok(mut body) = stream.respond.send_response(response, false) {
                    let _ = body.send_data("ok".into(), true);
                }
                peer
            });
            let error = answer.err().expect(what);
            assert!(
                matches!(error, ForwardError::BadResponse(_)),
                "{what}: {error}"
            );
        });
    }
}

#[test]
fn many_fields_and_many_interim_answers_are_refused() {
    worker(async {
        let (origin, gateway) = Http2Origin::with_gateway().await;
        let (answers, _peer) = join!(
            async {
                let mut causes = Vec::new();
                for _ in 0..2 {
                    causes.push(gateway.cause(get("/")).await);
                }
                causes
            },
            async {
                let (mut peer, mut stream) = origin.next().await;
                let mut response = Response::new(());
                for _ in 0..101 {
                    let value = HeaderValue::from_static("1");
                    response.headers_mut().append("x-a", value);
                }
                stream.begin(response);
                let mut stream = peer.next().await;
                for _ in 0..65 {
                    let hints = Response::builder()
                        .status(103)
                        .body(())
                        .expect("a response");
                    if stream.respond.send_informational(hints).is_err() {
                        break;
                    }
                }
                peer
            }
        );
        assert_eq!(answers, ["head too large", "too many interim responses"]);
    });
}

#[test]
fn interim_answers_are_dropped() {
    worker(async {
        let (origin, gateway) = Http2Origin::with_gateway().await;
        let (answer, _peer) = join!(gateway.send(get("/")), async {
            let (peer, mut stream) = origin.next().await;
            for _ in 0..64 {
                let hints = Response::builder()
                    .status(103)
                    .body(())
                    .expect("a response");
                stream
                    .respond
                    .send_informational(hints)
                    .expect("an open stream");
            }
            stream.ok();
            peer
        });
        assert_eq!(read(answer).await, "ok");
    });
}

#[test]
fn answer_without_content_has_a_length_of_its_own() {
    for (method, status, length, kept) in [
        ("GET", 200, None, None),
        ("HEAD", 200, Some("5"), Some("5")),
        ("GET", 304, Some("5"), Some("5")),
        ("GET", 204, Some("0"), None),
    ] {
        worker(async {
            let (origin, gateway) = Http2Origin::with_gateway().await;
            let asked = request(method, "/", text(""));
            let (answer, _peer) = join!(gateway.send(asked), async {
                let (peer, mut stream) = origin.next().await;
                let mut response = Response::builder().status(status);
                if let Some(length) = length {
                    response = response.header("content-length", length);
                }
                let response = response.body(()).expect("a response");
                (stream.respond.send_response(response, true)).expect("an open stream");
                peer
            });
            let answer = answer.expect("an answer");
            let stated = answer.headers().get("content-length");
            assert_eq!(stated.map(HeaderValue::as_bytes), kept.map(str::as_bytes));
            assert!(answer.body().is_end_stream());
            assert_eq!(answer.body().size_hint().exact(), Some(0));
        });
    }
}

#[test]
fn content_where_none_can_be_is_a_bad_response() {
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304)] {
        worker(async {
            let (origin, gateway) = Http2Origin::with_gateway().await;
            let asked = request(method, "/", text(""));
            let (answer, _peer) = join!(gateway.send(asked), async {
                let (peer, mut stream) = origin.next().await;
                let response = Response::builder().status(status).body(());
                let mut body = stream.begin(response.expect("a response"));
                body.send_data("content".into(), true)
                    .expect("an open stream");
                peer
            });
            match answer {
                Ok(answer) => {
                    let read = http_body_util::BodyExt::collect(answer.into_body()).await;
                    assert!(read.is_err(), "{method} {status}");
                }
                Err(error) => assert!(
                    matches!(error, ForwardError::BadResponse(BadResponse::Body(_))),
                    "{method} {status}: {error}"
                ),
            }
        });
    }
}
