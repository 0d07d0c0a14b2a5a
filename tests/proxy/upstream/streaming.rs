//! Bodies in both directions: which side's time they take.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::join;
use tollgate::proxy::upstream::{ForwardError, UpstreamBodyError};

use super::harness::{Origin, data, get, request, stream, worker};

#[test]
fn body_that_stalls_times_out_only_while_it_is_waited_for() {
    worker(async {
        let (origin, gateway) = Origin::with_gateway().await;
        let half = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
        let (answer, mut wire) = join!(gateway.send(get("/")), origin.answer(half));
        let mut body = answer.expect("a response").into_body();
        body.frame().await.expect("a frame").expect("data");
        // The client is busy with the part that it has.
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
