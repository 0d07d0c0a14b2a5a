//! Streams, heads and windows up to their limits, and clients that stop half way.

use std::io::Error;
use std::sync::{Mutex, mpsc};
use std::thread;

use crate::foreign::client;
use crate::support::{After, Config, Gate, Origin, Process, Running, get, start};

#[track_caller]
fn scenario(running: &Running, name: &str) {
    client("streams.py", &[&running.public.port().to_string(), name]);
}

#[test]
fn a_hundred_streams_are_served_at_once_and_the_others_refused_before_they_begin() {
    let gate = Gate::default();
    let origin = Origin::behind(&gate);
    let running = start(&Config::to(origin.url()).route("/*", ""));
    thread::scope(|scope| {
        scope.spawn(|| scenario(&running, "crowd"));
        origin.wait_for_requests(100);
        gate.open();
    });
    assert_eq!(
        origin.requests().len(),
        101,
        "with the one that shows that the connection goes on"
    );
}

#[test]
fn heads_are_bounded() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).route("/*", ""));
    scenario(&running, "heads");
    assert_eq!(origin.requests().len(), 2);
}

/// Most memory of a hundred answers that nobody takes: a buffer of 64 KiB each, and what was read to fill it.
const STALLED_MAX: u64 = 100 * 128 * 1024 + (8 << 20);

#[test]
fn answers_that_no_window_is_opened_for_are_ended_and_take_bounded_memory() {
    let origin = Origin::endless();
    let config = Config::to(origin.url())
        .listener("body_timeout = '1s'")
        .route("/*", "");
    let process = Process::start(&config);
    get(process.public, "/", "");
    let before = process.peak_memory();
    client(
        "streams.py",
        &[&process.public.port().to_string(), "unopened"],
    );
    let taken = process.peak_memory() - before;
    assert!(taken < STALLED_MAX, "{taken} bytes");
}

/// Most memory of a hundred uploads: a window of 64 KiB each, what is collected for one write, and what else a stream
/// needs.
const STUFFED_MAX: u64 = 100 * (64 + 48 + 32) * 1024 + (4 << 20);

#[test]
fn uploads_that_an_origin_does_not_take_are_held_within_the_windows() {
    let (release, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    let origin = Origin::scripted(move |_| {
        // Waits, however long it takes, until the test drops the other end.
        let released = ended.lock().expect("no script panics").recv();
        released.map(|()| After::Close).map_err(Error::other)
    });
    let process = Process::start(&Config::to(origin.url()).route("/*", ""));
    let before = process.peak_memory();
    let port = process.public.port().to_string();
    let sent = client("h2_client.py", &[&port, "stuff"]);
    let taken = process.peak_memory() - before;
    drop(release);
    assert!(taken < STUFFED_MAX, "{taken} bytes for {sent}");
}

#[test]
fn bodies_pass_unchanged_through_windows_of_any_size() {
    let echo = Origin::echoing();
    let running = start(&Config::to(echo.url()).route("/*", ""));
    client(
        "h2_client.py",
        &[&running.public.port().to_string(), "exchange"],
    );
}

#[test]
fn windows_are_kept_to_the_byte() {
    let origin = Origin::plain();
    scenario(
        &start(&Config::to(origin.url()).route("/*", "")),
        "slow_reader",
    );
}

#[test]
fn what_either_side_breaks_off_ends_one_stream() {
    let origin = Origin::scripted(|exchange| {
        let start = exchange.head.start.clone();
        if start.contains(" /broken ") {
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")?;
            return Ok(After::Close);
        }
        if start.contains(" /early ") {
            exchange.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")?;
            return Ok(After::Close);
        }
        exchange.read_body()?;
        exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        Ok(After::Keep)
    });
    let running = start(&Config::to(origin.url()).route("/*", ""));
    scenario(&running, "aborts");
    let requests = origin.requests();
    let mut uploads = requests.iter().filter(|x| x.target() == "/upload");
    assert!(uploads.all(|upload| !upload.is_complete), "{requests:#?}");
}
