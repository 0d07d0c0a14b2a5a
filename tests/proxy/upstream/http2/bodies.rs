//! Bodies in both directions, byte for byte, and trailers.

use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, HeaderValue, Response};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt as _;
use tokio::join;
use tollgate::proxy::upstream::{ForwardError, UpstreamBodyError};

use super::origin::Http2Origin;
use crate::upstream::harness::{BoxError, data, get, read, request, stream, text, worker};

fn fields(name: &'static str, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(
        http::HeaderName::from_static(name),
        HeaderValue::from_static(value),
    )])
}

#[test]
fn body_and_trailers_of_a_request_arrive() {
    worker(async {
        let (origin, gateway) = Http2Origin::with_gateway().await;
        let (frames, body) = stream();
        let (answer, ((body, trailers), _peer)) =
            join!(gateway.send(request("POST", "/", body)), async {
                let (peer, mut stream) = origin.next().await;
                frames.send(Ok(data("a"))).await.expect("a reader");
                frames.send(Ok(data("bc"))).await.expect("a reader");
                let mut trailers = fields("x-sum", "1");
                trailers.insert("content-length", HeaderValue::from_static("9"));
                frames
                    .send(Ok(Frame::trailers(trailers)))
                    .await
                    .expect("a reader");
                drop(frames);
                let read = stream.read().await;
                stream.ok();
                (read, peer)
            });
        assert_eq!(read(answer).await, "ok");
        assert_eq!(
            (body.as_slice(), trailers),
            (&b"abc"[..], Some(fields("x-sum", "1")))
        );
    });
}

#[test]
fn length_is_said_if_it_is_known() {
    let (frames, unknown) = stream();
    drop(frames);
    for (method, body, length) in [
        ("POST", text("abc"), Some("3")),
        ("POST", text(""), Some("0")),
        ("GET", text(""), None),
        ("PUT", unknown, None),
    ] {
        worker(async {
            let (origin, gateway) = Http2Origin::with_gateway().await;
            let (answer, (seen, _peer)) = join!(gateway.send(request(method, "/", body)), async {
                let (peer, mut stream) = origin.next().await;
                stream.read().await;
                (stream.ok(), peer)
            });
            assert_eq!(read(answer).await, "ok");
            let said = seen.headers().get("content-length");
            assert_eq!(
                said.map(HeaderValue::as_bytes),
                length.map(str::as_bytes),
                "{method}"
            );
        });
    }
}

#[test]
fn body_that_differs_from_its_length_resets_the_stream() {
    for pieces in [&["abcd"][..], &["ab"], &["ab", "cd"]] {
        worker(async {
            let (origin, gateway) = Http2Origin::with_gateway().await;
            let (frames, body) = stream();
            let body = Announced { body, length: 3 };
            let sent = async {
                let head = http::Request::post("/").header("host", "a");
                gateway.send(head.body(body).expect("a request")).await
            };
            let (answer, reset) = join!(sent, async {
                let (peer, mut stream) = origin.next().await;
                for piece in pieces {
                    // The stream may be over already.
                    let _ = frames.send(Ok(data(piece))).await;
                }
                drop(frames);
                let reset = std::future::poll_fn(|cx| stream.respond.poll_reset(cx)).await;
                drop(peer);
                reset
            });
            assert!(
                matches!(answer, Err(ForwardError::ClientBody(_))),
                "{pieces:?}"
            );
            assert_eq!(reset.expect("a reset"), Reason::CANCEL);
        });
    }
}

/// A body that announces the given length, whatever it really has.
struct Announced<B> {
    body: B,
    length: u64,
}

impl<B: http_body::Body<Data = Bytes, Error = BoxError> + Unpin> http_body::Body for Announced<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(cx)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.length)
    }
}

#[test]
fn announced_length_is_the_size_of_the_body() {
    worker(async {
        let (origin, gateway) = Http2Origin::with_gateway().await;
        let (answer, _peer) = join!(gateway.send(get("/")), async {
            let (peer, mut stream) = origin.next().await;
            let response = Response::builder().header("content-length", "3").body(());
            let mut body = stream.begin(response.expect("a response"));
            body.send_data(Bytes::from_static(b"abc"), true)
                .expect("a stream");
            peer
        });
        let answer = answer.expect("a response");
        assert_eq!(answer.headers()["content-length"], "3");
        assert_eq!(answer.body().size_hint().exact(), Some(3));
        assert_eq!(read(Ok(answer)).await, "abc");
    });
}

