//! `[listeners.NAME]`.

use std::ops::RangeInclusive;

use super::table::{Table, plain};
use super::{BODY_RANGE, TIMEOUTS};
use crate::config::file::{At, Listener};
use crate::config::value::{client_address, network, socket_address};

pub(super) fn listener(table: &mut Table<'_, '_>) -> Listener {
    let networks = table.list("trusted_proxies", "10.0.0.0/8", network);
    Listener {
        address: table.text("address", "127.0.0.1:8080", socket_address),
        trusted_proxies: plain(networks)
            .unwrap_or_default()
            .into_iter()
            .map(|network| network.value)
            .collect(),
        client_address: table.text("client_address", "x-forwarded-for", client_address),
        ipv6_prefix: plain(table.number("ipv6_prefix", 1..=128)),
        max_connections: plain(table.number("max_connections", 1..=CONNECTIONS_MAX)),
        max_held: plain(table.number("max_held", 0..=CONNECTIONS_MAX)),
        header_timeout: table.duration("header_timeout", TIMEOUTS),
        idle_timeout: table.duration("idle_timeout", TIMEOUTS),
        body_timeout: table.duration("body_timeout", TIMEOUTS),
        max_header_bytes: table.size("max_header_bytes", HEADER_RANGE).and_then(
            |At { value, span }| {
                let value = usize::try_from(value).ok()?;
                Some(At { value, span })
            },
        ),
        max_body_bytes: plain(table.size("max_body_bytes", BODY_RANGE)),
        incomplete: table.is_incomplete(),
    }
}

/// hyper reads a head into 8 KiB at least.
const HEADER_RANGE: RangeInclusive<u64> = 8 << 10..=1 << 20;
const CONNECTIONS_MAX: u64 = 1_000_000;
