//! The tree of a policy's patterns, with a level per item of the partition.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::key::OverrideKey;
use super::pattern::{EqualPatterns, PartPattern, Pattern};
use super::prefixes::{Prefix, Prefixes};
use super::values::{ValuePlace, Values};

/// A tree of patterns. Branches of the last level lead to a pattern's index, the others to a node
/// of the next level.
#[derive(Clone, Default)]
pub(super) struct OverrideTree<H: BuildHasher = RandomState> {
    values: Values<H>,
    /// Prefixes by node and alternative.
    prefixes: HashMap<ValuePlace, Prefixes>,
    /// Where patterns that ask nothing of a node's item lead to, by node.
    unsaid: HashMap<u32, u32>,
}

impl<H: BuildHasher + Default> OverrideTree<H> {
    /// Builds the tree; `bytes` returns the bytes of a part that are compared. Fails with the pairs of equal patterns.
    pub(super) fn new<'p>(
        patterns: &'p [Pattern],
        bytes: impl Fn(&'p PartPattern) -> Cow<'p, [u8]>,
    ) -> Result<Self, Vec<EqualPatterns>> {
        let (mut tree, mut equal) = (Self::default(), Vec::new());
        let mut prefixes: HashMap<(u32, u32, Prefix), u32> = HashMap::new();
        let mut nodes = ROOT;
        for (index, pattern) in (0..).zip(patterns) {
            let mut node = ROOT;
            for (level, part) in pattern.iter().enumerate() {
                let is_last = level + 1 == pattern.len();
                let next = if is_last { index } else { nodes + 1 };
                let found = match part {
                    None => *tree.unsaid.entry(node).or_insert(next),
                    Some(part) => {
                        let (alternative, bytes) = (part.alternative, bytes(part).into());
                        if part.is_value {
                            tree.values.get_or_insert((node, alternative), bytes, next)
                        } else {
                            let bits = part.prefix.bits;
                            let prefix = Prefix { bytes, bits };
                            *prefixes.entry((node, alternative, prefix)).or_insert(next)
                        }
                    }
                };
                if found != next && is_last {
                    equal.push(EqualPatterns {
                        first: found as usize,
                        second: index as usize,
                    });
                }
                if found == next && !is_last {
                    nodes += 1;
                }
                node = found;
            }
        }
        let mut by_node: HashMap<ValuePlace, Vec<(Prefix, u32)>> = HashMap::new();
        for ((node, alternative, prefix), next) in prefixes {
            by_node
                .entry((node, alternative))
                .or_default()
                .push((prefix, next));
        }
        let sorted = by_node
            .into_iter()
            .map(|(at, prefixes)| (at, Prefixes::new(prefixes)));
        tree.prefixes = sorted.collect();
        tree.values.shrink_to_fit();
        if equal.is_empty() {
            Ok(tree)
        } else {
            Err(equal)
        }
    }

    /// Returns the index of the most specific pattern that matches these values, one per level.
    pub(super) fn find(&self, keys: &[OverrideKey<'_>]) -> Option<u32> {
        self.below(ROOT, keys)
    }

    fn below(&self, node: u32, keys: &[OverrideKey<'_>]) -> Option<u32> {
        let Some((key, rest)) = keys.split_first() else {
            return Some(node);
        };
        let (bytes, at) = (key.bytes(), (node, key.alternative));
        let value = key.as_value().and_then(|value| {
            let hash = || *key.hash.get_or_init(|| self.values.hash(value));
            self.values.get(at, value, hash)
        });
        let prefixes = self.prefixes.get(&at);
        let prefixes = prefixes
            .into_iter()
            .flat_map(|prefixes| prefixes.of(bytes, key.bits()));
        let unsaid = self.unsaid.get(&node).copied();
        let mut branches = value.into_iter().chain(prefixes).chain(unsaid);
        branches.find_map(|branch| self.below(branch, rest))
    }
}

impl<H: BuildHasher> PartialEq for OverrideTree<H> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
            && self.prefixes == other.prefixes
            && self.unsaid == other.unsaid
    }
}

/// The only node of the first level.
const ROOT: u32 = 0;
