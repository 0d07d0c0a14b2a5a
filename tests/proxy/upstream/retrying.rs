//! What is sent again: always on a fresh connection, and only what cannot have been answered and may be done twice.

use std::cell::Cell;
use std::time::Duration;

use http::Request;
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::join;
use tokio::time::timeout;
use tollgate::proxy::upstream::ForwardError;

use super::harness::{
    Answer, Gateway, OK, Origin, TestBody, Wire, data, get, read, request, stream, text, worker,
};

/// How an origin ends a connection.
#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    HalfClose,
    Reset,
}

const ENDS: [End; 3] = [End::Close, End::HalfClose, End::Reset];

impl End {
    /// Ends the connection; what must stay open is returned.
    async fn of(self, mut wire: Wire) -> Option<Wire> {
        match self {
            Self::Close => return None,
            Self::HalfClose => wire.0.shutdown().await.expect("an open connection"),
            Self::Reset => {
                let set = SockRef::from(&wire.0).set_linger(Some(Duration::ZERO));
                set.expect("a socket takes options");
                return None;
            }
        }
        Some(wire)
    }
}

/// Has a connection used once, so that the next request finds it idle.
async fn reused(gateway: &Gateway, origin: &Origin) -> Wire {
    let (answer, wire) = join!(gateway.send(get("/before")), origin.answer(OK));
    assert_eq!(read(answer).await, "ok");
    assert_eq!(gateway.pools.idle(), 1);
    wire
}

/// Sends `request`, whose last bytes are `last`, while `first` is done; returns the answer, and how many fresh
/// connections it came on, each of which answers with `fresh` and closes.
async fn sent(
    gateway: &Gateway,
    origin: &Origin,
    (request, last): (Request<TestBody>, &str),
    fresh: &str,
    first: impl Future<Output = ()>,
) -> (Answer, usize) {
    let count = Cell::new(0);
    let fresh_ones = async {
        first.await;
        loop {
            let mut wire = origin.accept().await;
            count.set(count.get() + 1);
            wire.read_to(last).await;
            wire.say(fresh).await;
        }
    };
    let answer = tokio::select! {
        answer = timeout(HANGS_AFTER, gateway.send(request)) => answer.expect("it hangs"),
        () = fresh_ones => unreachable!("it accepts for ever"),
    };
    (answer, count.get())
}

/// Requests that may be sent again although they were written, and those that may not.
fn written() -> Vec<(Request<TestBody>, &'static str, usize)> {
    let empty = |method, again| (request(method, "/", text("")), HEAD_END, again);
    let full = |method| (request(method, "/", text("body")), "\r\n\r\nbody", 0);
    vec![
        empty("GET", 1),
        empty("HEAD", 1),
        empty("OPTIONS", 1),
        empty("PUT", 1),
        empty("DELETE", 1),
        empty("POST", 0),
        empty("PATCH", 0),
        empty("FETCH", 0),
        full("PUT"),
        full("DELETE"),
        full("GET"),
        full("POST"),
    ]
}

#[test]
fn request_that_was_written_is_sent_again_only_if_it_is_idempotent_and_has_no_body() {
    for end in ENDS {
        for (request, last, again) in written() {
            let shown = format!("{end:?} after {} {last:?}", request.method());
            worker(async {
                let origin = Origin::new().await;
                let gateway = Gateway::new(&[&origin]);
                let mut wire = reused(&gateway, &origin).await;
                let held = Cell::new(None);
                let (answer, count) = sent(&gateway, &origin, (request, last), OK, async {
                    wire.read_to(last).await;
                    held.set(end.of(wire).await);
                })
                .await;
                assert_eq!(count, again, "{shown}");
                assert_eq!(answer.is_ok(), again > 0, "{shown}");
                if let Err(error) = answer {
                    assert!(matches!(error, ForwardError::BadResponse(_)), "{shown}");
                }
            });
        }
    }
}

