//! Which idle TLS connections are used again.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncWrite as _, AsyncWriteExt as _};
use tokio::join;

use super::origin::{SecureOrigin, SecureWire};
use crate::upstream::harness::{OK, get, read, worker};

/// What an origin sends on an idle connection, on which it owes no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    /// New keys, which concern only TLS.
    Keys,
    /// Bytes that nobody asked for.
    Bytes,
    /// The end of TLS (`close_notify`).
    End,
    /// The end of the TCP connection, without that of TLS.
    Fin,
}

async fn say(wire: &mut SecureWire, said: Said) {
    match said {
        Said::Nothing => {}
        Said::Keys => {
            let session = wire.0.get_mut().1;
            session.refresh_traffic_keys().expect("TLS 1.3");
            poll_fn(|cx| Pin::new(&mut wire.0).poll_flush(cx))
                .await
                .expect("a reader");
        }
        Said::Bytes => wire.say("HTTP/1.1 200 OK\r\n").await,
        Said::End => wire.0.shutdown().await.expect("a reader"),
        Said::Fin => wire.0.get_mut().0.shutdown().await.expect("a reader"),
    }
}

#[test]
fn idle_connection_is_used_again_unless_the_origin_said_something_of_http() {
    for (said, is_kept) in [
        (Said::Nothing, true),
        (Said::Keys, true),
        (Said::Bytes, false),
        (Said::End, false),
        (Said::Fin, false),
    ] {
        worker(async {
            let (origin, gateway) = SecureOrigin::with_gateway().await;
            let (answer, mut wire) = join!(gateway.send(get("/1")), origin.answer(OK));
            assert_eq!(read(answer).await, "ok");
            assert_eq!(gateway.pools.idle(), 1);
            say(&mut wire, said).await;
            // Nothing else runs before the request is sent, so the runtime has not noticed it yet.
            let sent = gateway.send(get("/2"));
            if is_kept {
                let (answer, ()) = join!(sent, wire.answer(OK));
                assert_eq!(read(answer).await, "ok", "{said:?}");
            } else {
                let (answer, _new) = join!(sent, origin.answer(OK));
                assert_eq!(read(answer).await, "ok", "{said:?}");
            }
        });
    }
}

#[test]
fn sweep_closes_connections_that_have_ended_and_keeps_the_others() {
    for (said, idle) in [
        (Said::Nothing, 1),
        (Said::Keys, 1),
        (Said::End, 0),
        (Said::Bytes, 0),
    ] {
        worker(async {
            let (origin, gateway) = SecureOrigin::with_gateway().await;
            let (answer, mut wire) = join!(gateway.send(get("/1")), origin.answer(OK));
            assert_eq!(read(answer).await, "ok");
            say(&mut wire, said).await;
            // Each time, the runtime asks the kernel what has arrived.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            gateway.pass(Duration::from_millis(100));
            assert_eq!(gateway.pools.idle(), idle, "{said:?}");
            if idle > 0 {
                let (answer, ()) = join!(gateway.send(get("/2")), wire.answer(OK));
                assert_eq!(read(answer).await, "ok");
            }
        });
    }
}

#[test]
fn bytes_behind_a_response_are_nobodys() {
    worker(async {
        let (origin, gateway) = SecureOrigin::with_gateway().await;
        let two = format!("{OK}{OK}");
        let (answer, _wire) = join!(gateway.send(get("/1")), origin.answer(&two));
        assert_eq!(read(answer).await, "ok");
        assert_eq!(gateway.pools.idle(), 0);
    });
}
