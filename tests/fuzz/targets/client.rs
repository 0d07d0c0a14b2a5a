//! Client addresses: only a trusted proxy can say who a client is, and the next gateway agrees.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use tollgate::proxy::forwarded::{Sender, annotate};
use tollgate::request::{AddressSource, ClientIdentity, ClientPrefixes};
use tollgate::request::{client_address, is_trusted_peer};

use super::{header_map, lines, text};

/// The input: the peer (an address, or `unix`), what names clients (`x-forwarded-for`, `forwarded`, `peer`, or a
/// header's name), and the request's fields.
pub fn holds(data: &[u8]) {
    let mut lines = lines(data);
    let peer = match text(&mut lines) {
        Some("unix") => None,
        Some(address) => match address.parse::<IpAddr>() {
            Ok(address) => Some(address),
            Err(_) => return,
        },
        None => return,
    };
    let source = match text(&mut lines) {
        Some("x-forwarded-for") => AddressSource::XForwardedFor,
        Some("forwarded") => AddressSource::Forwarded,
        Some("peer") => AddressSource::Peer,
        Some(name) => match name.parse() {
            Ok(name) => AddressSource::Header(name),
            Err(_) => return,
        },
        None => return,
    };
    let headers = header_map(lines);
    let identity = identity(source);
    let client = client_address(peer, &headers, &identity);
    let peer = peer.map(|peer| peer.to_canonical());

    let entries = entries(&headers, &identity.source);
    if !is_trusted_peer(peer, &identity) {
        assert_eq!(client, peer, "a stranger speaks for himself");
    } else if let Some(entries) = &entries {
        let expected = walk(entries, &identity).or(peer);
        assert_eq!(client, expected, "{entries:?}");
    }
    assert_eq!(client, client.map(|client| client.to_canonical()));
    a_nearer_proxy_wins(peer, &headers, &identity);
    the_next_gateway_agrees(peer, client, &headers, &identity);
}

fn identity(source: AddressSource) -> ClientIdentity {
    let net = |net: &str| net.parse::<IpNet>().expect("good network");
    ClientIdentity {
        trusted_proxies: ["10.0.0.0/8", "fd00::/8"].map(net).to_vec(),
        source,
        prefixes: ClientPrefixes::default(),
    }
}

/// Walks from the right past trusted entries; `None` if it ends at nothing, at an unreadable entry, or after too many.
fn walk(entries: &[Option<IpAddr>], identity: &ClientIdentity) -> Option<IpAddr> {
    let trusted = |entry: &Option<IpAddr>| entry.is_some() && is_trusted_peer(*entry, identity);
    let past = entries
        .iter()
        .rev()
        .take_while(|entry| trusted(entry))
        .count();
    if past >= HOPS_MAX && entries.len() > HOPS_MAX {
        return None;
    }
    match entries.len() - past {
        0 => entries.first().copied().flatten(),
        left => entries[left - 1],
    }
}

/// Returns the entries of the field that names clients, from left to right; `None` if the field breaks its grammar,
/// because then only the nearest proxy's word counts.
fn entries(headers: &HeaderMap, source: &AddressSource) -> Option<Vec<Option<IpAddr>>> {
    let name = match source {
        AddressSource::Peer => return Some(Vec::new()),
        AddressSource::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
        AddressSource::Header(name) => name.clone(),
        AddressSource::Forwarded => {
            let lines = headers.get_all(FORWARDED).iter();
            let nodes = lines.map(|line| forwarded(line.as_bytes()));
            return Some(nodes.collect::<Option<Vec<_>>>()?.concat());
        }
    };
    let lines: Vec<_> = headers.get_all(name).iter().collect();
    let joined = lines.iter().map(|line| line.as_bytes());
    let joined = joined.collect::<Vec<_>>().join(&b","[..]);
    let entries = joined.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let entries = entries.filter(|entry| !entry.is_empty());
    Some(
        entries
            .map(|entry| address(str::from_utf8(entry).ok()?))
            .collect(),
    )
}

/// Reads an address, perhaps with a port.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let (host, port) = match text.strip_suffix(']') {
        Some(_) => (text, None),
        None => text
            .rsplit_once(':')
            .map(|(host, port)| (host, Some(port)))?,
    };
    if !port.is_none_or(is_port) {
        return None;
    }
    let brackets = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = match brackets {
        Some(host) => IpAddr::V6(host.parse::<Ipv6Addr>().ok()?),
        None => IpAddr::V4(host.parse::<Ipv4Addr>().ok()?),
    };
    Some(address.to_canonical())
}

/// Whether a text is a port (RFC 7239, section 6): a number, or a name that begins with `_`.
fn is_port(text: &str) -> bool {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match text.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(of_name),
        None => is_number && text.trim_start_matches('0').len() < 6 && number(text) <= 65_535,
    }
}

fn number(digits: &str) -> u32 {
    digits.parse().unwrap_or(0)
}

