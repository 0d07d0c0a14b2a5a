//! Which connection a request takes, and which connections are kept.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::join;

use super::harness::{
    Gateway, OK, Origin, Wire, data, get, read, request, stream, upstream, worker,
};

/// How an origin ends a connection, to which it may have written before.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The connection stays open.
    Open,
    Close,
    HalfClose,
    Reset,
}

impl End {
    /// Ends the connection; returns it if it must stay open.
    async fn of(self, mut wire: Wire) -> Option<Wire> {
        match self {
            Self::Open => {}
            Self::Close => return None,
            Self::HalfClose => wire.0.shutdown().await.expect("an open connection"),
            Self::Reset => {
                wire.reset();
                return None;
            }
        }
        Some(wire)
    }
}

/// Ends a used connection or only writes to it, lets the gateway notice that if `is_noticed`, and then sends a request
/// that must not be lost.
async fn send_after_end(unasked: &str, end: End, is_noticed: bool) {
    let origin = Origin::new().await;
    let gateway = Gateway::with(&[origin.address], |http| http.retries = 0);
    let (answer, wire) = join!(gateway.send(get("/before")), origin.answer(OK));
    assert_eq!(read(answer).await, "ok");
    gateway.pass(Duration::from_millis(100));
    let written = wire.0.try_write(unasked.as_bytes());
    assert_eq!(written.expect("room"), unasked.len());
    let _held = end.of(wire).await;
    // Unless the test yields below, nothing runs before the request is sent, so the pool cannot know.
    assert_eq!(gateway.pools.idle(), 1);
    if is_noticed {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        gateway.pass(Duration::from_millis(100));
        assert_eq!(gateway.pools.idle(), 0);
    }
    let (frames, body) = stream();
    frames.try_send(Ok(data("body"))).expect("room for one");
    drop(frames);
    let (answer, _wire) = join!(gateway.send(request("POST", "/", body)), async {
        let mut wire = origin.accept().await;
        let sent = wire.read_to("4\r\nbody\r\n0\r\n\r\n").await;
        assert!(sent.starts_with("POST / HTTP/1.1\r\n"), "{sent}");
        wire.say("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nown")
            .await;
        wire
    });
    assert_eq!(read(answer).await, "own", "{unasked:?} {end:?}");
    assert!(gateway.counts("connections_opened 2"));
}

#[test]
fn request_goes_to_a_fresh_connection_if_the_idle_one_was_ended_or_written_to() {
    for unasked in ["", "H", OK, "HTTP/1.1 100 Continue\r\n\r\n"] {
        for end in [End::Open, End::Close, End::HalfClose, End::Reset] {
            if unasked.is_empty() && matches!(end, End::Open) {
                continue;
            }
            for is_noticed in [false, true] {
                worker(send_after_end(unasked, end, is_noticed));
            }
        }
    }
}

#[test]
fn connection_is_kept_only_if_the_response_lets_it() {
    for (answer, idle) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 1),
        ("HTTP/1.1 204 No Content\r\n\r\n", 1),
        (
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            1,
        ),
        // The length is that of the body which the answer to a plain GET would have.
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n", 1),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=5\r\n\r\n",
            1,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=1\r\n\r\n",
            0,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            0,
        ),
        (
            "HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n",
            0,
        ),
    ] {
        worker(async {
            let (origin, gateway) = Origin::with_gateway().await;
            let (response, _wire) = join!(gateway.send(get("/")), origin.answer(answer));
            assert_eq!(read(response).await, "");
            assert_eq!(gateway.pools.idle(), idle, "{answer}");
        });
    }
}

#[test]
fn connection_is_not_kept_while_the_request_is_still_being_sent() {
    worker(async {
        let (origin, gateway) = Origin::with_gateway().await;
        let (frames, body) = stream();
        let post = request("POST", "/", body);
        let (answer, mut wire) = join!(gateway.send(post), origin.answer(OK));
        assert_eq!(read(answer).await, "ok");
        assert_eq!(gateway.pools.idle(), 0);
        assert_eq!(wire.rest().await, "");
        frames.closed().await;
    });
}

#[test]
fn idle_connections_are_bounded_in_number_and_time() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::with(&[origin.address], |http| http.max_idle = 2);
        let (a, b, c, wires) = join!(
            gateway.send(get("/")),
            gateway.send(get("/")),
            gateway.send(get("/")),
            async {
                let wires = [
                    origin.accept().await,
                    origin.accept().await,
                    origin.accept().await,
                ];
                let mut answered = Vec::new();
                for mut wire in wires {
                    wire.answer(OK).await;
                    answered.push(wire);
                }
                answered
            }
        );
        for answer in [a, b, c] {
            read(answer).await;
        }
        assert_eq!(gateway.pools.idle(), 2);
        gateway.pass(Duration::from_secs(59));
        assert_eq!(gateway.pools.idle(), 2);
        gateway.pass(Duration::from_secs(1));
        assert_eq!(gateway.pools.idle(), 0);
        for mut wire in wires {
            assert_eq!(wire.rest().await, "");
        }
    });
}

#[test]
fn pools_outlive_a_reload_that_keeps_their_endpoint() {
    worker(async {
        let (kept, gone) = (Origin::new().await, Origin::new().await);
        let mut gateway = Gateway::new(&[&kept, &gone]);
        let both = async {
            for target in ["/1", "/2"] {
                read(gateway.send(get(target)).await).await;
            }
        };
        let ((), mut wire, mut lost) = join!(both, kept.answer(OK), gone.answer(OK));
        gateway.upstream = upstream(&[kept.address], |http| http.retries = 0);
        let (answer, ()) = join!(gateway.send(get("/3")), wire.answer(OK));
        assert_eq!(read(answer).await, "ok");
        gateway.pass(Duration::ZERO);
        assert_eq!(gateway.pools.idle(), 1);
        assert_eq!(lost.rest().await, "");
    });
}

#[test]
fn upstream_that_a_reload_replaces_is_forgotten_whoever_has_used_it() {
    worker(async {
        let origin = Origin::new().await;
        let mut gateways = [Gateway::new(&[&origin]), Gateway::new(&[])];
        gateways[1].endpoints = Arc::clone(&gateways[0].endpoints);
        gateways[1].upstream = Arc::clone(&gateways[0].upstream);
        let old = Arc::downgrade(&gateways[0].adopt());
        let mut wires = Vec::new();
        for gateway in &gateways {
            let (answer, wire) = join!(gateway.send(get("/")), origin.answer(OK));
            read(answer).await;
            wires.push(wire);
        }
        let next = upstream(&[origin.address], |http| http.retries = 0);
        for (gateway, wire) in gateways.iter_mut().zip(&mut wires) {
            gateway.upstream = Arc::clone(&next);
            gateway.adopt();
            gateway.pass(Duration::from_secs(1));
            let (answer, ()) = join!(gateway.send(get("/")), wire.answer(OK));
            assert_eq!(read(answer).await, "ok", "its connection is taken over");
            gateway.pass(Duration::from_secs(1));
        }
        assert_eq!(old.strong_count(), 0);
    });
}
