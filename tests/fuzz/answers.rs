//! Whole answers of an origin: whatever it sends, its client gets one answer that everybody reads in one way, and the
//! next client gets nothing of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::hostile::{lines, run};
use crate::support::{Config, PATIENCE, get, start};
use crate::wire::{chunks, field, is_odd, split};

#[test]
fn a_broken_answer_is_one_answer_and_nothing_of_it_reaches_the_next_client() {
    let answer: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (sender, sent) = mpsc::channel();
    let origin = origin(Arc::clone(&answer), sender);
    // One worker and its pool: what the first request leaves on a connection, the second could find.
    let config = Config::to(format!("http://{origin}")).one_worker();
    let running = start(&config.route("/*", "").with("[log]\naccess = 'off'"));
    let public = running.public;
    let probes = AtomicUsize::new(0);
    let target = |message: &[u8]| {
        *answer.lock().expect("nothing panics with it held") = message.to_vec();
        let probe = || {
            let probe = format!("/probe/{}", probes.fetch_add(1, Ordering::Relaxed));
            let next = get(public, &probe, "");
            let body = String::from_utf8_lossy(&next.body);
            assert_eq!((next.status, &*body), (200, &*probe));
        };
        let got = ask(public, &sent, probe);
        let read = read(&got);
        assert!(read.is_ok(), "{read:?}: {}", got.escape_ascii());
    };
    run(target, &lines("answers"), 500);
}

/// Asks for the hostile answer, and returns what has come by the time the gateway's only worker has answered other
/// requests after it.
fn ask(gateway: SocketAddr, sent: &mpsc::Receiver<()>, probe: impl Fn()) -> Vec<u8> {
    let mut stream = TcpStream::connect(gateway).expect("the gateway accepts connections");
    let request = b"GET /hostile HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request).expect("a request is taken");
    sent.recv_timeout(PATIENCE).expect("the origin answers");
    let mut got = Vec::new();
    while take(&mut stream, &mut got, &probe) {}
    got
}

/// Runs `settle`, then takes in what the connection has brought; returns whether there was anything.
pub fn take(stream: &mut TcpStream, got: &mut Vec<u8>, settle: impl Fn()) -> bool {
    settle();
    let set = |is_nonblocking| stream.set_nonblocking(is_nonblocking);
    set(true).expect("a socket takes options");
    let before = got.len();
    // Reading ends with what has come by now, with the connection, or with a reset.
    let _ = (&*stream).read_to_end(got);
    set(false).expect("a socket takes options");
    got.len() > before
}

/// Answers `/hostile` with these bytes and reports that it has, and every other request with its own target.
fn origin(answer: Arc<Mutex<Vec<u8>>>, sent: mpsc::Sender<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (answer, sent) = (Arc::clone(&answer), sent.clone());
            thread::spawn(move || {
                let (mut unread, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(length @ 1..) = stream.read(&mut piece) {
                    unread.extend(&piece[..length]);
                    while let Some((head, rest)) = split(&unread, b"\r\n\r\n") {
                        let head = String::from_utf8_lossy(head).into_owned();
                        unread = rest.to_vec();
                        let target = head.split(' ').nth(1).unwrap_or_default();
                        let bytes = match target {
                            "/hostile" => answer.lock().expect("no panic holds it").clone(),
                            _ => format!(
                                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}",
                                target.len()
                            )
                            .into_bytes(),
                        };
                        // One write, so that what follows an answer comes with it.
                        let written = stream.write_all(&bytes);
                        if target == "/hostile" {
                            // Nobody waits for it any more once a law is broken.
                            let _ = sent.send(());
                        }
                        if written.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    address
}

/// Checks what a client got as the strictest client would; it may have been cut off.
fn read(got: &[u8]) -> Result<(), String> {
    let Some((head, body)) = split(got, b"\r\n\r\n") else {
        return Ok(());
    };
    if head.iter().copied().any(is_odd) {
        return Err("control characters".to_owned());
    }
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let start = lines.next().unwrap_or_default();
    let status = start
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    let status: u16 = status
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| format!("an odd first line: {start:?}"))?;
    let (mut lengths, mut codings, mut closes) = (Vec::new(), Vec::new(), false);
    for line in lines {
        let (name, value) = field(line)?;
        match name.as_str() {
            "content-length" => lengths.push(value),
            "transfer-encoding" => codings.push(value),
            "connection" => closes |= value == "close",
            "keep-alive" | "proxy-connection" | "upgrade" | "te" => {
                return Err(format!("a field of another connection: {line:?}"));
            }
            _ => {}
        }
    }
    let rest = match (&lengths[..], &codings[..]) {
        _ if matches!(status, 204 | 304) => body,
        ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
            let length: usize = length.parse().map_err(|_| format!("length {length}"))?;
            &body[length.min(body.len())..]
        }
        ([], [coding]) if coding == "chunked" => chunks(body)?.unwrap_or_default(),
        ([], []) if closes => &[],
        _ => return Err(format!("no one reading: {lengths:?} {codings:?}")),
    };
    if (100..200).contains(&status) || !rest.is_empty() {
        return Err(format!("{} bytes behind a {status}", rest.len()));
    }
    Ok(())
}
