//! Whose quota a request spends: digests the request's partition.
//!
//! Each part is hashed as its name and its value, after the lengths of both. So no two partitions hash the same bytes,
//! and the digest depends on which alternative of `header:x-api-key | ip` was taken. Values are compared byte by byte;
//! an empty one counts as missing. All requests that lack a part share one digest, which no value has, whatever their
//! other parts are. Spellings that origins take for the same are one value: those of a credential in Authorization, and
//! the cases of a method.
//!
//! A header on several lines counts as one value, joined as RFC 9110 section 5.3 joins it. Origins
//! may read only the first line, so [`Reads`](super::Reads) makes them see what was counted.

mod latest;

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, Method};
pub use latest::LatestPartition;
use smallvec::SmallVec;

use super::client_address::{ClientPrefixes, client_network};
use super::cookie::cookie_value;
use super::credential::credential;
use super::joined_lines::joined;
use super::jwt::TokenClaims;
use super::path;
use super::query::query_value;
use super::route::{Found, Router};
use crate::limit::PartitionId;
use crate::limit::partition_id::PartitionHasher;

/// The parts that together name a client; if there are none, all clients share one quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition(pub SmallVec<[Choice; 1]>);

impl Partition {
    /// Returns all parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.0.iter().flat_map(|choice| &choice.0)
    }
}

/// Alternatives, of which the first that the request has counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(pub SmallVec<[Part; 1]>);

impl Choice {
    /// Returns the value of the first alternative that the request has, if it is text and not an address.
    pub fn text<'r>(&self, facts: &Facts<'r>) -> Option<Cow<'r, str>> {
        let (_, value) = first_present(self, facts)?;
        match value {
            Value::Text(Cow::Borrowed(bytes)) => str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Value::Text(Cow::Owned(bytes)) => String::from_utf8(bytes).ok().map(Cow::Owned),
            Value::Address(..) => None,
        }
    }
}

/// A part of a request that can name its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The client's address, or the network of it that counts as one client.
    Ip,
    /// A header's value.
    Header(HeaderName),
    /// A cookie's value.
    Cookie(Box<str>),
    /// The value of a parameter of the query.
    Query(Box<str>),
    /// A claim of a verified token.
    Claim(Box<str>),
    /// The SHA-256 of the client's certificate, in hex.
    ClientCert,
    /// The host asked for, in lower case, without port.
    Host,
    /// The method, in capitals.
    Method,
    /// The name of the route.
    Route,
    /// The normalised path.
    Path,
    /// A `{param}` of the route's path.
    PathParam(Box<str>),
}

/// What happens to a request that lacks a part of the partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The request shares one quota with all others that lack the part.
    #[default]
    Share,
    /// The policy does not apply.
    Skip,
    /// The request is refused with 401.
    Refuse,
}

/// The facts of a request that can name its client.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'r> {
    /// The client's address, as [`client_address`](super::client_address()) returns it.
    pub client: Option<IpAddr>,
    /// How many leading bits of an address identify a client.
    pub prefixes: ClientPrefixes,
    /// The request's headers.
    pub headers: &'r HeaderMap,
    /// The host, as [`host`](super::host()) returns it.
    pub host: &'r str,
    /// The method.
    pub method: &'r Method,
    /// The route's name.
    pub route_name: &'r str,
    /// The normalised path.
    pub path: &'r str,
    /// The query, as it came.
    pub query: Option<&'r str>,
    /// The claims of the request's token, if the route reads claims and the token verified.
    pub claims: Option<&'r TokenClaims>,
    /// The SHA-256 of the client's certificate, if the listener asks for one.
    pub client_cert: Option<&'r str>,
    /// The route, and its parameters.
    pub found: &'r Found,
    /// The router that found it.
    pub router: &'r Router,
}

