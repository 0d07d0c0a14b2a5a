//! What an override asks of the items of a partition.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::AUTHORIZATION;
use ipnet::IpNet;

use super::address::{V6, address_bytes};
use super::prefixes::Prefix;
use crate::request::credential::{self, credential};
use crate::request::partition::{Part, Value, network};
use crate::request::{ClientPrefixes, canonical_host, path};

/// What an override asks of each item of a partition; `None` matches any value.
pub type Pattern = Vec<Option<PartPattern>>;

/// What an override asks of one item of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartPattern {
    /// The alternative of the item that the pattern is about.
    pub(super) alternative: u32,
    pub(super) prefix: Prefix,
    pub(super) is_value: bool,
    pub(super) kind: PatternKind,
    /// The text that the pattern is shown as; `None` if it is shown like any client's value.
    pub(super) shown: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternKind {
    Text,
    /// A path, which some routes compare without case.
    Path,
    Address,
}

/// Why a text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPattern {
    /// The text is empty, which no request's value is.
    Empty,
    /// The text has a `*` before its end.
    StarInside,
    /// No request has such a host.
    Host,
    /// No request has such a credential.
    Credential,
}

/// Two patterns that match the same requests, as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualPatterns {
    /// The earlier pattern.
    pub first: usize,
    /// The pattern that repeats it.
    pub second: usize,
}

impl PartPattern {
    /// Makes a pattern from a network; a whole address becomes a value.
    pub fn network(network: IpNet) -> Self {
        let network = canonical(network);
        let (address, bits) = (network.addr(), network.prefix_len());
        let bits = 8 + usize::from(bits);
        let (octets, len) = address_bytes(address);
        let is_value = bits == 8 * len;
        Self {
            alternative: 0,
            prefix: Prefix {
                bytes: octets[..bits.div_ceil(8)].into(),
                bits,
            },
            is_value,
            kind: PatternKind::Address,
            shown: (!is_value).then(|| network.to_string().into()),
        }
    }

    /// Makes a pattern for `part` from a text: a value, or a glob if it ends with `*`.
    pub fn text(part: &Part, text: &str) -> Result<Self, BadPattern> {
        let text = text.trim();
        let glob = text.strip_suffix('*');
        let value = glob.unwrap_or(text);
        if value.contains('*') {
            return Err(BadPattern::StarInside);
        }
        if text.is_empty() {
            return Err(BadPattern::Empty);
        }
        let is_path = matches!(part, Part::Path | Part::PathParam(_));
        let value = match part {
            Part::Host if glob.is_some() => Cow::Owned(value.to_ascii_lowercase()),
            Part::Host => canonical_host(value).map_err(|_| BadPattern::Host)?,
            // Digests may also be written as tools print them: in capitals, with colons.
            Part::ClientCert => Cow::Owned(value.replace(':', "").to_ascii_lowercase()),
            Part::Method => Cow::Owned(value.to_ascii_uppercase()),
            Part::Header(name) if *name == AUTHORIZATION => {
                spelled_as_compared(value, glob.is_some()).ok_or(BadPattern::Credential)?
            }
            Part::Path if glob.is_none() => match path::without_last_slash(value) {
                "" => Cow::Borrowed("/"),
                value => path::comparable(value),
            },
            _ if is_path => path::comparable(value),
            _ => Cow::Borrowed(value),
        };
        Ok(Self {
            alternative: 0,
            prefix: Prefix {
                bits: 8 * value.len(),
                bytes: value.as_bytes().into(),
            },
            is_value: glob.is_none(),
            kind: if is_path {
                PatternKind::Path
            } else {
                PatternKind::Text
            },
            shown: glob.map(|_| printable(text)),
        })
    }

    /// Makes a pattern that matches only the value with these bytes.
    pub(super) fn value_of(bytes: &[u8], kind: PatternKind) -> Self {
        Self {
            alternative: 0,
            prefix: Prefix {
                bits: 8 * bytes.len(),
                bytes: bytes.into(),
            },
            is_value: true,
            kind,
            shown: None,
        }
    }

    /// Returns the glob with its `*`.
    pub(super) fn glob(&self) -> String {
        String::from_utf8_lossy(&self.prefix.bytes).into_owned() + "*"
    }

