//! The client's address: the peer's, or what a trusted peer says it is.
//!
//! The entries of the trusted field are walked from the right, where the nearest proxy wrote. The first address that is
//! not a trusted proxy is the client; if all are trusted, the leftmost is. An entry that cannot be read (`unknown`, a
//! zone, an octal) ends the walk, and the peer is the client: entries to the left of it cannot be trusted, and if all
//! such requests shared a client "unknown", one sender could exhaust the quota of all.
//!
//! A peer at the other end of a Unix socket has no address. It is trusted, because the permissions of the socket's file
//! decide who may connect; if it names no client, the client has no address either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};

use ipnet::IpNet;

use super::forwarded;
use super::host::is_port;

/// How a listener tells who its clients are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Peers that are trusted to say whose requests they forward.
    pub trusted_proxies: Vec<IpNet>,
    /// The one source of a client's address that is trusted if these peers send it.
    pub source: AddressSource,
    /// How many leading bits of an address identify a client.
    pub prefixes: ClientPrefixes,
}

/// How many leading bits of an address identify a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPrefixes {
    /// Leading bits of an IPv4 address, 1 to 32.
    pub ipv4: u8,
    /// Leading bits of an IPv6 address, 1 to 128.
    pub ipv6: u8,
}

impl Default for ClientPrefixes {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 64 }
    }
}

/// Where a trusted peer says whose request it forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AddressSource {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// One address in a header of this name.
    Header(HeaderName),
    /// Nowhere: the peer is the client.
    Peer,
}

impl ClientIdentity {
    /// Yields the fields that are trusted if trusted peers send them: the source of addresses, and the scheme and the
    /// host that a request first came with.
    pub fn believed_fields(&self) -> impl Iterator<Item = &HeaderName> {
        let source = match &self.source {
            AddressSource::XForwardedFor => Some(&X_FORWARDED_FOR),
            AddressSource::Forwarded => Some(&FORWARDED),
            AddressSource::Header(name) => Some(name),
            AddressSource::Peer => None,
        };
        source
            .into_iter()
            .chain([&X_FORWARDED_PROTO, &X_FORWARDED_HOST])
    }
}

/// Fields in which proxies of some kind state the client's address; anyone else can send them too.
pub const ADDRESS_CLAIMS: [&str; 8] = [
    "forwarded",
    "x-forwarded-for",
    "x-real-ip",
    "client-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-cluster-client-ip",
];

/// Returns the client's address; an IPv4-mapped address is returned as IPv4. None if the peer has no address and does
/// not say whose request it forwards.
pub fn client_address(
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    identity: &ClientIdentity,
) -> Option<IpAddr> {
    let peer = peer.map(|peer| peer.to_canonical());
    if !is_trusted_peer(peer, identity) {
        return peer;
    }
    claimed_address(headers, identity).or(peer)
}

/// Returns the client's address as stated by a trusted peer; none if it states none, or none that can be read.
pub fn claimed_address(headers: &HeaderMap, identity: &ClientIdentity) -> Option<IpAddr> {
    match &identity.source {
        AddressSource::Peer => None,
        AddressSource::XForwardedFor => {
            rightmost_untrusted(entries(headers, &X_FORWARDED_FOR), identity)
        }
        AddressSource::Header(name) => rightmost_untrusted(entries(headers, name), identity),
        AddressSource::Forwarded => {
            let lines = headers.get_all(FORWARDED).iter().rev();
            let elements = lines.flat_map(|line| forwarded::elements_from_right(line.as_bytes()));
            let nodes = elements
                .filter(|element| !element.is_empty())
                .map(|element| read(forwarded::node(element)?));
            rightmost_untrusted(nodes, identity)
        }
    }
}

/// Walks `entries` from right to left; `None` is an entry that cannot be read.
fn rightmost_untrusted(
    entries: impl Iterator<Item = Option<IpAddr>>,
    identity: &ClientIdentity,
) -> Option<IpAddr> {
    let mut last = None;
    for (hop, entry) in entries.enumerate() {
        if hop == HOPS_MAX {
            return None;
        }
        let address = entry?;
        if !is_trusted(address, identity) {
            return Some(address);
        }
        last = Some(address);
    }
    last
}

