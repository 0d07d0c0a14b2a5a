//! Answers that arrive before the upload has been sent, and how much of them survives when the upload fails.

use http_body_util::{BodyExt, Full};
use tokio::join;

use super::harness::{
    Answer, BoxError, Gateway, OK, Origin, TestBody, Wire, get, read, request, worker,
};

/// More than both sockets' buffers hold, so that writing fails while the answer waits to be read.
const UPLOAD_BYTES: usize = 16 << 20;

fn upload() -> TestBody {
    let body = Full::from(vec![b'x'; UPLOAD_BYTES]);
    body.map_err(BoxError::from).boxed_unsync()
}

/// Answers a request after reading only its head, and resets the connection.
async fn answer_and_reset(mut wire: Wire, answer: &str) {
    wire.head().await;
    wire.say(answer).await;
    wire.reset();
}

/// Sends an upload that is answered early, on a used connection or on a fresh one.
async fn answered_early(
    gateway: &Gateway,
    origin: &Origin,
    is_reused: bool,
    answer: &str,
) -> Answer {
    let used = if is_reused {
        let (answer, wire) = join!(gateway.send(get("/before")), origin.answer(OK));
        read(answer).await;
        Some(wire)
    } else {
        None
    };
    let (answer, ()) = join!(gateway.send(request("POST", "/", upload())), async {
        let wire = match used {
            Some(wire) => wire,
            None => origin.accept().await,
        };
        answer_and_reset(wire, answer).await;
    });
    answer
}

#[test]
fn answer_that_is_there_when_the_upload_fails_is_passed_on() {
    for is_reused in [false, true] {
        for answer in [
            "HTTP/1.1 413 Content Too Large\r\ncontent-length: 8\r\n\r\ntoo much",
            "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 8\r\n\r\ntoo much",
            "HTTP/1.1 401 Unauthorized\r\ntransfer-encoding: chunked\r\n\r\n8\r\ntoo much\r\n0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 401 Unauthorized\r\ncontent-length: 8\r\n\r\ntoo much",
        ] {
            worker(async {
                let (origin, gateway) = Origin::with_gateway().await;
                let early = answered_early(&gateway, &origin, is_reused, answer).await;
                let status = early.as_ref().map(http::Response::status).ok();
                assert!(
                    status.is_some_and(|status| answer.contains(status.as_str())),
                    "{answer}"
                );
                assert_eq!(read(early).await, "too much", "{answer}");
                assert_eq!(gateway.pools.idle(), 0, "{answer}");
            });
        }
    }
}

#[test]
fn answer_that_a_reset_cuts_short_during_the_upload_never_looks_whole() {
    for is_reused in [false, true] {
        for answer in [
            "",
            "HTTP/1.1 413 Content Too Large\r\ncontent-le",
            "HTTP/1.1 413 Content Too Large\r\n\r\n",
            "HTTP/1.1 413 Content Too Large\r\n\r\ntoo much",
            "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\n\r\ntoo much",
            "HTTP/1.1 413 Content Too Large\r\ncontent-length: 9\r\n\r\ntoo much",
            "HTTP/1.1 413 Content Too Large\r\ntransfer-encoding: chunked\r\n\r\n8\r\ntoo much\r\n",
        ] {
            worker(async {
                let (origin, gateway) = Origin::with_gateway().await;
                let early = answered_early(&gateway, &origin, is_reused, answer).await;
                if let Ok(response) = early {
                    let collected = response.into_body().collect().await;
                    assert!(collected.is_err(), "{answer}");
                }
                assert_eq!(gateway.pools.idle(), 0, "{answer}");
            });
        }
    }
}
