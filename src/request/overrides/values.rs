//! The values for which the nodes of a tree have branches.
//!
//! The bytes of a value are hashed once per lookup, however many nodes are asked for it, so a
//! branch's hash combines its node with the hash of its value. Comparisons are bounded by the
//! patterns: a lookup compares each branch at most once, with a value of the same length.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// The branches of all nodes.
#[derive(Clone, Default)]
pub(super) struct Values<H = RandomState> {
    branches: HashTable<Branch>,
    hasher: H,
}

#[derive(Clone)]
struct Branch {
    at: ValuePlace,
    bytes: Box<[u8]>,
    leads_to: u32,
}

/// A node, and an alternative of its item.
pub(super) type ValuePlace = (u32, u32);

impl<H: BuildHasher> Values<H> {
    /// Returns the hash of a value, for [`Values::get`].
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        self.hasher.hash_one(bytes)
    }

    /// Returns what a value leads to, if it has a branch; `hash` returns its [`Values::hash`].
    pub(super) fn get(
        &self,
        at: ValuePlace,
        bytes: &[u8],
        hash: impl FnOnce() -> u64,
    ) -> Option<u32> {
        if self.branches.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one((at, hash()));
        let branch = self.branches.find(hash, |branch| branch.is(at, bytes))?;
        Some(branch.leads_to)
    }

    /// Makes a value lead to `next` unless it leads somewhere already; returns where it leads.
    pub(super) fn get_or_insert(&mut self, at: ValuePlace, bytes: Box<[u8]>, next: u32) -> u32 {
        let Self { branches, hasher } = self;
        let of_branch =
            |at: ValuePlace, bytes: &[u8]| hasher.hash_one((at, hasher.hash_one(bytes)));
        let entry = branches.entry(
            of_branch(at, &bytes),
            |branch| branch.is(at, &bytes),
            |branch| of_branch(branch.at, &branch.bytes),
        );
        match entry {
            Entry::Occupied(found) => found.get().leads_to,
            Entry::Vacant(vacant) => {
                vacant.insert(Branch {
                    at,
                    bytes,
                    leads_to: next,
                });
                next
            }
        }
    }

    /// Frees the memory that was reserved for further branches.
    pub(super) fn shrink_to_fit(&mut self) {
        let Self { branches, hasher } = self;
        branches
            .shrink_to_fit(|branch| hasher.hash_one((branch.at, hasher.hash_one(&*branch.bytes))));
    }
}

impl Branch {
    fn is(&self, at: ValuePlace, bytes: &[u8]) -> bool {
        self.at == at && *self.bytes == *bytes
    }
}

/// Compares by look-ups, because each instance has its own hasher.
impl<H: BuildHasher> PartialEq for Values<H> {
    fn eq(&self, other: &Self) -> bool {
        let is_there = |branch: &Branch| {
            let hash = || other.hash(&branch.bytes);
            other.get(branch.at, &branch.bytes, hash) == Some(branch.leads_to)
        };
        self.branches.len() == other.branches.len() && self.branches.iter().all(is_there)
    }
}
