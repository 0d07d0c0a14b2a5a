//! Requests that are not HTTP, or that could be read in two ways: nothing is ever smuggled after them.
//!
//! Two outcomes are allowed, and each has its check. Either a message is refused ([`rejected`]): the gateway answers by
//! itself, closes, and leaves traces only in log and metrics. Or it is one request ([`bench::Bench::one`]): canonical
//! at the origin, and answered once. Every message is followed by `GET /smuggled`, which an origin may see only if the
//! test says so.

mod bench;
mod bodies;
mod canonical;
mod chunks;
mod codings;
mod heads;
mod hop_by_hop;
mod readers;
mod switching;
mod targets;

use bench::rejected;

/// The request that follows every message.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// A message that is refused: its bytes, the status, and the reason in log and metrics.
type Row = (Vec<u8>, u16, &'static str);

/// Returns the head of a POST with a host and these field lines.
fn post(lines: impl AsRef<[u8]>) -> Vec<u8> {
    let start = b"POST / HTTP/1.1\r\nHost: a.test\r\n";
    [start, lines.as_ref(), b"\r\n\r\n"].concat()
}

/// Returns rows with the same status and reason.
fn rows<M: AsRef<[u8]>>(messages: &[M], status: u16, reason: &'static str) -> Vec<Row> {
    let row = |message: &M| (message.as_ref().to_vec(), status, reason);
    messages.iter().map(row).collect()
}

/// Formats a message for a failure: on one line, and shortened if it is long.
fn shown(message: &[u8]) -> String {
    let text = message.escape_ascii().to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], message.len()),
        None => text,
    }
}

/// Fails the test with all failures, not only the first one.
#[track_caller]
fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