/// Returns the network that counts as one client: the leading bits of its address. An IPv4-mapped address counts as
/// IPv4.
pub fn client_network(address: IpAddr, prefixes: ClientPrefixes) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let kept = u32::from(prefixes.ipv6.min(128));
            let mask = u128::MAX.checked_shl(128 - kept).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V4(address) => {
            let kept = u32::from(prefixes.ipv4.min(32));
            let mask = u32::MAX.checked_shl(32 - kept).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// Whether a peer is trusted to say who its client is: it is among the listener's trusted proxies, or at the other end
/// of a Unix socket.
pub fn is_trusted_peer(peer: Option<IpAddr>, identity: &ClientIdentity) -> bool {
    peer.is_none_or(|peer| is_trusted(peer.to_canonical(), identity))
}

/// Whether an address is among the listener's trusted proxies.
fn is_trusted(address: IpAddr, identity: &ClientIdentity) -> bool {
    is_in(address, &identity.trusted_proxies)
}

/// Whether an address is in one of the networks. This is faster than [`IpNet::contains`], and every request calls it.
pub fn is_in(address: IpAddr, networks: &[IpNet]) -> bool {
    networks.iter().any(|network| {
        let differing = match (network.addr(), address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                u128::from(network.to_bits() ^ address.to_bits())
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => network.to_bits() ^ address.to_bits(),
            _ => return false,
        };
        let host_bits = network.max_prefix_len() - network.prefix_len();
        differing.checked_shr(host_bits.into()).unwrap_or(0) == 0
    })
}

/// Yields the entries of a list of addresses from right to left, as if its lines were joined in order. Empty entries do
/// not count (RFC 9110 section 5.6.1.2).
fn entries(headers: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(name).iter().rev();
    lines
        .flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
        .map(read)
}

/// Reads an address that may have a port; IPv6 with a port is in brackets.
fn read(entry: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(entry).ok()?;
    let (address, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        (IpAddr::V6(address.parse::<Ipv6Addr>().ok()?), port)
    } else if let Ok(address) = text.parse() {
        (address, "")
    } else {
        let colon = text.find(':')?;
        let (address, port) = text.split_at(colon);
        (IpAddr::V4(address.parse::<Ipv4Addr>().ok()?), port)
    };
    let port_is_good = match port.strip_prefix(':') {
        None => port.is_empty(),
        // RFC 7239 section 6.3 lets a port be obfuscated.
        Some(port) => is_port(port) || is_obfuscated(port),
    };
    port_is_good.then(|| address.to_canonical())
}

fn is_obfuscated(port: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    port.strip_prefix('_')
        .is_some_and(|name| !name.is_empty() && name.bytes().all(of_name))
}

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// Most entries that the walk reads; if all of them are trusted and there are more, the list counts as unreadable.
const HOPS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_malformed_element_of_forwarded_names_nobody() {
        let (peer, client) = ("10.0.0.1", "203.0.113.9");
        let identity = ClientIdentity {
            trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")],
            source: AddressSource::Forwarded,
            prefixes: ClientPrefixes::default(),
        };
        for (name, line, expected) in [
            ("quote left open", "for=\"1.1.1.1, for=203.0.113.9", client),
            (
                "open quote hides the rest",
                "for=203.0.113.9, for=\"10.1.1.1",
                peer,
            ),
            ("text after quotes", "for=\"203.0.113.9\"x", peer),
            ("no value", "for=", peer),
            ("no pair", "203.0.113.9", peer),
            ("quote in a name", "for=203.0.113.9;x\"y=1", peer),
            ("space in a name", "for=203.0.113.9;by =_x", peer),
        ] {
            let headers = HeaderMap::from_iter([(FORWARDED, HeaderValue::from_static(line))]);
            let found = client_address(peer.parse().ok(), &headers, &identity);
            assert_eq!(found, expected.parse().ok(), "{name}");
        }
    }

    #[test]
    fn address_is_in_a_network_up_to_its_last_bit() {
        let flipped = |address: IpAddr, bit: u8| match address {
            IpAddr::V4(address) => IpAddr::from(Ipv4Addr::from_bits(address.to_bits() ^ 1 << bit)),
            IpAddr::V6(address) => IpAddr::from(Ipv6Addr::from_bits(address.to_bits() ^ 1 << bit)),
        };
        for address in ["203.0.113.9", "2001:db8::9"] {
            let address: IpAddr = address.parse().expect("an address");
            let bits = if address.is_ipv4() { 32 } else { 128 };
            for prefix in 0..=bits {
                let network = IpNet::new(address, prefix).expect("a prefix");
                assert!(is_in(address, &[network]), "{network}");
                for bit in 0..bits {
                    let other = flipped(address, bit);
                    let found = is_in(other, &[network]);
                    assert_eq!(found, network.contains(&other), "{other} in {network}");
                }
            }
        }
        let mapped: IpAddr = "::ffff:203.0.113.9".parse().expect("an address");
        let all: IpNet = "0.0.0.0/0".parse().expect("a network");
        assert!(!is_in(mapped, &[all]), "families differ");
    }
}
