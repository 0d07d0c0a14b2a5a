//! Origins over HTTP/2 for which the test writes every frame.

use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::join;
use tokio::net::TcpStream;
use tollgate::proxy::upstream::{ForwardError, UpstreamBodyError};

use super::origin::gateway;
use crate::support::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, SETTINGS, frame,
};
use crate::upstream::harness::{Gateway, Origin, get, read, request, text, worker};

/// `:status: 200`, as an index of HPACK's static table.
const STATUS_200: &[u8] = &[0x88];

struct Frames(TcpStream);

impl Frames {
    /// Accepts a connection, reads the preface and sends SETTINGS.
    async fn accept(origin: &Origin) -> Self {
        Self::accept_with(origin, &[]).await
    }

    /// Accepts a connection, reads the preface and sends these settings.
    async fn accept_with(origin: &Origin, settings: &[u8]) -> Self {
        let mut wire = origin.accept().await;
        wire.read_to("SM\r\n\r\n").await;
        let mut frames = Self(wire.0);
        frames.send(SETTINGS, 0, 0, settings).await;
        frames
    }

    /// Accepts a connection, and answers its first request.
    async fn answer(origin: &Origin) -> Self {
        let mut frames = Self::accept(origin).await;
        frames.until(HEADERS).await;
        frames.ok(1).await;
        frames
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let bytes = frame(kind, flags, stream, payload);
        self.0.write_all(&bytes).await.expect("a reader");
    }

    async fn next(&mut self) -> Frame {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.expect("a frame");
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.0.read_exact(&mut payload).await.expect("a payload");
        Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream),
            payload,
        }
    }

    /// Reads up to the next frame of that type, and returns it.
    async fn until(&mut self, wanted: u8) -> Frame {
        loop {
            let frame = self.next().await;
            if frame.kind == wanted && !(wanted == SETTINGS && frame.flags == ACK) {
                return frame;
            }
        }
    }

    /// Waits until the gateway has read everything that was sent.
    async fn sync(&mut self) {
        self.send(PING, 0, 0, b"all read").await;
        while self.until(PING).await.flags != ACK {}
    }

    /// Answers a stream with 200 and `ok`.
    async fn ok(&mut self, stream: u32) {
        self.send(HEADERS, END_HEADERS, stream, STATUS_200).await;
        self.send(DATA, END_STREAM, stream, b"ok").await;
    }

    /// Sends a GOAWAY that names `last` as the last stream.
    async fn go_away(&mut self, last: u32, reason: u32) {
        let payload = [last.to_be_bytes(), reason.to_be_bytes()].concat();
        self.send(GOAWAY, 0, 0, &payload).await;
    }
}

#[test]
fn connection_that_goes_away_ends_what_it_carries_and_takes_no_more() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = gateway(&[origin.address], |http| http.retries = 0);
        let (first, second) = join!(gateway.send(get("/1")), async {
            let mut old = Frames::accept(&origin).await;
            old.until(HEADERS).await;
            old.go_away(i32::MAX.unsigned_abs(), 0).await;
            old.sync().await;
            let (second, mut new) = join!(gateway.send(get("/2")), Frames::answer(&origin));
            old.ok(1).await;
            let mut rest = Vec::new();
            old.0
                .read_to_end(&mut rest)
                .await
                .expect("the gateway closes");
            new.sync().await;
            second
        });
        assert_eq!(read(first).await, "ok");
        assert_eq!(read(second).await, "ok");
    });
}

#[test]
fn requests_behind_the_last_stream_are_sent_again() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = gateway(&[origin.address], |_| ());
        let (first, second, ()) = join!(gateway.send(get("/1")), gateway.send(get("/2")), async {
            let mut old = Frames::accept(&origin).await;
            let streams = [
                old.until(HEADERS).await.stream,
                old.until(HEADERS).await.stream,
            ];
            assert_eq!(streams, [1, 3]);
            old.go_away(1, 0).await;
            let mut new = Frames::accept(&origin).await;
            assert_eq!(new.until(HEADERS).await.stream, 1);
            new.ok(1).await;
            old.ok(1).await;
        });
        assert_eq!(read(first).await, "ok");
        assert_eq!(read(second).await, "ok");
        assert!(gateway.counts("retries 0"), "nothing has failed");
    });
}

#[test]
fn connection_that_calls_for_calm_fails_what_it_may_have_processed() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = gateway(&[origin.address], |http| http.retries = 0);
        let (cause, ()) = join!(gateway.cause(get("/")), async {
            let mut wire = Frames::accept(&origin).await;
            wire.until(HEADERS).await;
            wire.go_away(1, 11).await;
        });
        assert_eq!(cause, "closed by the origin");
    });
}

/// Lets every task run as far as it can.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Moves the clock on, one second at a time.
async fn pass(gateway: &Gateway, seconds: u64) {
    for _ in 0..seconds {
        gateway.pass(Duration::from_secs(1));
        settle().await;
    }
}

