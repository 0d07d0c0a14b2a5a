//! What becomes of a request, and of the head of its response.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::join;
use tollgate::proxy::upstream::ForwardError;

use super::harness::{OK, Origin, data, read, request, stream, text, worker};

#[test]
fn time_that_the_client_takes_over_its_body_is_not_the_upstreams() {
    worker(async {
        let (origin, gateway) = Origin::with_gateway().await;
        let (frames, body) = stream();
        let (answer, ()) = join!(gateway.send(request("POST", "/", body)), async {
            let mut wire = origin.accept().await;
            wire.head().await;
            gateway.pass(Duration::from_mins(5));
            frames.send(Ok(data("slow"))).await.expect("a reader");
            wire.read_to("slow\r\n").await;
            gateway.pass(Duration::from_mins(5));
            drop(frames);
            wire.read_to("0\r\n\r\n").await;
            gateway.pass(Duration::from_secs(31));
        });
        assert!(matches!(answer.err(), Some(ForwardError::Timeout)));
    });
}

#[test]
fn request_arrives_as_it_was_sent() {
    // A body that an origin may not expect is the last thing on its connection.
    for (method, body, sent, idle) in [
        ("POST", text("abc"), "content-length: 3\r\n\r\nabc", 1),
        (
            "GET",
            text("abc"),
            "connection: close\r\ncontent-length: 3\r\n\r\nabc",
            0,
        ),
        (
            "GET",
            chunked(),
            "transfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            0,
        ),
        (
            "POST",
            chunked(),
            "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            1,
        ),
        ("DELETE", text(""), "\r\n", 1),
    ] {
        worker(async {
            let (origin, gateway) = Origin::with_gateway().await;
            let expected = format!("{method} /a?b HTTP/1.1\r\nhost: shop.example\r\n{sent}");
            let (answer, (received, _wire)) =
                join!(gateway.send(request(method, "/a?b", body)), async {
                    let mut wire = origin.accept().await;
                    let mut received = vec![0; expected.len()];
                    wire.0.read_exact(&mut received).await.expect("a request");
                    wire.say(OK).await;
                    (received, wire)
                });
            read(answer).await;
            assert_eq!(String::from_utf8(received).expect("text"), expected);
            assert_eq!(gateway.pools.idle(), idle, "{expected}");
        });
    }
}

fn chunked() -> super::harness::TestBody {
    let (frames, body) = stream();
    frames.try_send(Ok(data("abc"))).expect("room for one");
    body
}
