//! Which override is a client's: the most specific of a policy's patterns that matches a request.
//!
//! For each item of a partition, a pattern has a value, a prefix (the glob `live_*`, the network `10.0.0.0/8`), or
//! nothing, which matches any value. Patterns are compared with the bytes that a partition id is made of. A value is
//! more specific than a prefix, a longer prefix than a shorter one, and any prefix than nothing; the items decide in
//! the partition's order. So patterns form a tree with a level per item: a value is one lookup in a hash table, and
//! each prefix that the request's value begins with is one step. A lookup visits no more branches than there are
//! patterns that match the items so far, and hashes each value once.

mod address;
mod key;
mod named;
mod pattern;
mod prefixes;
mod shown;
mod stored;
#[cfg(test)]
mod tests;
mod tree;
mod values;

use std::collections::{HashMap, HashSet};
use std::fmt::Display;

use ipnet::IpNet;
use smallvec::SmallVec;

use self::key::OverrideKey;
pub use self::named::{ClientValues, NamedClient};
pub use self::pattern::{BadPattern, EqualPatterns, PartPattern, Pattern};
use self::shown::ShownPattern;
pub use self::stored::StoredPart;
use self::tree::OverrideTree;
use super::redacted::Redacted;

/// The patterns of one policy's overrides, ready to be looked up.
#[derive(Clone, Default, PartialEq)]
pub struct Patterns {
    tree: OverrideTree,
    /// The tree for routes that ignore case, if some pattern of a path has upper case.
    folded: Option<OverrideTree>,
    /// How patterns are shown, by index, except those that are one client's value in every item.
    shown: HashMap<u32, ShownPattern>,
    len: usize,
    /// The network with the most bits, of each address family.
    longest_networks: [Option<IpNet>; 2],
}

impl Patterns {
    /// Builds the tree of `patterns`, each of which has as many items as the partition.
    ///
    /// # Errors
    /// If patterns match the same requests as an earlier one; all of these are returned.
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
            longest_networks: [true, false].map(|is_ipv4| {
                let networks = parts().filter_map(PartPattern::as_network);
                let of_family = networks.filter(|network| network.addr().is_ipv4() == is_ipv4);
                of_family.max_by_key(IpNet::prefix_len)
            }),
        })
    }

    /// Builds the tree of `patterns`; if several match the same requests, only the first is kept. Also returns the
    /// indices of those that are kept.
    pub fn first_of_equal(mut patterns: Vec<Pattern>) -> (Self, Vec<usize>) {
        let mut kept: Vec<usize> = (0..patterns.len()).collect();
        loop {
            let equal = match Self::new(&patterns) {
                Ok(built) => return (built, kept),
                Err(equal) => equal,
            };
            let later: HashSet<usize> = equal.iter().map(|pair| pair.second).collect();
            let stays = |index: &usize| !later.contains(index);
            let left: Vec<usize> = (0..patterns.len()).filter(stays).collect();
            kept = left.iter().map(|index| kept[*index]).collect();
            patterns = left.iter().map(|index| patterns[*index].clone()).collect();
        }
    }

    /// Returns the index of the most specific pattern that matches a client; none if no pattern does.
    pub fn find(&self, client: &NamedClient<'_>) -> Option<usize> {
        self.find_by(client, None)
    }

    /// Does what [`find`](Self::find) does, for patterns that know values only as digests under `key`.
    pub fn find_digested(&self, client: &NamedClient<'_>, key: &[u8; 32]) -> Option<usize> {
        self.find_by(client, Some(key))
    }

    fn find_by(&self, client: &NamedClient<'_>, key: Option<&[u8; 32]>) -> Option<usize> {
        let keys = client.values().iter().map(|one| OverrideKey::new(one, key));
        let tree = match &self.folded {
            Some(folded) if client.ignores_case() => folded,
            _ => &self.tree,
        };
        let leaf = tree.find(&keys.collect::<SmallVec<[_; 2]>>())?;
        Some(leaf as usize)
    }

    /// Shows the pattern at `index`, which [`find`](Self::find) has returned for this client:
    /// `live_*`, `203.0.113.9` or `live~1f2e3d4c`; or, if the items need their names,
    /// `header:x-api-key=live_*, ip=10.0.0.0/8`. The text is printable ASCII.
    pub fn shown<'r>(&'r self, index: usize, client: Redacted<'r>) -> impl Display + 'r {
        let index = u32::try_from(index).expect("a file has fewer than 2^32 patterns");
        shown::show(self.shown.get(&index), client)
    }

    /// Returns how many patterns there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the network with the most bits, of each address family. It matches no client if clients are identified
    /// by fewer bits.
    pub fn longest_networks(&self) -> impl Iterator<Item = IpNet> {
        self.longest_networks.into_iter().flatten()
    }

    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Shows only the number of patterns, because they may be clients' keys.
impl std::fmt::Debug for Patterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Patterns({})", self.len)
    }
}