/// Whose quota a request spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identified {
    /// The quota of this partition.
    PartitionId(PartitionId),
    /// No quota: a part is missing, and the policy does not apply without it.
    Skip,
    /// No quota: a part is missing, and the policy requires it. The answer is 401.
    Unidentified {
        /// Index of the partition's choice of which the request has no part.
        choice: usize,
    },
}

/// Digests the request's `partition` under `key`; `missing` says what happens if the request lacks
/// a part.
pub fn partition_id(
    key: &[u8; 32],
    partition: &Partition,
    missing: Missing,
    facts: &Facts<'_>,
) -> Identified {
    let mut hasher = PartitionHasher::new(key);
    for (index, choice) in partition.0.iter().enumerate() {
        if let Some((part, value)) = first_present(choice, facts) {
            add(&mut hasher, part, &value);
            continue;
        }
        return match missing {
            Missing::Share => Identified::PartitionId(shared_id(key, choice)),
            Missing::Skip => Identified::Skip,
            Missing::Refuse => Identified::Unidentified { choice: index },
        };
    }
    Identified::PartitionId(hasher.finish())
}

/// Digests one part and its value alone.
pub(super) fn digest(key: &[u8; 32], part: &Part, value: &Value<'_>) -> PartitionId {
    id_of_values(key, [(part, value)])
}

/// Digests the values of a partition's items, in the partition's order.
pub(super) fn id_of_values<'v>(
    key: &[u8; 32],
    values: impl IntoIterator<Item = (&'v Part, &'v Value<'v>)>,
) -> PartitionId {
    let mut hasher = PartitionHasher::new(key);
    for (part, value) in values {
        add(&mut hasher, part, value);
    }
    hasher.finish()
}

/// Returns the partition id of all requests that have none of a choice's parts.
fn shared_id(key: &[u8; 32], choice: &Choice) -> PartitionId {
    let mut hasher = PartitionHasher::new(key);
    hasher.part("missing", &choice.0.len().to_le_bytes());
    for part in &choice.0 {
        let (kind, name) = spelling(part);
        hasher.part(kind, name.as_bytes());
    }
    hasher.finish()
}

/// Adds a part to the digest: its kind with its value. A part with a name adds its kind with its
/// name, and then an empty kind with its value; no other part begins with an empty kind.
fn add(hasher: &mut PartitionHasher, part: &Part, value: &Value<'_>) {
    let (mut kind, name) = spelling(part);
    if !name.is_empty() {
        hasher.part(kind, name.as_bytes());
        kind = "";
    }
    match value {
        Value::Text(text) => hasher.part(kind, text),
        Value::Address(IpAddr::V4(address), 32..) => hasher.part(kind, &address.octets()),
        Value::Address(IpAddr::V4(address), prefix) => {
            let [a, b, c, d] = address.octets();
            hasher.part(kind, &[a, b, c, d, *prefix]);
        }
        Value::Address(IpAddr::V6(address), prefix) => {
            let mut network = [0; 17];
            network[..16].copy_from_slice(&address.octets());
            network[16] = *prefix;
            hasher.part(kind, &network);
        }
    }
}

/// Returns a part as spelled in the file: the text before the colon and the text after it.
pub(super) fn spelling(part: &Part) -> (&'static str, &str) {
    match part {
        Part::Ip => ("ip", ""),
        Part::Header(name) => ("header", name.as_str()),
        Part::Cookie(name) => ("cookie", name),
        Part::Query(name) => ("query", name),
        Part::Claim(name) => ("jwt", name),
        Part::ClientCert => ("client-cert", ""),
        Part::Host => ("host", ""),
        Part::Method => ("method", ""),
        Part::Route => ("route", ""),
        Part::Path => ("path", ""),
        Part::PathParam(name) => ("path", name),
    }
}

/// The value of a part; never empty.
#[derive(Clone)]
pub(super) enum Value<'r> {
    Text(Cow<'r, [u8]>),
    /// An address whose bits beyond the prefix are zero.
    Address(IpAddr, u8),
}

