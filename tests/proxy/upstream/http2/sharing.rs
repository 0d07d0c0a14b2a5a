//! Which connections requests share, and how long these connections are kept.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::join;
use tollgate::proxy::upstream::ForwardError;
use tollgate::proxy::upstream::http2::STREAMS_MAX;

use super::origin::{Http2Origin, Peer, gateway};
use crate::upstream::harness::{Gateway, Origin, get, read, upstream, worker};
use crate::upstream::tls::origin::{SecureOrigin, Server, trusting};

/// Sends `times` requests at once, and reads all answers.
async fn ask(gateway: &Gateway, times: usize) {
    let sent = (0..times).map(|_| async { read(gateway.send(get("/")).await).await });
    for answer in join_all(sent).await {
        assert_eq!(answer, "ok");
    }
}

/// Answers `count` requests, in reverse order.
async fn serve(peer: &mut Peer, count: usize) {
    peer.gather(count).await;
    while let Some(stream) = peer.waiting.pop_back() {
        stream.ok();
    }
}

#[test]
fn requests_at_once_wait_for_the_first_handshake_with_an_endpoint() {
    worker(async {
        let origin = SecureOrigin::new(&Server {
            protocols: vec![b"h2"],
            ..Server::default()
        })
        .await;
        let gateway = trusting(&origin);
        let ((), _peer) = join!(ask(&gateway, 64), async {
            let mut peer = Peer::accept(&origin).await;
            serve(&mut peer, 64).await;
            peer
        });
        assert!(gateway.counts("connections_opened 1"));
    });
}

#[test]
fn requests_at_once_share_a_connection_and_one_more_than_it_carries_opens_another() {
    let most = STREAMS_MAX as usize;
    for (said, room) in [(None, most), (Some(3), 3), (Some(1000), most)] {
        worker(async {
            let mut origin = Http2Origin::new().await;
            if let Some(said) = said {
                origin.builder.max_concurrent_streams(said);
            }
            let gateway = origin.gateway();
            let ((), _peers) = join!(ask(&gateway, room + 1), async {
                let mut first = origin.accept().await;
                first.gather(room).await;
                let mut second = origin.accept().await;
                serve(&mut second, 1).await;
                serve(&mut first, room).await;
                (first, second)
            });
            assert!(gateway.counts("connections_opened 2"), "{said:?}");
            let reused = format!("connections_reused {}", room - 1);
            assert!(gateway.counts(&reused), "{said:?}");
        });
    }
}

#[test]
fn attempt_that_fails_fails_for_all_who_wait_for_it() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = gateway(&[origin.address], |http| http.retries = 0);
        let sent = (0..8).map(|_| gateway.try_send(get("/")));
        let (failures, ()) = join!(join_all(sent), async { drop(origin.accept().await) });
        for failure in failures {
            let failure = failure.err().expect("no answer");
            assert!(matches!(failure.error, ForwardError::Connect(_)));
            assert_eq!(&*failure.cause, "no HTTP/2: closed by the origin");
        }
    });
}

#[test]
fn attempt_that_is_given_up_is_made_by_another() {
    worker(async {
        let (origin, gateway) = Http2Origin::with_gateway().await;
        let mut first = Box::pin(gateway.send(get("/1")));
        let tcp = tokio::select! {
            _ = &mut first => unreachable!("nobody answers"),
            wire = origin.tcp.accept() => wire,
        };
        let second = gateway.send(get("/2"));
        let (answer, (seen, _peer)) = join!(second, async {
            tokio::task::yield_now().await;
            drop(first);
            origin.answer().await
        });
        assert_eq!(read(answer).await, "ok");
        assert_eq!(seen.uri().path(), "/2");
        drop(tcp);
    });
}

#[test]
fn origin_that_does_not_speak_http_2_is_no_endpoint() {
    for (said, cause) in [
        (
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "no HTTP/2: malformed HTTP/2 (FRAME_SIZE_ERROR), so the connection is retired",
        ),
        ("", "no HTTP/2: closed by the origin"),
    ] {
        worker(async {
            let origin = Origin::new().await;
            let gateway = gateway(&[origin.address], |http| http.retries = 0);
            let (seen, ()) = join!(gateway.cause(get("/")), async {
                let mut wire = origin.accept().await;
                wire.say(said).await;
                if !said.is_empty() {
                    wire.read_to("SM\r\n\r\n").await;
                    let mut rest = Vec::new();
                    let read = tokio::io::AsyncReadExt::read_to_end(&mut wire.0, &mut rest);
                    let _ = read.await;
                }
            });
            assert_eq!(seen, cause);
        });
    }
}

#[test]
fn origin_that_says_nothing_is_given_up_within_the_time_to_connect() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = gateway(&[origin.address], |http| http.retries = 0);
        let cause = gateway.cause(get("/"));
        let (cause, ()) = join!(cause, async {
            let mut wire = origin.accept().await;
            wire.read_to("SM\r\n\r\n").await;
            gateway.pass(Duration::from_secs(3));
            let mut rest = Vec::new();
            let read = tokio::io::AsyncReadExt::read_to_end(&mut wire.0, &mut rest);
            read.await.expect("the gateway closes");
        });
        assert_eq!(cause, "no HTTP/2: handshake timed out");
    });
}

#[test]
fn idle_connection_is_closed_in_time_and_not_before() {
    worker(async {
        let (origin, gateway) = Http2Origin::with_gateway().await;
        let ((), mut peer) = join!(ask(&gateway, 1), async {
            let mut peer = origin.accept().await;
            serve(&mut peer, 1).await;
            peer
        });
        gateway.pass(Duration::from_millis(100));
        gateway.pass(Duration::from_secs(59));
        assert_eq!(gateway.pools.idle(), 1);
        gateway.pass(Duration::from_secs(1));
        assert_eq!(gateway.pools.idle(), 0);
        peer.closed().await;
    });
}

#[test]
fn connection_outlives_a_reload_and_not_its_endpoint() {
    worker(async {
        let (origin, mut gateway) = Http2Origin::with_gateway().await;
        let ((), mut peer) = join!(ask(&gateway, 1), async {
            let mut peer = origin.accept().await;
            serve(&mut peer, 1).await;
            peer
        });
        gateway.upstream = origin.gateway_with(|http| http.retries = 0).upstream;
        join!(ask(&gateway, 1), serve(&mut peer, 1));
        gateway.pass(Duration::ZERO);
        assert!(gateway.counts("connections_opened 1"));
        gateway.upstream = upstream(&[], |_| ());
        gateway.send(get("/")).await.err().expect("no endpoint");
        gateway.pass(Duration::ZERO);
        peer.closed().await;
    });
}
