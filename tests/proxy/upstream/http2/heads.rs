//! What an origin sees of a request's head, and a client of an answer's.

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
fn handshake_decides_the_protocol_of_each_connection_and_an_upgrade_speaks_http_1_1() {
    worker(async {
        let server = Server {
            protocols: vec![b"h2", b"http/1.1"],
            ..Server::default()
        };
        let origin = SecureOrigin::new(&server).await;
        let gateway = trusting(&origin);
        let (answer, (seen, mut peer)) = join!(gateway.send(get("/1")), async {
            let mut peer = Peer::accept(&origin).await;
            (peer.answer().await, peer)
        });
        let answer = answer.expect("an answer");
        assert_eq!(answer.version(), Version::HTTP_11);
        assert_eq!(read(Ok(answer)).await, "ok");
        assert_eq!(seen.uri().scheme_str(), Some("https"));
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
