//! `[listeners.NAME]`.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::kind::{duration, list, number, size, text};
use super::{BODY_BYTES, Effect, Keys, TIMEOUTS};
use crate::config::spelling;
use crate::config::value::{client_address, network, socket_address};
use crate::request::{AddressSource, ClientIdentity};
use crate::snapshot::Listener;

/// `[listeners.NAME]`
pub static LISTENER: LazyLock<Keys<Listener>> = LazyLock::new(|| {
    let seconds = |seconds| duration(TIMEOUTS).or(Duration::from_secs(seconds));
    let network = text("10.0.0.0/8", network, ToString::to_string);
    let networks = list(network).plain(|nets| nets, |nets| spelling::list(nets));
    let source = text("x-forwarded-for", client_address, spelling::address_source);
    let address = text("127.0.0.1:8080", socket_address, ToString::to_string);
    Keys::<Listener>::of("listener", "[listeners.NAME]")
        .key("address", address)
        .sets(|it| &mut it.address)
        .doc("Where it listens.")
        .effect(Effect::NeedsRestart)
        .key("trusted_proxies", networks.or(Vec::new()))
        .sets(|it| &mut it.identity.trusted_proxies)
        .doc("Addresses and networks whose word on the client's address is believed.")
        .key("client_address", source.or(AddressSource::XForwardedFor))
        .sets(|it| &mut it.identity.source)
        .doc("Where they say it:")
        .key("ipv6_prefix", number(1..=128).or(64))
        .sets(|it| &mut it.identity.ipv6_prefix)
        .doc("Leading bits of an IPv6 address that make one client.")
        .key("max_connections", number(1..=CONNECTIONS_MAX).or(10_000))
        .sets(|it| &mut it.max_connections)
        .doc("Most connections at once.")
        .key("max_held", number(0..=CONNECTIONS_MAX).or(1_000))
        .sets(|it| &mut it.max_held)
        .doc("Most requests that leaky-bucket policies hold at once.")
        .key("header_timeout", seconds(10))
        .sets(|it| &mut it.header_timeout)
        .doc("Until a request's head is complete.")
        .key("idle_timeout", seconds(75))
        .sets(|it| &mut it.idle_timeout)
        .doc("Between two requests of a connection.")
        .key("body_timeout", seconds(30))
        .sets(|it| &mut it.body_timeout)
        .doc("Without progress by the client while a body is read or written.")
        // hyper reads a head into 8 KiB at least.
        .key("max_header_bytes", size(8 << 10..=1 << 20).or(32 << 10))
        .sets(|it| &mut it.max_header_bytes)
        .doc("Most bytes of a request's head.")
        .key("max_body_bytes", size(BODY_BYTES).or_none("none"))
        .sets(|it| &mut it.max_body_bytes)
        .doc("Most bytes of a request's body; without it, any number.")
        .not_yet("tls proxy_protocol handshake_timeout tunnel_timeout")
});

/// A listener of which nothing is known; each key has its default in the table, and the address none.
impl Default for Listener {
    fn default() -> Self {
        Self {
            name: Arc::default(),
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            identity: ClientIdentity::default(),
            max_connections: 0,
            max_held: 0,
            header_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            body_timeout: Duration::ZERO,
            max_header_bytes: 0,
            max_body_bytes: None,
        }
    }
}

const CONNECTIONS_MAX: u64 = 1_000_000;
