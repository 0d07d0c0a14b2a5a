//! How many requests a client may reset, and which ones the gateway resets.

use std::fs;

use tollgate::clock::Micros;

use super::frames::{
    DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, GET, HEADERS, RST_STREAM, frame, get,
};
use crate::support::{Config, Metered, Origin, Stepped, eventually, secs};

/// A gateway whose `/*` is an origin that never answers, and PUTs to `/` are answered; its log is in a file.
fn beside_mute(origin: &Origin, log: &std::path::Path, listener: &str) -> Stepped {
    let config = Config::to(origin.url())
        .admin("127.0.0.1:0")
        .listener(listener)
        .upstream("response_timeout = '24h'")
        .with("[upstreams.echo]\nendpoints = ['builtin:status/200']")
        .with("[[routes]]\npath = '/'\nmethods = ['PUT']\nupstream = 'echo'")
        .policy("p", COSTLY)
        .route("/*", "")
        .with("[[routes]]\npath = '/'\nmethods = ['POST']\nupstream = 'api'\npolicies = ['p']")
        .with(&format!("[log]\nfile = '{}'", log.display()));
    Stepped::start(&config)
}

/// A policy whose costs are in the bodies, so that a request is read before it is decided.
const COSTLY: &str = "quota = '1000 per hour'\npartition = []\n\
     cost = 'response-json:/n'\nreserve = 'request-json:/n'\nreserve_default = 1";

/// Begins `count` requests, at most 100 at a time, and cancels them once they are under way.
fn cancel(client: &mut Frames, streams: &mut impl Iterator<Item = u32>, count: usize) {
    for _ in 0..count / 100 {
        cancel_at_once(client, streams, 100, get);
    }
    cancel_at_once(client, streams, count % 100, get);
}

/// Begins `count` requests at once, as many as a connection allows, and cancels them once they are under way.
fn cancel_at_once(
    client: &mut Frames,
    streams: &mut impl Iterator<Item = u32>,
    count: usize,
    request: impl Fn(u32) -> Vec<u8>,
) {
    let begun: Vec<u32> = streams.take(count).collect();
    client.send_all(
        &begun
            .iter()
            .flat_map(|&begun| request(begun))
            .collect::<Vec<_>>(),
    );
    client.ping();
    client.send_all(
        &begun
            .iter()
            .flat_map(|&begun| reset(begun))
            .collect::<Vec<_>>(),
    );
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, b"\0\0\0\x08")
}

/// Returns the head of a request; `method` is in HPACK, as an index of the static table or as a literal.
fn head(method: &[u8], flags: u8, stream: u32) -> Vec<u8> {
    let fields = [method, &GET[1..]].concat();
    frame(HEADERS, END_HEADERS | flags, stream, &fields)
}

const POST: &[u8] = b"\x83";
const PUT: &[u8] = b"\x02\x03PUT";

/// Waits until everything before has been done, and then moves the clock on.
fn pass(running: &Stepped, pause: Micros) {
    running.settle();
    if pause > Micros(0) {
        running.advance(pause);
    }
}

#[test]
fn client_may_reset_200_requests_at_once_more_than_are_answered_and_200_more_a_second() {
    // How many requests are answered first; then pauses, and how many resets follow each. The very last reset is too
    // many.
    const HALF: Micros = Micros(500_000);
    let table: [(usize, &[(Micros, usize)]); 5] = [
        (0, &[(secs(0), 201)]),
        (0, &[(secs(0), 200), (HALF, 101)]),
        (
            0,
            &[
                (secs(0), 100),
                (secs(1), 200),
                (secs(1), 200),
                (secs(1), 200),
                (HALF, 101),
            ],
        ),
        // Answers before the first reset do not count.
        (50, &[(secs(0), 201)]),
        (0, &[(secs(0), 150), (secs(9), 200), (secs(1), 201)]),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let origin = Origin::mute();
    let running = beside_mute(&origin, &log, "");
    for (ended, (answered, steps)) in table.into_iter().enumerate() {
        let mut client = Frames::connect(running.public, b"");
        let mut streams = (1..).step_by(2);
        for stream in streams.by_ref().take(answered) {
            client.send_all(&head(PUT, 1, stream));
            while client.until(HEADERS).stream != stream {}
        }
        let (last, first) = steps.split_last().expect("a step");
        for &(pause, count) in first {
            pass(&running, pause);
            cancel(&mut client, &mut streams, count);
        }
        pass(&running, last.0);
        cancel(&mut client, &mut streams, last.1 - 1);
        client.ping();
        running.settle();
        client.ping();
        assert_told(&running, ended, &log);
        cancel(&mut client, &mut streams, 1);
        assert_eq!(client.end(), ENHANCE_YOUR_CALM, "{answered} {steps:?}");
        assert_told(&running, ended + 1, &log);
    }
}

#[test]
fn each_answer_lets_a_client_reset_one_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let origin = Origin::mute();
    let running = beside_mute(&origin, &log, "");
    let mut client = Frames::connect(running.public, b"");
    let mut streams = (1..).step_by(2);
    cancel(&mut client, &mut streams, 200);
    for _ in 0..300 {
        let stream = streams.next().expect("a stream");
        client.send_all(&head(PUT, 1, stream));
        while client.until(HEADERS).stream != stream {}
        cancel(&mut client, &mut streams, 1);
    }
    client.ping();
    cancel(&mut client, &mut streams, 1);
    assert_eq!(client.end(), ENHANCE_YOUR_CALM);
    assert_told(&running, 1, &log);
}

