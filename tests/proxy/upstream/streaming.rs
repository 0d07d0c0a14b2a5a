//! Bodies in both directions: their pace, their end, and whose fault it is when they break off.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;
use tollgate::proxy::upstream::ForwardError;
use tollgate::proxy::upstream::UpstreamBodyError;

use super::harness::{Origin, data, get, read, request, stream, worker};

#[test]
fn body_that_stalls_times_out_only_while_it_is_waited_for() {
    worker(async {
        let (origin, gateway) = Origin::with_gateway().await;
        let half = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
        let (answer, mut wire) = join!(gateway.send(get("/")), origin.answer(half));
        let mut body = answer.expect("a response").into_body();
        body.frame().await.expect("a frame").expect("data");
        // The client is busy with what it has.
        gateway.pass(Duration::from_mins(5));
        let (frame, ()) = join!(body.frame(), async {
            gateway.pass(Duration::from_secs(59));
            wire.say("more").await;
        });
        assert_eq!(
            frame.expect("a frame").expect("data").into_data().ok(),
            Some(Bytes::from_static(b"more"))
        );
        let (frame, ()) = join!(body.frame(), async {
            gateway.pass(Duration::from_secs(61));
        });
        assert!(matches!(frame, Some(Err(UpstreamBodyError::Timeout))));
        assert_eq!(wire.rest().await, "");
    });
}

#[test]
fn error_of_the_requests_body_is_the_clients_fault() {
    worker(async {
        let (origin, gateway) = Origin::with_gateway().await;
        let (frames, body) = stream();
        let (answer, mut wire) = join!(gateway.send(request("POST", "/", body)), async {
            let mut wire = origin.accept().await;
            wire.head().await;
            let gone = io::Error::from(io::ErrorKind::ConnectionReset);
            frames.send(Err(gone.into())).await.expect("a reader");
            wire
        });
        let error = answer.err().expect("a broken request");
        assert!(matches!(error, ForwardError::ClientBody(_)));
        let kind = error.body_error::<io::Error>().map(io::Error::kind);
        assert_eq!(kind, Some(io::ErrorKind::ConnectionReset));
        assert_eq!(wire.rest().await, "");
    });
}

#[test]
fn error_of_the_requests_body_breaks_off_an_early_response_as_the_clients_fault() {
    worker(async {
        let (origin, gateway) = Origin::with_gateway().await;
        let (frames, body) = stream();
        let early = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nearly\r\n";
        let post = request("POST", "/", body);
        let (answer, _wire) = join!(gateway.send(post), origin.answer(early));
        let mut body = answer.expect("a response").into_body();
        body.frame().await.expect("a frame").expect("data");
        let (frame, sent) = join!(body.frame(), frames.send(Err("gone".into())));
        sent.expect("a reader");
        assert!(matches!(frame, Some(Err(UpstreamBodyError::Request(_)))));
    });
}

#[test]
fn request_and_response_stream_at_once() {
    worker(async {
        let (origin, gateway) = Origin::with_gateway().await;
        let (frames, body) = stream();
        let early = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let post = request("POST", "/", body);
        let (answer, mut wire) = join!(gateway.send(post), origin.answer(early));
        let mut body = answer.expect("a response").into_body();
        for _ in 0..3 {
            frames.send(Ok(data("ping"))).await.expect("a reader");
            wire.read_to("ping\r\n").await;
            wire.say("4\r\npong\r\n").await;
            let frame = body.frame().await.expect("a frame").expect("data");
            assert_eq!(frame.into_data().ok(), Some(Bytes::from_static(b"pong")));
        }
        drop(frames);
        wire.read_to("0\r\n\r\n").await;
        wire.say("0\r\n\r\n").await;
        assert!(body.frame().await.is_none());
        assert_eq!(gateway.pools.idle(), 1);
    });
}

#[test]
fn neither_direction_is_buffered() {
    worker(async {
        let (origin, gateway) = Origin::with_gateway().await;
        let (frames, body) = stream();
        let taken = Rc::new(Cell::new(0));
        let client = tokio::task::spawn_local({
            let taken = Rc::clone(&taken);
            async move {
                let frame = Bytes::from(vec![b'x'; MIB]);
                for _ in 0..BODY_MIB {
                    let frame = Ok(Frame::data(frame.clone()));
                    frames.send(frame).await.expect("a reader");
                    taken.set(taken.get() + 1);
                }
            }
        });
        let mut post = request("POST", "/", body);
        let length = (BODY_MIB * MIB).into();
        post.headers_mut().insert("content-length", length);
        let (answer, mut wire) = join!(gateway.send(post), async {
            let mut wire = origin.accept().await;
            wire.head().await;
            steady(&taken).await;
            assert!(taken.get() < BODY_MIB / 2, "the client is held back");
            let mut body = vec![0; BODY_MIB * MIB];
            wire.0.read_exact(&mut body).await.expect("the whole body");
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                BODY_MIB * MIB
            );
            wire.say(&head).await;
            wire
        });
        client.await.expect("a client that ends");

        let given = Rc::new(Cell::new(0));
        let sender = tokio::task::spawn_local({
            let given = Rc::clone(&given);
            async move {
                let part = vec![b'y'; MIB];
                for _ in 0..BODY_MIB {
                    wire.0.write_all(&part).await.expect("a reader");
                    given.set(given.get() + 1);
                }
                wire
            }
        });
        steady(&given).await;
        assert!(given.get() < BODY_MIB / 2, "the origin is held back");
        assert_eq!(read(answer).await.len(), BODY_MIB * MIB);
        sender.await.expect("an origin that ends");
        assert_eq!(gateway.pools.idle(), 1);
    });
}

/// Waits until nothing moves any more.
async fn steady(count: &Cell<usize>) {
    let mut quiet = 0;
    while quiet < 1000 {
        let before = count.get();
        tokio::task::yield_now().await;
        quiet = if count.get() == before { quiet + 1 } else { 0 };
    }
}

const MIB: usize = 1 << 20;
const BODY_MIB: usize = 64;