    /// Sets the alternative of its item that the pattern is about.
    #[must_use]
    pub fn of_alternative(self, alternative: usize) -> Self {
        let alternative = u32::try_from(alternative).expect("a file has fewer than 2^32 parts");
        Self {
            alternative,
            ..self
        }
    }

    /// Lets the pattern be shown as `text`, in clear, because it names no client; a text that it has already stays.
    #[must_use]
    pub fn in_clear(mut self, text: &str) -> Self {
        self.shown.get_or_insert_with(|| printable(text));
        self
    }

    /// Returns the alternative of its item that the pattern is about.
    pub fn alternative(&self) -> usize {
        self.alternative as usize
    }

    /// Whether the pattern is a text that ends with `*`.
    pub fn is_glob(&self) -> bool {
        !self.is_value && self.kind != PatternKind::Address
    }

    /// Whether the pattern matches any value: `*`.
    pub fn is_everything(&self) -> bool {
        !self.is_value && self.prefix.bits == 0
    }

    /// Whether the pattern matches only one value or one address.
    pub fn is_one_value(&self) -> bool {
        let is_address = |network: IpNet| network.prefix_len() == network.max_prefix_len();
        self.is_value || self.as_network().is_some_and(is_address)
    }

    /// Returns the only value that the pattern matches, if addresses identify clients by these
    /// prefixes; none if it matches several.
    pub(super) fn value(&self, prefixes: ClientPrefixes) -> Option<Value<'_>> {
        let bytes = &*self.prefix.bytes;
        if self.kind != PatternKind::Address {
            return self.is_value.then_some(Value::Text(Cow::Borrowed(bytes)));
        }
        let value = network(self.as_network()?.addr(), prefixes);
        let is_one =
            matches!(value, Value::Address(_, bits) if self.prefix.bits >= 8 + usize::from(bits));
        is_one.then_some(value)
    }

    /// Whether the pattern is an address or a network of IPv4 (rather than IPv6); none if it is neither.
    pub fn is_ipv4(&self) -> Option<bool> {
        Some(self.as_network()?.addr().is_ipv4())
    }

    /// Returns the pattern as a network, if it is a network or an address.
    pub(super) fn as_network(&self) -> Option<IpNet> {
        let (family, network) = self.prefix.bytes.split_first()?;
        if self.kind != PatternKind::Address {
            return None;
        }
        let mut octets = [0; 16];
        octets[..network.len()].copy_from_slice(network);
        let address = match *family {
            V6 => IpAddr::from(octets),
            _ => IpAddr::from(*octets.first_chunk::<4>()?),
        };
        IpNet::new(address, u8::try_from(self.prefix.bits - 8).ok()?).ok()
    }

    pub(super) fn folded(&self) -> Cow<'_, [u8]> {
        if self.kind == PatternKind::Path {
            self.prefix.bytes.to_ascii_lowercase().into()
        } else {
            (&*self.prefix.bytes).into()
        }
    }
}

/// Makes a text fit for a header's value: printable ASCII of a bounded length.
fn printable(text: &str) -> Box<str> {
    let printable = text.chars().map(|char| match char {
        ' '..='~' => char,
        _ => '?',
    });
    let text: String = printable.take(SHOWN_LEN_MAX).collect();
    text.into()
}

/// Spells a credential, or the beginning of one, as credentials are compared.
fn spelled_as_compared(text: &str, is_beginning: bool) -> Option<Cow<'_, str>> {
    if is_beginning {
        return credential::beginning(text);
    }
    Some(match credential(text.as_bytes()).ok()? {
        Cow::Borrowed(_) => text.into(),
        Cow::Owned(spelled) => String::from_utf8(spelled).ok()?.into(),
    })
}

/// Turns a network of IPv4-mapped addresses into the IPv4 network that it stands for.
fn canonical(network: IpNet) -> IpNet {
    let mapped = match network {
        IpNet::V6(v6) if v6.prefix_len() >= MAPPED_BITS => v6.addr().to_ipv4_mapped(),
        _ => None,
    };
    let bits = network.prefix_len().saturating_sub(MAPPED_BITS);
    let v4 = mapped.and_then(|address| IpNet::new(address.into(), bits).ok());
    v4.unwrap_or(network)
}

/// Most characters of a pattern's item that are shown.
const SHOWN_LEN_MAX: usize = 256;

/// How many bits precede the IPv4 address in an IPv4-mapped one (RFC 4291, section 2.5.5.2).
const MAPPED_BITS: u8 = 96;
