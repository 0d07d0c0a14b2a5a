//! Which connection a request takes, and which connections are kept.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::join;
use tollgate::proxy::upstream::HostField;

use super::harness::{Gateway, OK, Origin, get, read, request, stream, text, upstream, worker};

#[test]
fn next_request_takes_the_connection_of_the_last() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::new(&[&origin]);
        let (answer, mut wire) = join!(gateway.send(get("/1")), origin.answer(OK));
        assert_eq!(read(answer).await, "ok");
        assert_eq!(gateway.pools.idle(), 1);
        let (answer, ()) = join!(gateway.send(get("/2")), wire.answer(OK));
        assert_eq!(read(answer).await, "ok");
    });
}

#[test]
fn closed_pooled_connection_loses_no_request() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::with(&[origin.address], |http| http.retries = 0);
        let (answer, wire) = join!(gateway.send(get("/1")), origin.answer(OK));
        read(answer).await;
        gateway.pass(Duration::from_millis(100));
        // Nothing else runs before the request is sent, so the pool cannot know.
        drop(wire);
        assert_eq!(gateway.pools.idle(), 1);
        let post = request("POST", "/2", text("body"));
        let (answer, sent) = join!(gateway.send(post), async {
            let mut wire = origin.accept().await;
            let sent = wire.read_to("\r\n\r\nbody").await;
            wire.say(OK).await;
            sent
        });
        assert_eq!(read(answer).await, "ok");
        assert!(sent.starts_with("POST /2 HTTP/1.1\r\n"));
    });
}

#[test]
fn connection_is_kept_only_if_the_response_lets_it() {
    for (answer, idle) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 1),
        ("HTTP/1.1 204 No Content\r\n\r\n", 1),
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
            let origin = Origin::new().await;
            let gateway = Gateway::new(&[&origin]);
            let (response, _wire) = join!(gateway.send(get("/")), origin.answer(answer));
            assert_eq!(read(response).await, "");
            assert_eq!(gateway.pools.idle(), idle, "{answer}");
        });
    }
}

#[test]
fn connection_is_not_kept_after_an_answer_that_announces_a_body_and_cannot_have_one() {
    for (answer, idle) in [
        ("HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n", 0),
        ("HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok", 0),
        (
            "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n",
            0,
        ),
        (
            "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            0,
        ),
        // Here it is the length of what a GET would have been answered.
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n", 1),
    ] {
        worker(async {
            let origin = Origin::new().await;
            let gateway = Gateway::new(&[&origin]);
            let (response, _wire) = join!(gateway.send(get("/")), origin.answer(answer));
            // A refused answer is as good.
            if response.is_ok() || idle > 0 {
                assert_eq!(read(response).await, "", "{answer}");
            }
            assert_eq!(gateway.pools.idle(), idle, "{answer}");
        });
    }
}

#[test]
fn connection_is_not_kept_while_the_request_is_still_being_sent() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::new(&[&origin]);
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
fn connection_of_a_dropped_response_is_closed() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::new(&[&origin]);
        let half = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
        let (answer, mut wire) = join!(gateway.send(get("/")), origin.answer(half));
        let mut body = answer.expect("a response").into_body();
        body.frame().await.expect("a frame").expect("data");
        drop(body);
        assert_eq!(wire.rest().await, "");
        assert_eq!(gateway.pools.idle(), 0);
    });
}

#[test]
fn connection_of_a_dropped_request_is_closed() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::new(&[&origin]);
        let mut wire = tokio::select! {
            _ = gateway.send(get("/")) => unreachable!("nobody answers"),
            wire = async {
                let mut wire = origin.accept().await;
                wire.head().await;
                wire
            } => wire,
        };
        assert_eq!(wire.rest().await, "");
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

#[test]
fn endpoints_take_turns_and_may_be_named_as_host() {
    worker(async {
        let origins = [Origin::new().await, Origin::new().await];
        let mut gateway = Gateway::new(&[&origins[0], &origins[1]]);
        gateway.terms.host = HostField::Endpoint;
        let mut turns = Vec::new();
        for _ in 0..4 {
            let (answer, head) = join!(gateway.send(get("/")), async {
                let (at, mut wire) = tokio::select! {
                    wire = origins[0].accept() => (0, wire),
                    wire = origins[1].accept() => (1, wire),
                };
                turns.push(at);
                let head = wire.head().await;
                wire.say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    .await;
                head
            });
            read(answer).await;
            let origin = &origins[turns[turns.len() - 1]];
            let named = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", origin.address);
            assert_eq!(head, named);
        }
        assert!(turns == [0, 1, 0, 1] || turns == [1, 0, 1, 0], "{turns:?}");
    });
}
