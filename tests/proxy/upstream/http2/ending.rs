//! How a stream or a connection ends, and what that means for its request.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::Response;
use http_body_util::BodyExt as _;
use tokio::join;
use tollgate::proxy::upstream::{ForwardError, UpstreamBodyError};

use super::origin::Http2Origin;
use crate::upstream::harness::{data, get, read, request, stream, text, worker};

#[test]
fn refused_stream_is_sent_again_as_often_as_may_be_if_its_body_was_not_begun() {
    const REFUSED: &str = "stream reset (REFUSED_STREAM)";
    for (retries, body, refusals, retried, expected) in [
        (1, "", 1, 1, Ok("ok")),
        (0, "", 1, 0, Err(REFUSED)),
        (1, "body", 1, 0, Err(REFUSED)),
        (1, "", 3, 1, Err(REFUSED)),
    ] {
        worker(async {
            let origin = Http2Origin::new().await;
            let gateway = origin.gateway_with(|http| http.retries = retries);
            let post = request("POST", "/", text(body));
            let (answer, _peer) = join!(gateway.try_send(post), async {
                let mut peer = origin.accept().await;
                for _ in 0..refusals {
                    let mut refused = peer.next().await;
                    refused.read().await;
                    refused.respond.send_reset(Reason::REFUSED_STREAM);
                }
                if expected.is_ok() {
                    peer.answer().await;
                }
                peer
            });
            assert!(gateway.counts(&format!("retries {retried}")));
            let is_sent = gateway.attempts.borrow().is_sent();
            let is_begun = expected.is_ok() || !body.is_empty();
            assert_eq!(is_sent, is_begun, "as far as is known");
            let answered = match answer {
                Ok(answer) => Ok(read(Ok(answer)).await),
                Err(failure) => Err(failure.cause),
            };
            assert_eq!(answered.as_deref().map_err(|cause| &**cause), expected);
        });
    }
}

#[test]
fn answer_that_is_reset_is_broken() {
    const BROKEN: Option<bool> = None;
    for (reason, length, has_known_end) in [
        (Reason::INTERNAL_ERROR, None, BROKEN),
        (Reason::CANCEL, None, BROKEN),
        // NO_ERROR is for complete answers only, but an origin may also send it for an answer that is cut.
        (Reason::NO_ERROR, None, Some(false)),
        (Reason::NO_ERROR, Some(4), Some(true)),
        (Reason::NO_ERROR, Some(5), BROKEN),
    ] {
        worker(async {
            let (origin, gateway) = Http2Origin::with_gateway().await;
            let (answer, _peer) = join!(gateway.send(get("/")), async {
                let (peer, mut stream) = origin.next().await;
                let mut response = Response::builder();
                if let Some(length) = length {
                    response = response.header("content-length", length);
                }
                let mut body = stream.begin(response.body(()).expect("a response"));
                body.send_data(Bytes::from_static(b"half"), false)
                    .expect("a stream");
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                body.send_reset(reason);
                peer
            });
            let mut body = answer.expect("a response").into_body();
            let collected = (&mut body).collect().await;
            match (collected, has_known_end) {
                (Ok(whole), Some(has_known_end)) => {
                    assert_eq!(whole.to_bytes(), "half", "{reason:?}");
                    assert_eq!(body.has_known_end(), has_known_end, "{reason:?} {length:?}");
                }
                (Err(UpstreamBodyError::Broken(_)), BROKEN) => {}
                (collected, _) => panic!("{reason:?} {length:?}: {collected:?}"),
            }
        });
    }
}

#[test]
fn lost_connection_is_a_bad_response_unless_the_request_may_be_done_twice() {
    for (method, is_reused, is_repeated) in [
        ("GET", true, true),
        ("GET", false, true),
        ("POST", true, false),
        ("POST", false, false),
    ] {
        worker(async {
            let (origin, gateway) = Http2Origin::with_gateway().await;
            let mut peer = if is_reused {
                let (answer, peer) = join!(gateway.send(get("/")), async {
                    let mut peer = origin.accept().await;
                    peer.answer().await;
                    peer
                });
                read(answer).await;
                Some(peer)
            } else {
                None
            };
            let asked = request(method, "/", text(""));
            let (answer, _new) = join!(gateway.send(asked), async {
                let mut peer = match peer.take() {
                    Some(peer) => peer,
                    None => origin.accept().await,
                };
                // If the stream were dropped before the connection, it would be reset.
                let _stream = peer.next().await;
                drop(peer);
                if is_repeated {
                    return Some(origin.answer().await);
                }
                None
            });
            match answer {
                Ok(answer) => assert!(is_repeated && read(Ok(answer)).await == "ok"),
                Err(error) => assert!(
                    !is_repeated && matches!(error, ForwardError::BadResponse(_)),
                    "{method} {error}"
                ),
            }
        });
    }
}

#[test]
fn body_that_stands_still_is_cut_unless_it_may_take_any_time() {
    for (timeout, is_cut) in [(Some(Duration::from_mins(1)), true), (None, false)] {
        worker(async {
            let (origin, mut gateway) = Http2Origin::with_gateway().await;
            gateway.terms.body_timeout = timeout;
            let (answer, (_peer, mut body)) = join!(gateway.send(get("/1")), async {
                let (peer, mut stream) = origin.next().await;
                let mut body = stream.begin(Response::new(()));
                body.send_data(Bytes::from_static(b"a"), false)
                    .expect("a stream");
                (peer, body)
            });
            let mut received = answer.expect("a response").into_body();
            received.frame().await.expect("a frame").expect("data");
            let (next, ()) = join!(received.frame(), async {
                tokio::task::yield_now().await;
                for _ in 0..9 {
                    gateway.pass(Duration::from_secs(10));
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                }
                let _ = body.send_data(Bytes::from_static(b"b"), true);
            });
            match next.expect("a frame") {
                Ok(frame) => assert!(!is_cut && frame.into_data().expect("data") == "b"),
                Err(error) => assert!(is_cut && matches!(error, UpstreamBodyError::Timeout)),
            }
        });
    }
}

#[test]
fn time_that_the_client_takes_is_not_the_origins() {
    worker(async {
        let (origin, gateway) = Http2Origin::with_gateway().await;
        let (frames, body) = stream();
        let (answer, _peer) = join!(gateway.send(request("POST", "/", body)), async {
            let (peer, mut stream) = origin.next().await;
            for _ in 0..3 {
                gateway.pass(Duration::from_secs(20));
                frames.send(Ok(data("a"))).await.expect("a reader");
            }
            drop(frames);
            assert_eq!(stream.read().await.0, b"aaa");
            stream.ok();
            peer
        });
        assert_eq!(read(answer).await, "ok");
    });
}