#[test]
fn both_directions_move_independently() {
    worker(async {
        let (origin, gateway) = Http2Origin::with_gateway().await;
        let (frames, body) = stream();
        let (answer, (mut peer, mut stream, mut back)) =
            join!(gateway.send(request("POST", "/", body)), async {
                let (peer, mut stream) = origin.next().await;
                // The answer begins before any of the body.
                let back = stream.begin(Response::new(()));
                (peer, stream, back)
            });
        let mut answer = answer.expect("a response").into_body();
        for turn in ["a", "b", "c"] {
            frames.send(Ok(data(turn))).await.expect("a reader");
            let ((), frame) = join!(
                async {
                    let received = stream.request.body_mut().data().await;
                    let received = received.expect("data").expect("data");
                    back.send_data(received, false).expect("a stream");
                },
                answer.frame()
            );
            let echoed = frame.expect("a frame").expect("data").into_data();
            assert_eq!(echoed.expect("data"), turn);
        }
        drop(frames);
        let ((), trailers) = join!(
            async {
                assert_eq!(stream.read().await, (Vec::new(), None));
                back.send_trailers(fields("grpc-status", "0"))
                    .expect("a stream");
            },
            answer.frame()
        );
        let trailers = trailers
            .expect("a frame")
            .expect("trailers")
            .into_trailers();
        assert_eq!(trailers.expect("trailers"), fields("grpc-status", "0"));
        peer.answers(&gateway, "/2").await;
    });
}

#[test]
fn body_of_a_request_that_fails_breaks_the_answer() {
    for is_answered in [false, true] {
        worker(async {
            let (origin, gateway) = Http2Origin::with_gateway().await;
            let (frames, body) = stream();
            let (answer, (_peer, reset)) = join!(
                async {
                    let answer = gateway.send(request("POST", "/", body)).await;
                    match answer {
                        Ok(answer) => answer
                            .into_body()
                            .collect()
                            .await
                            .map(|_| ())
                            .map_err(|error| matches!(error, UpstreamBodyError::Request(_))),
                        Err(error) => Err(matches!(error, ForwardError::ClientBody(_))),
                    }
                },
                async {
                    let (peer, mut stream) = origin.next().await;
                    let back = is_answered.then(|| stream.begin(Response::new(())));
                    for _ in 0..20 {
                        tokio::task::yield_now().await;
                    }
                    frames.send(Err("gone".into())).await.expect("a reader");
                    let reset = match back {
                        Some(mut back) => std::future::poll_fn(|cx| back.poll_reset(cx)).await,
                        None => std::future::poll_fn(|cx| stream.respond.poll_reset(cx)).await,
                    };
                    (peer, reset)
                }
            );
            assert_eq!(answer, Err(true));
            assert_eq!(reset.expect("a reset"), Reason::CANCEL);
        });
    }
}

#[test]
fn client_that_does_not_read_holds_a_window_and_stops_nobody_else() {
    const WINDOW: usize = 256 * 1024;
    worker(async {
        let (origin, gateway) = Http2Origin::with_gateway().await;
        let (answer, (mut peer, mut body)) = join!(gateway.send(get("/1")), async {
            let (peer, mut stream) = origin.next().await;
            (peer, stream.begin(Response::new(())))
        });
        let stalled = answer.expect("a response");
        let mut sent = 0;
        body.reserve_capacity(16 * WINDOW);
        while sent < WINDOW {
            let capacity = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
            let capacity = capacity.expect("an open stream").expect("an open stream");
            body.send_data(vec![0; capacity].into(), false)
                .expect("an open stream");
            sent += capacity;
        }
        peer.answers(&gateway, "/2").await;
        assert_eq!(
            (sent, body.capacity()),
            (WINDOW, 0),
            "no more than a window"
        );
        let mut stalled = stalled.into_body();
        let ((), more) = join!(
            async {
                for _ in 0..WINDOW / 16_384 {
                    stalled.frame().await.expect("a frame").expect("data");
                }
            },
            std::future::poll_fn(|cx| body.poll_capacity(cx))
        );
        assert!(
            more.expect("an open stream").is_ok(),
            "the window opens as the client reads"
        );
    });
}
