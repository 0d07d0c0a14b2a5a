//! Connections that abuse HTTP/2, next to a client that behaves well (threat model, 2d).

use crate::foreign::client;
use crate::support::{Config, Origin, Process, get, ratelimit};

/// Number of frames for each abuse; `scripts/drill/http2` sends ten times as many.
const FRAMES: usize = 10_000;
/// Number of HPACK bombs, each of which expands to 60 MiB.
const BOMBS: usize = 200;
/// Most memory that an abusive connection and its neighbour may take: 64 KiB for each of a hundred streams, plus what
/// the allocator keeps.
const MEMORY_MAX: u64 = 16 << 20;
const QUOTA: i64 = 1_000_000;

const ABUSES: [&str; 18] = [
    "rapid-reset",
    "made-reset-by-window",
    "made-reset-by-overflow",
    "made-reset-by-data",
    "made-reset-by-no-method",
    "continuation-empty",
    "continuation-small",
    "ping",
    "ping-unread",
    "settings",
    "settings-unread",
    "priority",
    "idle-priority",
    "empty-data",
    "padded-data",
    "window-update",
    "unknown",
    "hpack-bomb",
];

#[test]
fn abusive_connections_are_charged_for_what_passes_and_take_bounded_memory_and_harm_nobody() {
    for abuse in ABUSES {
        let origin = Origin::plain();
        let policy = format!("quota = '{QUOTA} per day'\npartition = ['path']");
        let config = Config::to(origin.url())
            .policy("p", &policy)
            .route("/*", "policies = ['p']");
        let process = Process::start(&config);
        get(process.public, "/", "");
        let before = process.peak_memory();
        let frames = if abuse == "hpack-bomb" { BOMBS } else { FRAMES };
        let port = process.public.port().to_string();
        let printed = client("abuses.py", &[&port, &frames.to_string(), abuse]);
        let taken = process.peak_memory() - before;
        println!("{} {} KiB", printed.trim(), taken >> 10);
        assert!(taken < MEMORY_MAX, "{abuse}: {taken} bytes");
        let left = ratelimit::remaining(&get(process.public, "/abused", ""), "p");
        let arrived = origin.targets().iter().filter(|x| *x == "/abused").count();
        let arrived = i64::try_from(arrived).expect("a count");
        assert!(
            arrived <= QUOTA - left,
            "{abuse}: {arrived} at the origin, {left} left"
        );
    }
}