#[test]
fn silent_connection_with_a_stream_is_asked_and_given_up_if_nothing_comes() {
    worker(async {
        let origin = Origin::new().await;
        let mut gateway = gateway(&[origin.address], |http| http.retries = 0);
        gateway.terms.response_timeout = Duration::from_hours(1);
        let (cause, ()) = join!(gateway.cause(get("/")), async {
            let mut wire = Frames::accept(&origin).await;
            wire.until(HEADERS).await;
            settle().await;
            pass(&gateway, 20).await;
            assert_eq!(wire.until(PING).await.flags, 0);
            pass(&gateway, 10).await;
            let mut rest = Vec::new();
            wire.0
                .read_to_end(&mut rest)
                .await
                .expect("the gateway closes");
        });
        assert_eq!(cause, "no reply to a PING");
    });
}

#[test]
fn silent_connection_that_answers_is_asked_rarely() {
    worker(async {
        let origin = Origin::new().await;
        let mut gateway = gateway(&[origin.address], |_| ());
        gateway.terms.response_timeout = Duration::from_hours(1);
        let (answer, ()) = join!(gateway.send(get("/")), async {
            let mut wire = Frames::accept(&origin).await;
            wire.until(HEADERS).await;
            settle().await;
            pass(&gateway, 20).await;
            let asked = wire.until(PING).await.payload;
            wire.send(PING, ACK, 0, &asked).await;
            wire.sync().await;
            pass(&gateway, 300).await;
            let mut more = [0; 64];
            let read = wire.0.try_read(&mut more);
            assert!(
                read.is_err(),
                "asked within five minutes: {read:?} {more:?}"
            );
            // The origin's own PING counted as a sign of life.
            pass(&gateway, 35).await;
            let asked = wire.until(PING).await.payload;
            wire.send(PING, ACK, 0, &asked).await;
            wire.ok(1).await;
        });
        assert_eq!(read(answer).await, "ok");
    });
}

#[test]
fn connection_without_streams_is_not_asked() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = gateway(&[origin.address], |http| {
            http.idle_timeout = Duration::from_hours(1);
        });
        let (answer, mut wire) = join!(gateway.send(get("/")), Frames::answer(&origin));
        assert_eq!(read(answer).await, "ok");
        settle().await;
        pass(&gateway, 120).await;
        let (answer, kinds) = join!(gateway.send(get("/")), async {
            let mut kinds = Vec::new();
            loop {
                let frame = wire.next().await;
                kinds.push(frame.kind);
                if frame.kind == HEADERS {
                    wire.ok(frame.stream).await;
                    return kinds;
                }
            }
        });
        assert_eq!(read(answer).await, "ok");
        assert!(!kinds.contains(&PING), "{kinds:?}");
    });
}

#[test]
fn closed_idle_connection_loses_no_request() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = gateway(&[origin.address], |http| http.retries = 0);
        let (answer, wire) = join!(gateway.send(get("/")), Frames::answer(&origin));
        assert_eq!(read(answer).await, "ok");
        settle().await;
        // Nothing else runs before the request is sent, so the runtime has not noticed the close yet.
        drop(wire);
        let (answer, ()) = join!(gateway.send(request("POST", "/", text("body"))), async {
            let mut wire = Frames::accept(&origin).await;
            assert_eq!(wire.until(DATA).await.payload, b"body");
            wire.ok(1).await;
        });
        assert_eq!(read(answer).await, "ok");
    });
}

#[test]
fn origin_that_opens_no_window_for_a_body_has_its_time_however_often_it_pings() {
    // SETTINGS_INITIAL_WINDOW_SIZE of 0.
    const CLOSED: &[u8] = &[0, 4, 0, 0, 0, 0];
    for (is_answered, seconds) in [(false, 30), (true, 60)] {
        worker(async {
            let origin = Origin::new().await;
            let gateway = gateway(&[origin.address], |http| http.retries = 0);
            let sent = gateway.send(request("POST", "/", text("body")));
            let (answer, mut wire) = join!(sent, async {
                let mut wire = Frames::accept_with(&origin, CLOSED).await;
                wire.until(HEADERS).await;
                if is_answered {
                    wire.send(HEADERS, END_HEADERS, 1, STATUS_200).await;
                } else {
                    ping_for(&gateway, &mut wire, seconds).await;
                }
                wire
            });
            if is_answered {
                let mut body = answer.expect("a head").into_body();
                let (frame, ()) = join!(body.frame(), ping_for(&gateway, &mut wire, seconds));
                let error = frame.expect("no end").expect_err("nothing came");
                assert!(matches!(error, UpstreamBodyError::Timeout));
            } else {
                assert!(matches!(answer, Err(ForwardError::Timeout)));
                // The old connection might have no room for other requests, either.
                let (answer, _new) = join!(gateway.send(get("/")), Frames::answer(&origin));
                assert_eq!(read(answer).await, "ok");
            }
        });
    }
}

/// Sends one PING a second, for that many seconds of the gateway's time.
async fn ping_for(gateway: &Gateway, wire: &mut Frames, seconds: u64) {
    for _ in 0..seconds {
        wire.sync().await;
        pass(gateway, 1).await;
    }
}
