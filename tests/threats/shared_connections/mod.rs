//! HTTP/2 connections that many clients share: a mistake of one costs only its own request.
//!
//! In `upstreams`, clients of the gateway share its connection to an origin. In `clients`, they share a connection to
//! the gateway, as the clients of another proxy do. `tests/edge/neighbours.rs` does the same with grpcio and Node.

mod clients;
mod upstreams;

use crate::support::Certificate;
use crate::support::frames::{self, HEADERS, indexed};
use crate::support::redis::Authority;

/// Returns the two cases: no TLS, and TLS with a certificate for the end that is the server.
fn clear_and_secure(authority: &Authority) -> [Option<Certificate>; 2] {
    [None, Some(authority.sign_local())]
}

/// A flag of HEADERS: the frame names the stream that its own stream depends on (RFC 7540, section 6.2).
const HAS_PRIORITY: u8 = 0x20;

/// Fields that are malformed in every message, by name and value.
const MALFORMED: [(&[u8], &[u8]); 12] = [
    (b"X-Upper", b"y"),
    (b"", b"y"),
    (b"a b", b"y"),
    (b"a\0b", b"y"),
    (b"\xe4", b"y"),
    (b"x-a", b"a\0b"),
    (b"x-a", b"a\nb"),
    (b"x-a", b"a\rb"),
    (b"x-a", b"\x7f"),
    (b":unknown", b"y"),
    (b"connection", b"close"),
    (b"te", b"gzip"),
];

/// Returns heads that are too large to keep: a name, a block that starts with `beginning`, and the size of its frames.
fn large_heads(beginning: &[u8]) -> Vec<(&'static str, Vec<u8>, usize)> {
    let many = |bytes: usize, length: usize| -> Vec<u8> {
        let field = |number| frames::field(format!("x-{number}").as_bytes(), &vec![b'v'; length]);
        (0..bytes / (length + 40)).flat_map(field).collect()
    };
    let one = |bytes: usize| indexed(b"x-large", &vec![b'v'; bytes]);
    let under_1_mib = (1 << 20) - 4096;
    let with = |rest: Vec<u8>| [beginning, &rest].concat();
    vec![
        (
            "200 KB in many fields",
            with(many(200_000, 1000)),
            frames::FRAME_BYTES,
        ),
        ("200 KB in small frames", with(many(200_000, 1000)), 300),
        (
            "200 KB in small fields",
            with(many(200_000, 10)),
            frames::FRAME_BYTES,
        ),
        ("a value of 200 KB", with(one(200_000)), frames::FRAME_BYTES),
        ("a value of 60 KB", with(one(60_000)), 1000),
        (
            "a name of 200 KB",
            with(indexed(&[b'n'; 200_000], b"y")),
            frames::FRAME_BYTES,
        ),
        (
            "just under 1 MiB in many fields",
            with(many(under_1_mib, 1000)),
            frames::FRAME_BYTES,
        ),
        (
            "a value of just under 1 MiB",
            with(one(under_1_mib)),
            frames::FRAME_BYTES,
        ),
    ]
}

/// Moves frames that were made for stream 0 to `stream`.
fn on_stream(frames: &[u8], stream: u32) -> Vec<u8> {
    let (mut frames, stream) = (frames.to_vec(), stream.to_be_bytes());
    let mut at = 0;
    while at < frames.len() {
        let length = u32::from_be_bytes([0, frames[at], frames[at + 1], frames[at + 2]]) as usize;
        frames[at + 5..at + 9].copy_from_slice(&stream);
        if frames[at + 3] == HEADERS && frames[at + 4] & HAS_PRIORITY != 0 {
            frames[at + 9..at + 13].copy_from_slice(&stream);
        }
        at += 9 + length;
    }
    frames
}
