//! Streams that the gateway resets, and how many resets a connection may have.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use h2::Reason;
use http_body_util::BodyExt as _;
use tokio::join;
use tollgate::proxy::upstream::ForwardError;

use super::origin::{Http2Origin, Peer};
use crate::upstream::harness::{Gateway, get, read, request, stream, worker};

/// How a request ends while its connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    LeavesBeforeTheAnswer,
    LeavesWithinTheAnswer,
    IsTooLate,
    /// The answer is complete, but the request's body never is.
    LeavesItsBodyUnsent,
    IsAnswered,
    /// The origin resets the stream.
    IsReset(Reason),
}

/// Sends a request to `peer`, and lets it end as `fate` says.
async fn meet(gateway: &Gateway, peer: &mut Peer, fate: Fate) {
    let (frames, body) = stream();
    let asked = match fate {
        Fate::LeavesItsBodyUnsent => request("POST", "/", body),
        _ => get("/"),
    };
    let mut sent = Box::pin(gateway.try_send(asked));
    let mut seen = tokio::select! {
        _ = &mut sent => unreachable!("nobody answers"),
        seen = peer.next() => seen,
    };
    match fate {
        Fate::LeavesBeforeTheAnswer => {
            drop(sent);
            let reset = poll_fn(|cx| seen.respond.poll_reset(cx)).await;
            assert_eq!(reset.expect("a reset"), Reason::CANCEL);
        }
        Fate::LeavesWithinTheAnswer => {
            let mut body = seen.begin(http::Response::new(()));
            body.send_data(Bytes::from_static(b"half"), false)
                .expect("a stream");
            let mut received = sent.await.expect("an answer").into_body();
            received.frame().await.expect("a frame").expect("data");
            drop(received);
            let reset = poll_fn(|cx| body.poll_reset(cx)).await;
            assert_eq!(reset.expect("a reset"), Reason::CANCEL);
        }
        Fate::IsTooLate => {
            gateway.pass(Duration::from_secs(29));
            tokio::task::yield_now().await;
            assert!((&mut sent).now_or_never().is_none(), "early");
            gateway.pass(Duration::from_secs(1));
            let failure = sent.await.err().expect("no answer");
            assert!(matches!(failure.error, ForwardError::Timeout));
        }
        Fate::IsAnswered | Fate::LeavesItsBodyUnsent => {
            seen.body(&["ok"]);
            let body = sent.await.expect("an answer").into_body();
            assert_eq!(body.collect().await.expect("a body").to_bytes(), "ok");
            if fate == Fate::LeavesItsBodyUnsent {
                frames.closed().await;
            }
        }
        Fate::IsReset(reason) => {
            seen.respond.send_reset(reason);
            let failure = sent.await.err().expect("no answer");
            assert_eq!(*failure.cause, format!("stream reset ({reason:?})"));
        }
    }
}

#[test]
fn connection_on_which_100_streams_were_reset_ends_with_those_that_it_has() {
    for (fate, is_retired) in [
        (Fate::LeavesBeforeTheAnswer, true),
        (Fate::LeavesWithinTheAnswer, true),
        (Fate::IsTooLate, true),
        (Fate::LeavesItsBodyUnsent, true),
        (Fate::IsAnswered, false),
        (Fate::IsReset(Reason::INTERNAL_ERROR), false),
        (Fate::IsReset(Reason::CANCEL), false),
        (Fate::IsReset(Reason::NO_ERROR), false),
        (Fate::IsReset(Reason::REFUSED_STREAM), false),
    ] {
        worker(async {
            let origin = Http2Origin::new().await;
            let mut gateway = origin.gateway_with(|http| http.retries = 0);
            gateway.terms.body_timeout = None;
            let mut kept = Box::pin(gateway.send(get("/kept")));
            let (mut peer, mut first) = tokio::select! {
                _ = &mut kept => unreachable!("nobody answers"),
                peer = async {
                    let mut peer = origin.accept().await;
                    let first = peer.next().await;
                    (peer, first)
                } => peer,
            };
            // This request stays under way and never times out.
            let mut body = first.begin(http::Response::new(()));
            let kept = kept.await;
            for _ in 0..100 {
                meet(&gateway, &mut peer, fate).await;
            }
            if is_retired {
                let (answer, _new) = join!(gateway.send(get("/")), origin.answer());
                assert_eq!(read(answer).await, "ok", "{fate:?}");
            } else {
                let (answer, _) = join!(gateway.send(get("/")), peer.answer());
                assert_eq!(read(answer).await, "ok", "{fate:?}");
            }
            body.send_data(Bytes::from_static(b"kept"), true)
                .expect("a stream");
            assert_eq!(read(kept).await, "kept", "{fate:?}");
            if is_retired {
                gateway.pass(Duration::from_millis(100));
                peer.closed().await;
            }
            let opened = if is_retired { 2 } else { 1 };
            assert!(
                gateway.counts(&format!("connections_opened {opened}")),
                "{fate:?}"
            );
        });
    }
}
