//! Every way in which an origin fails, with what the client sees of it and what the access log says about it.
//!
//! The gateway has one worker and no retries, so that each case is one attempt. Origins that fail only once answer the
//! next request well, so bytes that a broken answer left behind would show in the next answer.

mod case;

use std::fs;
use std::io::Result;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use self::case::{Fault, check};
use crate::support::wire::Wire;
use crate::support::{
    After, Authority, Client, Config, Exchange, Gate, Origin, Refusing, Unreachable, start,
};
use crate::upstream::tls::origin::{Server, serve};

#[test]
fn origin_that_cannot_be_reached_is_a_502() {
    let (refusing, unreachable) = (Refusing::new(), Unreachable::new());
    let (refusing_url, unreachable_url) = (refusing.url(), unreachable.url());
    check(&[
        Fault::new("refused", refusing_url, refusing)
            .told("502, connect_failed, upstream: connection refused [connect]"),
        Fault::new("black hole", unreachable_url, unreachable)
            .overdue()
            .told("502, connect_failed, upstream: timed out [connect_timeout]"),
    ]);
}

#[test]
fn origin_that_shakes_no_hands_is_a_502_that_says_why() {
    let authority = Authority::new();
    let expired = authority.sign_expired("expired", &["IP:127.0.0.1"]);
    let read = |file| fs::read(file).expect("a file that was made");
    let old = Server {
        identity: (read(&expired.file), read(&expired.key)),
        ..Server::default()
    };
    let other = Server {
        protocols: vec![b"spdy/3"],
        ..Server::default()
    };
    let plain = each_connection(|mut wire| wire.write(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let hanging_up = each_connection(|_| Ok(()));
    let (_stopped, stopped) = stopped();
    let ca = |name| PathBuf::from(format!("{TLS_FILES}/{name}.pem"));
    let usual = serve(Server::default());
    let faults = [
        (
            "an old certificate",
            serve(old),
            authority.file(),
            "",
            "502, connect_failed, upstream: the certificate has expired [tls expired]",
        ),
        (
            "certificate of another authority",
            usual,
            ca("other-ca"),
            "",
            "502, connect_failed, upstream: the certificate is from an unknown authority [tls unknown_issuer]",
        ),
        (
            "certificate for another name",
            usual,
            ca("redis-ca"),
            ", server_name = 'api.internal'",
            "502, connect_failed, upstream: the certificate is for another name [tls wrong_name]",
        ),
        (
            "no protocol in common",
            serve(other),
            ca("redis-ca"),
            "",
            "502, connect_failed, upstream: the server ended TLS with an alert [tls refused]",
        ),
        (
            "plain where TLS is expected",
            plain,
            ca("redis-ca"),
            "",
            "502, connect_failed, upstream: the server does not speak TLS properly [tls malformed]",
        ),
        (
            "hangs up before TLS",
            hanging_up,
            ca("redis-ca"),
            "",
            "502, connect_failed, upstream: closed without ending TLS [tls closed]",
        ),
        (
            "stopped before TLS",
            stopped,
            ca("redis-ca"),
            "",
            "502, connect_failed, upstream: TLS handshake timed out [tls timeout]",
        ),
    ];
    let faults = faults.map(|(name, address, ca, more, told)| {
        let tls = format!("tls = {{ ca = {ca:?}{more} }}");
        let fault = Fault::new(name, format!("https://{address}"), ()).with(&tls);
        let is_overdue = address == stopped;
        if is_overdue { fault.overdue() } else { fault }.told(told)
    });
    check(&faults);
}

#[test]
fn origin_that_does_not_answer_in_time_is_a_504() {
    const LATE: &str = "504, response_timeout, upstream: no response in time [response_timeout]";
    let (stopped, address) = stopped();
    let mute = Origin::mute();
    check(&[
        Fault::new("stopped", format!("http://{address}"), stopped)
            .overdue()
            .told(LATE),
        Fault::new("accepts and never answers", mute.url(), mute)
            .overdue()
            .told(LATE),
        Fault::pacing("a head of one byte a second", &["H", "T", "T", "P", "/"]).told(LATE),
        Fault::pacing("an interim answer a second", &[INTERIM; 5]).told(LATE),
    ]);
}

#[test]
fn answer_that_is_no_http_is_a_502() {
    let taken = Arc::new(AtomicUsize::new(0));
    let endless = |name, head: &'static str, piece: &str| {
        let (taken, piece) = (Arc::clone(&taken), piece.to_owned());
        Fault::once(name, move |exchange| {
            exchange.write(head)?;
            while taken.load(Ordering::SeqCst) < 100_000_000 {
                exchange.write(&piece)?;
                taken.fetch_add(piece.len(), Ordering::SeqCst);
            }
            Ok(After::Close)
        })
    };
    let field = format!("X-Large: {}\r\n", "x".repeat(1000));
    check(&[
        Fault::once("closed before the head", |exchange| Ok(closing(exchange)))
            .told("502, bad_response, upstream: closed without a response [closed]"),
        Fault::once("reset before the head", |exchange| Ok(resetting(exchange)))
            .told("502, bad_response, upstream: connection reset [closed]"),
        Fault::once("closed within the head", |exchange| {
            exchange.write("HTTP/1.1 200 OK\r\nContent-")?;
            Ok(After::Close)
        })
        .told("502, bad_response, upstream: closed before the head was complete [closed]"),
        endless(
            "interim answers without end",
            "",
            &format!("HTTP/1.1 100 Continue\r\n\r\n{INTERIM}"),
        )
        .told("502, bad_response, upstream: too many interim responses [malformed]"),
        endless("a head of 100 MB", "HTTP/1.1 200 OK\r\n", &field)
            .told("502, bad_response, upstream: head too large [malformed]"),
        Fault::saying("garbage", "SSH-2.0-OpenSSH_9.2\r\n")
            .told("502, bad_response, upstream: malformed HTTP head [malformed]"),
        Fault::saying(
            "a length and a coding",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
        )
        .told("502, bad_response, upstream: ambiguous length [malformed]"),
        Fault::saying(
            "a body that is broken when its head comes",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        )
        .told("502, bad_response, upstream: malformed chunk [malformed]"),
    ]);
    let taken = taken.load(Ordering::SeqCst);
    assert!(taken < 16 << 20, "{taken} bytes of heads were taken");
}

#[test]
fn answer_that_breaks_off_is_cut_and_never_looks_whole() {
    const FIVE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab";
    const CHUNKS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n";
    let misspelling = |exchange: &mut Exchange| {
        exchange.write("zz\r\n").expect("the gateway reads on");
        stalling(exchange)
    };
    check(&[
        Fault::breaking("a short body", FIVE, closing)
            .told("cut, response_aborted, upstream: closed before the body's end [body_closed]"),
        Fault::breaking("chunks without the last", CHUNKS, closing)
            .told("cut, response_aborted, upstream: closed before the body's end [body_closed]"),
        Fault::breaking("a chunk without a size", CHUNKS, misspelling)
            .told("cut, response_aborted, upstream: malformed chunk [malformed]"),
        Fault::breaking("reset within a body", FIVE, resetting)
            .told("cut, response_aborted, upstream: connection reset [body_closed]"),
        Fault::breaking("reset within chunks", CHUNKS, resetting)
            .told("cut, response_aborted, upstream: connection reset [body_closed]"),
        Fault::breaking("stopped within a body", FIVE, stalling)
            .overdue()
            .told("cut, response_body_timeout, upstream: no more data in time [body_timeout]"),
        Fault::breaking("stopped within chunks", CHUNKS, stalling)
            .overdue()
            .told("cut, response_body_timeout, upstream: no more data in time [body_timeout]"),
    ]);
}

#[test]
fn answer_that_comes_slowly_is_whole() {
    const FOUR: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
    check(&[Fault::pacing("one byte a second", &[FOUR, "a", "b", "c", "d"]).told("200 abcd")]);
}

fn closing(_: &mut Exchange) -> After {
    After::Close
}

/// Without a length, a client of HTTP/1.0 finds the end of an answer by the end of the connection, so only a reset
/// tells it that the answer is not whole.
#[test]
fn answer_to_http_1_0_that_broke_off_ends_with_a_reset() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let closed = "HTTP/1.1 200 OK\r\n\r\nhello";
    for (name, head, rest, is_whole) in [
        ("chunks to their end", chunked, "0\r\n\r\n", true),
        ("chunks that break off", chunked, "", false),
        ("chunks that are malformed", chunked, "zz\r\n", false),
        ("an end by the connection's", closed, "", true),
        ("a reset", closed, "RESET", false),
        ("a shutdown that cuts", chunked, "SHUTDOWN", false),
    ] {
        let gate = Gate::default();
        let waiting = gate.clone();
        let origin = Origin::scripted(move |exchange| {
            exchange.write(head)?;
            match rest {
                "SHUTDOWN" => return Ok(stalling(exchange)),
                _ => waiting.wait(),
            }
            match rest {
                "RESET" => return Ok(resetting(exchange)),
                rest => exchange.write(rest)?,
            }
            Ok(After::Close)
        });
        let config = Config::to(origin.url()).top("shutdown_grace = '0s'");
        let running = start(&config.route("/*", ""));
        let mut client = Client::connect(running.public);
        client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
        client.until("hello");
        gate.open();
        if rest == "SHUTDOWN" {
            drop(running);
        }
        let end = client.wire.read_to_fin();
        assert_eq!(end.is_ok(), is_whole, "{name}: {end:?}");
        assert!(end.is_ok_and(|end| end.is_empty()) == is_whole, "{name}");
    }
}

fn resetting(exchange: &mut Exchange) -> After {
    reset(exchange);
    After::Close
}

/// Ends the connection with a reset.
pub fn reset(exchange: &Exchange) {
    Wire::new(exchange.wire.second_handle()).reset();
}

fn stalling(exchange: &mut Exchange) -> After {
    exchange.until_closed();
    After::Close
}

/// Calls `then` with each connection, and closes it afterwards; returns the address.
pub fn each_connection(then: impl Fn(Wire) -> Result<()> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The gateway may have gone already.
            let _ = then(Wire::new(stream));
        }
    });
    address
}

/// A listener that queues connections but never accepts them, like one of a stopped process.
fn stopped() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\n\r\n";
/// Folder of the certificates for tests.
pub const TLS_FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls");
