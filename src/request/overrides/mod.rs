//! Which override is a client's: the most specific of a policy's patterns that matches a request.
//!
//! A pattern says of each item of a partition a value, a prefix (the glob `live_*`, the network
//! `10.0.0.0/8`), or nothing, which matches whatever is there. Patterns are compared by what a
//! partition id is made of. A value is more specific than a prefix, a longer prefix more than a
//! shorter one, and one more than nothing; the items decide in the partition's order. So patterns
//! are a tree with a level per item: a value is one lookup in a hash table, and each prefix that
//! the request's value begins with is one step. A lookup visits no more branches than there are
//! patterns that match the items so far, and hashes each value once.

mod prefixes;
mod shown;
#[cfg(test)]
mod tests;
mod tree;
mod values;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::net::IpAddr;

use http::header::AUTHORIZATION;
use ipnet::{IpNet, Ipv6Net};
use smallvec::SmallVec;

use self::prefixes::Prefix;
use self::shown::ShownPattern;
use self::tree::OverrideTree;
use super::credential::{self, credential};
use super::partition::{Facts, Part, Partition, Value, first_present};
use super::{canonical_host, path};

/// The patterns of one policy's overrides, ready to be looked up.
#[derive(Clone, Default, PartialEq)]
pub struct Patterns {
    tree: OverrideTree,
    /// The same for routes that ignore case, if some pattern of a path has upper case.
    folded: Option<OverrideTree>,
    /// How those are shown that are not one client's value in each item.
    shown: HashMap<u32, ShownPattern>,
    len: usize,
    longest_ipv6: Option<Ipv6Net>,
}

/// What an override says of each item of a partition; none: whatever is there.
pub type Pattern = Vec<Option<PartPattern>>;

/// What an override says of one item of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartPattern {
    /// Which of the item's alternatives it is about.
    alternative: u32,
    prefix: Prefix,
    is_value: bool,
    kind: PatternKind,
    /// How it is shown; none: as any client's value.
    shown: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternKind {
    Text,
    /// A path, which some routes compare without case.
    Path,
    Address,
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPattern {
    /// It is empty, and a request's value never is.
    Empty,
    /// A `*` stands before its end.
    StarInside,
    /// No request has such a host.
    Host,
    /// No request has such a credential.
    Credential,
}

/// Two patterns that match the same requests, as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualPatterns {
    /// The one that comes first.
    pub first: usize,
    /// The one that repeats it.
    pub second: usize,
}

impl PartPattern {
    /// Makes a pattern of a network; a whole address is a value.
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

    /// Makes a pattern of a text for `part`: a value, or a glob.
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
            // As tools print digests, too: in capitals, with colons.
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
            shown: glob.map(|_| shown::printable(text)),
        })
    }

    /// Says which of its item's alternatives it is about.
    #[must_use]
    pub fn of_alternative(self, alternative: usize) -> Self {
        let alternative = u32::try_from(alternative).expect("a file has fewer than 2^32 parts");
        Self {
            alternative,
            ..self
        }
    }

    /// Lets it be shown as it is written: it names no client.
    #[must_use]
    pub fn in_clear(mut self, text: &str) -> Self {
        self.shown.get_or_insert_with(|| shown::printable(text));
        self
    }

    /// Whether it matches whatever is there: `*`.
    pub fn is_everything(&self) -> bool {
        !self.is_value && self.prefix.bits == 0
    }

    fn ipv6(&self) -> Option<Ipv6Net> {
        let (family, network) = self.prefix.bytes.split_first()?;
        if self.kind != PatternKind::Address || *family != V6 {
            return None;
        }
        let mut octets = [0; 16];
        octets[..network.len()].copy_from_slice(network);
        Ipv6Net::new(octets.into(), u8::try_from(self.prefix.bits - 8).ok()?).ok()
    }

    fn folded(&self) -> Cow<'_, [u8]> {
        if self.kind == PatternKind::Path {
            self.prefix.bytes.to_ascii_lowercase().into()
        } else {
            (&*self.prefix.bytes).into()
        }
    }
}