/// Reads a line of Forwarded from the left, by RFC 7239 (with white space beside `;` and `,`); `None` if it is not
/// well-formed. An element without a single `for` that is an address is `None` in the list.
fn forwarded(line: &[u8]) -> Option<Vec<Option<IpAddr>>> {
    let mut nodes = Vec::new();
    let mut rest = line.trim_ascii();
    loop {
        let mut fors = Vec::new();
        let mut pairs = 0;
        loop {
            rest = rest.trim_ascii_start();
            if !matches!(rest, [] | [b';' | b',', ..]) {
                let (name, value, after) = pair(rest)?;
                pairs += 1;
                if name.eq_ignore_ascii_case(b"for") {
                    fors.push(value);
                }
                rest = after.trim_ascii_start();
            } else if rest.starts_with(b";") {
                // An element of nothing but `;` counts as one; whether it may is not judged here.
                pairs += 1;
            }
            match rest.strip_prefix(b";") {
                Some(after) => rest = after,
                None => break,
            }
        }
        if pairs > 0 {
            nodes.push(match fors[..] {
                [value] => str::from_utf8(value).ok().and_then(address),
                _ => None,
            });
        }
        match rest {
            [] => return Some(nodes),
            [b',', after @ ..] => rest = after,
            _ => return None,
        }
    }
}

/// Splits off `token "=" ( token | quoted-string )`; returns the name, the value without its quotes, and the rest.
fn pair(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let length =
        |text: &[u8], of: fn(u8) -> bool| text.iter().take_while(|text| of(**text)).count();
    let (name, value) = text.split_at(length(text, is_token));
    let value = value.strip_prefix(b"=").filter(|_| !name.is_empty())?;
    let Some(quoted) = value.strip_prefix(b"\"") else {
        // An address is read even without the quotes that its `:` requires.
        let (value, after) = value.split_at(length(value, |value| {
            is_token(value) || b":[]".contains(&value)
        }));
        return (!value.is_empty()).then_some((name, value, after));
    };
    let mut at = 0;
    loop {
        match *quoted.get(at)? {
            b'"' => return Some((name, &quoted[..at], &quoted[at + 1..])),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether a byte may be in a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Asserts that the entry which a trusted proxy appends is the client, whatever the client wrote.
fn a_nearer_proxy_wins(peer: Option<IpAddr>, headers: &HeaderMap, identity: &ClientIdentity) {
    let (name, entries) = match &identity.source {
        AddressSource::Peer => return,
        AddressSource::XForwardedFor => ("x-forwarded-for", ["203.0.113.9", "[2001:db8::9]:55"]),
        AddressSource::Header(name) => (name.as_str(), ["203.0.113.9", "[2001:db8::9]:55"]),
        AddressSource::Forwarded => (
            "forwarded",
            [
                "for=203.0.113.9",
                "for=\"[2001:db8::9]:55\";host=\"a,\\\"b\"",
            ],
        ),
    };
    if !is_trusted_peer(peer, identity) {
        return;
    }
    for (entry, client) in entries.iter().zip(["203.0.113.9", "2001:db8::9"]) {
        let name: HeaderName = name.parse().expect("a name");
        let mut appended = headers.clone();
        appended.append(&name, entry.parse().expect("a value"));
        let mut continued = headers.clone();
        if let Some(last) = headers.get_all(&name).iter().next_back() {
            let line = [last.as_bytes(), b", ", entry.as_bytes()].concat();
            let mut lines: Vec<_> = headers.get_all(&name).iter().cloned().collect();
            lines.pop();
            lines.push(http::HeaderValue::from_bytes(&line).expect("a value"));
            continued.remove(&name);
            for line in lines {
                continued.append(&name, line);
            }
        } else {
            continued.append(&name, entry.parse().expect("a value"));
        }
        for headers in [appended, continued] {
            let found = client_address(peer, &headers, identity);
            let found = found.expect("an address").to_string();
            assert_eq!(found, client, "{headers:?}");
        }
    }
}

/// Asserts that a next gateway, which trusts this one and the same proxies, finds the same client in either field.
fn the_next_gateway_agrees(
    peer: Option<IpAddr>,
    client: Option<IpAddr>,
    headers: &HeaderMap,
    identity: &ClientIdentity,
) {
    let mut sent = headers.clone();
    let believed = is_trusted_peer(peer, identity).then_some(&identity.source);
    let sender = Sender {
        peer,
        client,
        believed,
        scheme: "http",
    };
    annotate(&mut sent, &sender);
    let own: IpAddr = "10.255.255.254".parse().expect("an address");
    // A client that is itself trusted may be a guess, made from entries beyond an unreadable one; and with so many
    // entries, one hop more may be too many.
    if is_trusted_peer(client, identity) || entries_count(headers) >= HOPS_MAX - 2 {
        return;
    }
    for (source, name) in [
        (AddressSource::XForwardedFor, "x-forwarded-for"),
        (AddressSource::Forwarded, "forwarded"),
    ] {
        let found = client_address(Some(own), &sent, &self::identity(source));
        assert_eq!(found, client, "{name} of {sent:?}");
    }
    for name in ["x-forwarded-for", "forwarded"] {
        assert_eq!(sent.get_all(name).iter().count(), 1, "{name} is one line");
    }
    if believed.is_none() {
        let stated = sent["x-forwarded-for"].to_str().map(str::to_owned);
        let peer = peer.map(|peer| peer.to_string());
        assert_eq!(stated.ok(), peer);
    }
}

fn entries_count(headers: &HeaderMap) -> usize {
    let entries = |value: &http::HeaderValue| value.as_bytes().split(|&byte| byte == b',').count();
    headers.values().map(entries).sum()
}

/// Entries that the gateway walks past before it takes a list as unreadable.
const HOPS_MAX: usize = 32;