impl Value<'_> {
    /// Returns the length of a text; an address counts as 0.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Address(..) => 0,
        }
    }

    /// Copies a borrowed value, so that it outlives the request.
    pub(super) fn into_owned(self) -> Value<'static> {
        match self {
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Address(address, prefix) => Value::Address(address, prefix),
        }
    }
}

/// Returns the first part of `choice` that the request has, and its value.
pub(super) fn first_present<'c, 'r>(
    choice: &'c Choice,
    facts: &Facts<'r>,
) -> Option<(&'c Part, Value<'r>)> {
    let present = |part: &'c Part| Some((part, value(part, facts)?));
    choice.0.iter().find_map(present)
}

/// Whether the request lacks no part of `partition`.
pub fn has_all(partition: &Partition, facts: &Facts<'_>) -> bool {
    let has = |choice| first_present(choice, facts).is_some();
    partition.0.iter().all(has)
}

/// Whether the partition is the client's address alone, and all of its bits.
pub fn is_whole_address(partition: &Partition, facts: &Facts<'_>) -> bool {
    let [Choice(parts)] = &*partition.0 else {
        return false;
    };
    **parts == [Part::Ip]
        && matches!(
            value(&Part::Ip, facts),
            Some(Value::Address(IpAddr::V4(_), 32) | Value::Address(IpAddr::V6(_), 128))
        )
}

pub(super) fn value<'r>(part: &Part, facts: &Facts<'r>) -> Option<Value<'r>> {
    let text = match part {
        Part::Ip => return Some(network(facts.client?, facts.prefixes)),
        Part::Header(name) if *name == AUTHORIZATION => match joined(facts.headers, name)? {
            Cow::Borrowed(line) => credential(line).ok()?,
            // Several lines are ambiguous.
            Cow::Owned(_) => return None,
        },
        Part::Header(name) => joined(facts.headers, name)?,
        // Ambiguous requests are refused before partitions are read; here, they lack the part.
        Part::Cookie(name) => cookie_value(facts.headers, name).ok()??,
        Part::Query(name) => query_value(facts.query?, name).ok()??,
        Part::Claim(name) => Cow::Borrowed(facts.claims?.value(name)?.as_bytes()),
        Part::ClientCert => Cow::Borrowed(facts.client_cert?.as_bytes()),
        Part::Host => Cow::Borrowed(facts.host.as_bytes()),
        Part::Method => method_in_capitals(facts.method.as_str()),
        Part::Route => Cow::Borrowed(facts.route_name.as_bytes()),
        Part::Path => match path::without_last_slash(facts.path) {
            "" => Cow::Borrowed(b"/".as_slice()),
            path => of_path(path, facts),
        },
        Part::PathParam(name) => of_path(facts.router.param(facts.found, name, facts.path)?, facts),
    };
    (!text.is_empty()).then_some(Value::Text(text))
}

/// Returns the network of an address that counts as one client.
pub(super) fn network(address: IpAddr, prefixes: ClientPrefixes) -> Value<'static> {
    match client_network(address, prefixes) {
        network @ IpAddr::V4(_) => Value::Address(network, prefixes.ipv4),
        network @ IpAddr::V6(_) => Value::Address(network, prefixes.ipv6),
    }
}

/// Spells a path, or a part of one, as its route compares it: if the route ignores case, all cases
/// are one.
fn of_path<'r>(path: &'r str, facts: &Facts<'_>) -> Cow<'r, [u8]> {
    let path = path::comparable(path);
    if facts.router.ignores_case(facts.found) {
        Cow::Owned(path.to_ascii_lowercase().into_bytes())
    } else {
        into_bytes(path)
    }
}

/// Methods are case-sensitive, but some origins take `post` for POST.
fn method_in_capitals(method: &str) -> Cow<'_, [u8]> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        Cow::Owned(method.to_ascii_uppercase().into_bytes())
    } else {
        Cow::Borrowed(method.as_bytes())
    }
}

fn into_bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

#[cfg(test)]
pub(super) mod tests;