#[test]
fn request_is_never_sent_again_once_a_byte_of_an_answer_came() {
    for begun in [
        "H",
        "\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
    ] {
        for end in ENDS {
            worker(async {
                let origin = Origin::new().await;
                let gateway = Gateway::new(&[&origin]);
                let mut wire = reused(&gateway, &origin).await;
                let held = Cell::new(None);
                let (answer, count) = sent(&gateway, &origin, (get("/"), HEAD_END), OK, async {
                    wire.answer(begun).await;
                    held.set(end.of(wire).await);
                })
                .await;
                assert!(
                    matches!(answer, Err(ForwardError::BadResponse(_))),
                    "{begun:?}"
                );
                assert_eq!(count, 0, "{begun:?} {end:?}");
            });
        }
    }
}

#[test]
fn request_that_fails_on_a_fresh_connection_is_sent_again_as_on_a_kept_one() {
    for end in ENDS {
        for (request, last, again) in written() {
            let shown = format!("{end:?} after {} {last:?}", request.method());
            worker(async {
                let origin = Origin::new().await;
                let gateway = Gateway::new(&[&origin]);
                let held = Cell::new(None);
                let (answer, count) = sent(&gateway, &origin, (request, last), OK, async {
                    let mut wire = origin.accept().await;
                    wire.read_to(last).await;
                    held.set(end.of(wire).await);
                })
                .await;
                assert_eq!(count, again, "{shown}");
                assert_eq!(answer.is_ok(), again > 0, "{shown}");
            });
        }
    }
}

#[test]
fn request_is_sent_again_as_often_as_retries_say() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::with(&[origin.address], |http| http.retries = 3);
        let mut wire = reused(&gateway, &origin).await;
        let (answer, count) = sent(&gateway, &origin, (get("/"), HEAD_END), "", async {
            wire.head().await;
            drop(wire);
        })
        .await;
        assert!(matches!(answer, Err(ForwardError::BadResponse(_))));
        assert_eq!(count, 3);
    });
}

#[test]
fn request_that_is_not_answered_in_time_is_not_sent_again() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::new(&[&origin]);
        let mut wire = reused(&gateway, &origin).await;
        let (answer, count) = sent(&gateway, &origin, (get("/"), HEAD_END), OK, async {
            wire.head().await;
            gateway.pass(Duration::from_secs(31));
            assert_eq!(wire.rest().await, "");
        })
        .await;
        assert!(matches!(answer, Err(ForwardError::Timeout)));
        assert_eq!(count, 0);
    });
}

/// The idle connection is told of nothing before the request: no other task runs, and no time passes.
#[test]
fn request_goes_to_a_fresh_connection_if_the_idle_one_was_ended_or_written_to() {
    for unasked in ["", "H", OK, "HTTP/1.1 100 Continue\r\n\r\n"] {
        for end in ENDS {
            worker(async {
                let origin = Origin::new().await;
                let gateway = Gateway::with(&[origin.address], |http| http.retries = 0);
                let wire = reused(&gateway, &origin).await;
                let written = wire.0.try_write(unasked.as_bytes());
                assert_eq!(written.expect("room"), unasked.len());
                let _held = end.of(wire).await;
                let (frames, body) = stream();
                frames.try_send(Ok(data("body"))).expect("room for one");
                drop(frames);
                let post = (request("POST", "/", body), "4\r\nbody\r\n0\r\n\r\n");
                let own = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nown";
                let (answer, count) = sent(&gateway, &origin, post, own, async {}).await;
                assert_eq!(read(answer).await, "own", "{unasked:?} {end:?}");
                assert_eq!(count, 1, "{unasked:?} {end:?}");
            });
        }
    }
}

/// After how long a request hangs: far longer than any takes.
const HANGS_AFTER: Duration = Duration::from_secs(10);

/// The end of a request without a body.
const HEAD_END: &str = "\r\n\r\n";
