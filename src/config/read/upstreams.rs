//! `[upstreams.NAME]`.

use super::TIMEOUTS;
use super::keys::POOL;
use super::table::{Table, plain};
use crate::config::file::Upstream;
use crate::config::value::endpoint;

pub(super) fn upstream(table: &mut Table<'_, '_>) -> Upstream {
    // Taking turns is all there is, so it leaves no trace.
    table.word(
        "balance",
        &[("round-robin", ())],
        &["least-requests", "hash"],
    );
    let (max_idle, idle_timeout) = table.table("pool", &POOL, |pool| {
        let max_idle = plain(pool.number("max_idle", 0..=IDLE_MAX));
        (max_idle, pool.duration("idle_timeout", TIMEOUTS))
    });
    Upstream {
        endpoints: table.list_or_one("endpoints", "http://127.0.0.1:9000", endpoint),
        connect_timeout: table.duration("connect_timeout", TIMEOUTS),
        response_timeout: table.duration("response_timeout", TIMEOUTS),
        body_timeout: table.duration("body_timeout", TIMEOUTS),
        retries: plain(table.number("retries", 0..=RETRIES_MAX)),
        max_idle,
        idle_timeout,
        incomplete: table.is_incomplete(),
    }
}

const RETRIES_MAX: u64 = 10;
const IDLE_MAX: u64 = 65_536;