impl Patterns {
    /// Builds the tree of `patterns`, each of which has as many items as the partition.
    ///
    /// # Errors
    /// Those that match the same requests as an earlier one.
    pub fn new(patterns: &[Pattern]) -> Result<Self, Vec<EqualPatterns>> {
        let parts = || patterns.iter().flatten().flatten();
        let needs_folding = parts().any(|part| *part.folded() != *part.prefix.bytes);
        let tree = OverrideTree::new(patterns, |part| (&*part.prefix.bytes).into())?;
        let folded = needs_folding
            .then(|| OverrideTree::new(patterns, PartPattern::folded))
            .transpose()?;
        let shown = (0..).zip(patterns);
        let shown = shown.filter_map(|(index, pattern)| Some((index, shown::of(pattern)?)));
        Ok(Self {
            tree,
            folded,
            shown: shown.collect(),
            len: patterns.len(),
            longest_ipv6: parts()
                .filter_map(PartPattern::ipv6)
                .max_by_key(Ipv6Net::prefix_len),
        })
    }

    /// Returns the index of the most specific pattern that matches, none if the request lacks an
    /// item of `partition` or no pattern matches.
    pub fn find(&self, partition: &Partition, facts: &Facts<'_>) -> Option<usize> {
        let mut keys: SmallVec<[OverrideKey<'_>; 2]> = SmallVec::new();
        for choice in &partition.0 {
            let (part, value) = first_present(choice, facts)?;
            let (alternative, _) = (0..)
                .zip(&choice.0)
                .find(|(_, one)| std::ptr::eq(*one, part))?;
            keys.push(OverrideKey::new(alternative, value));
        }
        let tree = match &self.folded {
            Some(folded) if facts.router.ignores_case(facts.found) => folded,
            _ => &self.tree,
        };
        tree.find(&keys).map(|leaf| leaf as usize)
    }

    /// Returns how many patterns there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the IPv6 network with the most bits. It matches nobody where fewer bits make a client.
    pub fn longest_ipv6(&self) -> Option<Ipv6Net> {
        self.longest_ipv6
    }

    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Patterns may be clients' keys.
impl std::fmt::Debug for Patterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Patterns({})", self.len)
    }
}

/// The value of a request for one item of a partition.
struct OverrideKey<'r> {
    alternative: u32,
    value: Value<'r>,
    /// The bytes of an address: its family, and its octets.
    address: [u8; ADDRESS_LEN_MAX],
    /// The hash of the bytes in the tree of this lookup, once a node needs it.
    hash: OnceCell<u64>,
}

impl<'r> OverrideKey<'r> {
    fn new(alternative: u32, value: Value<'r>) -> Self {
        let address = match value {
            Value::Address(address, _) => address_bytes(address).0,
            Value::Text(_) => [0; ADDRESS_LEN_MAX],
        };
        Self {
            alternative,
            value,
            address,
            hash: OnceCell::new(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.value {
            Value::Text(text) => text,
            Value::Address(address, _) => &self.address[..address_len(*address)],
        }
    }

    /// Returns how many bits count: of an address, those of the client's network.
    fn bits(&self) -> usize {
        match &self.value {
            Value::Text(text) => 8 * text.len(),
            Value::Address(_, prefix) => 8 + usize::from(*prefix),
        }
    }

    /// Whether all of its bits count.
    fn is_whole(&self) -> bool {
        self.bits() == 8 * self.bytes().len()
    }
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

/// Returns an address as patterns have it, the family before the octets, and how long that is.
fn address_bytes(address: IpAddr) -> ([u8; ADDRESS_LEN_MAX], usize) {
    let mut bytes = [0; ADDRESS_LEN_MAX];
    match address {
        IpAddr::V4(address) => {
            bytes[0] = V4;
            bytes[1..5].copy_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes[0] = V6;
            bytes[1..].copy_from_slice(&address.octets());
        }
    }
    (bytes, address_len(address))
}

fn address_len(address: IpAddr) -> usize {
    if address.is_ipv4() {
        5
    } else {
        ADDRESS_LEN_MAX
    }
}

/// Spells a network of IPv4-mapped addresses as the one of IPv4 that it is.
fn canonical(network: IpNet) -> IpNet {
    let mapped = match network {
        IpNet::V6(v6) if v6.prefix_len() >= MAPPED_BITS => v6.addr().to_ipv4_mapped(),
        _ => None,
    };
    let bits = network.prefix_len().saturating_sub(MAPPED_BITS);
    let v4 = mapped.and_then(|address| IpNet::new(address.into(), bits).ok());
    v4.unwrap_or(network)
}

/// What stands before the octets of an address.
const V4: u8 = 4;
const V6: u8 = 6;
const ADDRESS_LEN_MAX: usize = 17;
/// What IPv4-mapped addresses begin with (RFC 4291, section 2.5.5.2), in bits.
const MAPPED_BITS: u8 = 96;
