//! A partition id: a keyed 128-bit digest that identifies whose quota it is.
//!
//! Names, lengths and values of the parts go into the digest, so no two partitions have the same input.
//! Raw client keys are never stored, and a long or hostile value costs no more than a copy and its hashing.

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Names a partition: the first 16 bytes of a keyed BLAKE3 digest.
///
/// It is two words, because a `u128` would align everything that contains it, such as a table's entries,
/// to 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartitionId([u64; 2]);

/// Collects a partition's parts for a [`PartitionId`]: they are only a few bytes, and digesting them at
/// once is less work than digesting one after another.
///
/// The key is drawn per process for the memory store, so nobody can choose values whose partition ids
/// fall into one shard or collide.
pub struct PartitionHasher {
    key: [u8; 32],
    parts: SmallVec<[u8; 128]>,
}

impl PartitionHasher {
    /// Starts a partition id under `key`.
    pub fn new(key: &[u8; 32]) -> Self {
        Self {
            key: *key,
            parts: SmallVec::new(),
        }
    }

    /// Adds a named part; names and lengths are part of the digest.
    pub fn part(&mut self, name: &str, value: &[u8]) {
        // Both lengths come first and are short, so that most partitions fit one block of the digest.
        let lengths = [name.as_bytes(), value].map(|bytes| {
            let length = u32::try_from(bytes.len()).expect("no part of a request has 4 GiB");
            length.to_le_bytes()
        });
        self.parts.extend_from_slice(lengths.as_flattened());
        self.parts.extend_from_slice(name.as_bytes());
        self.parts.extend_from_slice(value);
    }

    /// Returns the partition id of all parts added.
    pub fn finish(&self) -> PartitionId {
        let digest = blake3::keyed_hash(&self.key, &self.parts);
        let mut first = [0; 16];
        first.copy_from_slice(&digest.as_bytes()[..16]);
        PartitionId::new(u128::from_le_bytes(first))
    }
}

impl PartitionId {
    /// Makes a partition id of these bits.
    #[expect(clippy::cast_possible_truncation, reason = "each half is meant")]
    pub const fn new(bits: u128) -> Self {
        Self([bits as u64, (bits >> 64) as u64])
    }

    /// Returns its bits.
    pub fn bits(self) -> u128 {
        u128::from(self.high()) << 64 | u128::from(self.low())
    }

    /// Returns the upper half of its bits.
    pub fn high(self) -> u64 {
        self.0[1]
    }

    /// Returns the lower half of its bits.
    pub fn low(self) -> u64 {
        self.0[0]
    }
}

impl fmt::Debug for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionId({:032x})", self.bits())
    }
}