#[test]
fn resets_relayed_by_a_trusted_proxy_count_only_before_their_request_is_decided() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let origin = Origin::mute();
    let running = beside_mute(&origin, &log, "trusted_proxies = ['127.0.0.1']");
    let mut client = Frames::connect(running.public, b"");
    let mut streams = (1..).step_by(2);
    cancel(&mut client, &mut streams, 1000);
    client.ping();
    running.settle();
    client.ping();
    assert_told(&running, 0, &log);
    // These requests are not decided before their bodies have been read.
    for _ in 0..2 {
        cancel_at_once(&mut client, &mut streams, 100, |stream| {
            head(POST, 0, stream)
        });
    }
    client.ping();
    running.settle();
    client.ping();
    cancel_at_once(&mut client, &mut streams, 1, |stream| head(POST, 0, stream));
    assert_eq!(client.end(), ENHANCE_YOUR_CALM);
    assert_told(&running, 1, &log);
    // These requests are reset before the gateway reads them.
    let mut client = Frames::connect(running.public, b"");
    let pair = |stream| [get(stream), reset(stream)].concat();
    let pairs = (1..).step_by(2).take(300).flat_map(pair);
    client.send_all(&pairs.collect::<Vec<_>>());
    assert_eq!(client.end(), ENHANCE_YOUR_CALM);
    assert_told(&running, 2, &log);
}

#[test]
fn resets_of_heads_that_are_not_read_yet_count_as_others_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let origin = Origin::mute();
    let running = beside_mute(&origin, &log, "");
    for (ended, (count, is_ended)) in [(200, false), (300, true)].into_iter().enumerate() {
        let mut client = Frames::connect(running.public, b"");
        let pair = |stream| [get(stream), reset(stream)].concat();
        let pairs = (1..).step_by(2).take(count).flat_map(pair);
        client.send_all(&pairs.collect::<Vec<_>>());
        if is_ended {
            assert_eq!(client.end(), ENHANCE_YOUR_CALM);
        } else {
            client.ping();
            running.settle();
            client.send_all(&head(PUT, 1, 1001));
            assert_eq!(client.until(HEADERS).stream, 1001);
        }
        assert_told(&running, ended, &log);
    }
}

/// A request with an invalid target loses only its own stream, and is counted like a malformed head of HTTP/1.1.
#[test]
fn a_target_with_a_character_that_no_url_may_hold_is_reset_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let origin = Origin::plain();
    let running = beside_mute(&origin, &log, "");
    let mut client = Frames::connect(running.public, b"");
    let targets = ["/a<b", "/a>b", "/a`b", "/?\"", "/?<", "/?>"];
    for (target, stream) in targets.into_iter().zip((1..).step_by(2)) {
        let length = u8::try_from(target.len()).expect("a short target");
        // `:method`, `:scheme`, `:path` as it is, and `:authority` as in any GET.
        let head = [b"\x82\x86\x04", &[length][..], target.as_bytes(), &GET[3..]].concat();
        client.send(HEADERS, END_STREAM | END_HEADERS, stream, &head);
        let reset = client.until(RST_STREAM);
        assert_eq!(
            (reset.stream, &*reset.payload),
            (stream, &b"\0\0\0\x01"[..]),
            "{target}"
        );
    }
    client.send_all(&get(99));
    assert_eq!(client.until(HEADERS).stream, 99);
    assert_told_of(&running, "syntax", targets.len(), &log);
}

/// A client learns only later that the rest of its upload is not wanted, so that rest is no offence.
#[test]
fn data_that_was_under_way_when_its_request_was_answered_ends_no_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let origin = Origin::mute();
    let running = beside_mute(&origin, &log, "");
    let mut client = Frames::connect(running.public, b"");
    for stream in (1..).step_by(2).take(400) {
        client.send_all(&head(PUT, 0, stream));
        assert_eq!(client.until(RST_STREAM).stream, stream);
        client.send_all(&frame(DATA, 0, stream, b"late").repeat(4));
    }
    client.ping();
    client.send_all(&head(PUT, 1, 1001));
    assert_eq!(client.until(HEADERS).stream, 1001);
    assert_told(&running, 0, &log);
}

/// Waits until log and metrics report that `times` connections were ended because of their resets.
#[track_caller]
fn assert_told(running: &Stepped, times: usize, log: &std::path::Path) {
    assert_told_of(running, "too_many_resets", times, log);
}

/// Waits until log and metrics report `reason` `times` times.
#[track_caller]
fn assert_told_of(running: &Stepped, reason: &str, times: usize, log: &std::path::Path) {
    let counted = format!("tollgate_errors_total{{reason={reason:?}");
    eventually("it is counted", || {
        (running.metric(&counted) == times as u64).then_some(())
    });
    eventually("it is logged", || {
        let text = fs::read_to_string(log).unwrap_or_default();
        (text.matches(reason).count() == times).then_some(())
    });
}
