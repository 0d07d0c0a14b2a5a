//! A hash table that grows in small steps: it is divided into segments, of which one is split at a time
//! (linear hashing, Litwin 1980).
//!
//! A hash table that doubles moves all its entries at once, and requests wait for it. Here each segment is a table that
//! doubles, and one more is added whenever there are [`SEGMENT_LEN`] entries per segment. The new one takes half the
//! entries of an earlier one, the next in turn, so no step moves more than about two segments' entries.
//!
//! A partition id is a digest under a key that nobody outside knows, so its bits are as good as any
//! hash's and nobody can choose them. It is not hashed again: its low half picks the bucket, the lowest
//! bits of its high half the segment, and its highest bits the shard ([`super::placement::shard_of`]).

use std::collections::VecDeque;

use hashbrown::HashTable;
use smallvec::{SmallVec, smallvec};

use crate::limit::PartitionId;

/// A hash table from partition id to state.
#[derive(Debug)]
pub(super) struct Segments<S> {
    /// The segments, at least one. A small table has only one, which is kept in place and needs no further look-up.
    all: SmallVec<[Segment<S>; 1]>,
    len: usize,
    /// Bytes of all segments' tables.
    tables_bytes: usize,
}

/// Where an entry is, until a segment grows, shrinks or is split.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashBucket {
    segment: usize,
    bucket: usize,
}

type Segment<S> = HashTable<(PartitionId, S)>;

impl<S> Segments<S> {
    pub(super) fn new() -> Self {
        Self {
            all: smallvec![HashTable::new()],
            len: 0,
            tables_bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes that the table holds outside of this struct.
    pub(super) fn allocated_bytes(&self) -> usize {
        let list_bytes = if self.all.spilled() {
            self.all.capacity() * size_of::<Segment<S>>()
        } else {
            0
        };
        self.tables_bytes + list_bytes
    }

    /// Finds the bucket of a partition.
    pub(super) fn find(&self, partition_id: PartitionId) -> Option<HashBucket> {
        let index = self.index_of(partition_id);
        let segment = &self.all[index];
        let bucket = |bucket| HashBucket {
            segment: index,
            bucket,
        };
        // Most entries are in the bucket that they would have in an empty table. Reading it at once, and
        // not only after its control byte, costs one wait for memory instead of two.
        let first = bits(partition_id.low()) & (segment.num_buckets() - 1);
        if segment
            .get_bucket(first)
            .is_some_and(|(other, _)| *other == partition_id)
        {
            return Some(bucket(first));
        }
        let found =
            segment.find_bucket_index(partition_id.low(), |(other, _)| *other == partition_id);
        found.map(bucket)
    }

    /// Returns what is in a bucket.
    pub(super) fn get(&self, bucket: HashBucket) -> Option<&(PartitionId, S)> {
        self.all.get(bucket.segment)?.get_bucket(bucket.bucket)
    }

    /// Returns what is in a bucket.
    pub(super) fn get_mut(&mut self, bucket: HashBucket) -> Option<&mut (PartitionId, S)> {
        (self.all.get_mut(bucket.segment)?).get_bucket_mut(bucket.bucket)
    }

    /// Returns the bytes that must be allocated for one more partition; none if there is room for it already.
    pub(super) fn growth_bytes(&self, partition_id: PartitionId) -> Option<usize> {
        let segment = &self.all[self.index_of(partition_id)];
        let is_full = segment.len() == segment.capacity();
        // While the segment grows, both the old and the new table exist.
        is_full.then(|| table_bytes::<S>(2 * segment.num_buckets()))
    }

    /// Makes room for one more partition.
    pub(super) fn grow(&mut self, partition_id: PartitionId) {
        self.change(partition_id, |segment| segment.reserve(1, hash_of));
    }

    /// Returns the bytes that a split needs while both halves exist beside the old table; none if no
    /// split is due.
    pub(super) fn split_bytes(&self) -> Option<usize> {
        let is_due = self.len >= self.all.len() * SEGMENT_LEN;
        is_due.then(|| {
            let segment = &self.all[parent_of(self.all.len())];
            table_bytes::<S>(segment.num_buckets())
        })
    }

    /// Adds a segment, which takes half the entries of another.
    pub(super) fn split(&mut self) {
        let added = self.all.len();
        let halves = [parent_of(added), added];
        let parent = std::mem::take(&mut self.all[halves[0]]);
        self.all.push(HashTable::new());
        for index in halves {
            self.all[index].reserve(parent.len() / 2, hash_of);
        }
        self.tables_bytes -= parent.allocation_size();
        for entry in parent {
            let index = self.index_of(entry.0);
            self.all[index].insert_unique(hash_of(&entry), entry, hash_of);
        }
        let added_bytes = halves.map(|index| self.all[index].allocation_size());
        self.tables_bytes += added_bytes.iter().sum::<usize>();
    }

    /// Inserts a partition that is not there.
    pub(super) fn insert(&mut self, partition_id: PartitionId, state: S) {
        self.change(partition_id, |segment| {
            segment.insert_unique(partition_id.low(), (partition_id, state), hash_of);
        });
        self.len += 1;
    }

    /// Takes a partition out.
    pub(super) fn remove(&mut self, partition_id: PartitionId) -> Option<S> {
        let index = self.index_of(partition_id);
        let segment = &mut self.all[index];
        let entry = segment.find_entry(partition_id.low(), |(other, _)| *other == partition_id);
        let ((_, state), _) = entry.ok()?.remove();
        self.len -= 1;
        Some(state)
    }

    /// Yields all entries, in an order in which another table can insert them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(PartitionId, S)> {
        in_turns(self.all.iter().map(HashTable::iter))
    }

    /// Like [`iter`](Self::iter), but consumes the table and yields the entries by value.
    pub(super) fn into_entries(self) -> impl Iterator<Item = (PartitionId, S)> {
        in_turns(self.all.into_iter().map(HashTable::into_iter))
    }

    /// Keeps the partitions for which `stays` returns true, and shrinks segments that are mostly empty.
    ///
    /// A segment shrinks when it is less than a quarter full, and then is about half full, so that one
    /// whose size hovers is not rebuilt again and again.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(PartitionId, &S) -> bool) {
        self.len = 0;
        for segment in &mut self.all {
            segment.retain(|(partition_id, state)| stays(*partition_id, state));
            let (len, full) = (segment.len(), segment.num_buckets() / 8 * 7);
            if len == 0 {
                *segment = HashTable::new();
            } else if len < full / 4 {
                segment.shrink_to(len * 7 / 4, hash_of);
            }
            self.len += len;
        }
        if self.len == 0 {
            *self = Self::new();
        }
        let tables = self.all.iter().map(HashTable::allocation_size);
        self.tables_bytes = tables.sum();
    }

    /// Changes a partition's segment, and notes how many bytes it takes afterwards.
    fn change(&mut self, partition_id: PartitionId, change: impl FnOnce(&mut Segment<S>)) {
        let index = self.index_of(partition_id);
        let segment = &mut self.all[index];
        let before = segment.allocation_size();
        change(segment);
        self.tables_bytes = self.tables_bytes + segment.allocation_size() - before;
    }

    /// Returns the index of the segment that has a partition: the lowest bits of its high half, or one
    /// bit fewer if the segment that they name has not been split off yet.
    #[inline]
    fn index_of(&self, partition_id: PartitionId) -> usize {
        let count = self.all.len();
        let mask = count.next_power_of_two() - 1;
        let index = bits(partition_id.high()) & mask;
        if index < count {
            index
        } else {
            index & (mask >> 1)
        }
    }
}

/// Yields one entry of each segment in turn.
///
/// A table that the entries are inserted into has fewer segments at first, and splits them one after the other. If all
/// entries of one segment came at once, one of its segments would become far larger than the others.
fn in_turns<I: Iterator>(segments: impl Iterator<Item = I>) -> impl Iterator<Item = I::Item> {
    let mut segments: VecDeque<I> = segments.collect();
    std::iter::from_fn(move || {
        loop {
            let mut segment = segments.pop_front()?;
            if let Some(entry) = segment.next() {
                segments.push_back(segment);
                return Some(entry);
            }
        }
    })
}

/// Returns which segment is split to make the one with this index: the one whose index lacks its highest
/// bit.
fn parent_of(index: usize) -> usize {
    index ^ (1 << index.ilog2())
}

/// Returns the hash of an entry: half of the partition id, which is a digest already.
fn hash_of<S>((partition_id, _): &(PartitionId, S)) -> u64 {
    partition_id.low()
}

#[expect(clippy::cast_possible_truncation, reason = "the lowest bits are meant")]
fn bits(half: u64) -> usize {
    half as usize
}

/// Returns the bytes of a table: buckets, and a control byte for each, of which one group is repeated at
/// the end.
fn table_bytes<S>(buckets: usize) -> usize {
    const GROUP_BYTES: usize = 16;
    let buckets = buckets.max(4);
    let entries_bytes = buckets * size_of::<(PartitionId, S)>();
    entries_bytes.next_multiple_of(GROUP_BYTES) + buckets + GROUP_BYTES
}

/// Entries per segment at which one more segment is added. Between two splits a segment has one to two
/// times this many: the halves of two times this many fit a table of 2048 buckets, which has room for
/// 1792, however the bits fall.
const SEGMENT_LEN: usize = 1_700;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::partition_id::PartitionHasher;

    /// Enough for some tens of segments.
    const KEYS: u64 = 100_000;

    fn partition_id(key: u64) -> PartitionId {
        let mut hasher = PartitionHasher::new(&[7; 32]);
        hasher.part("key", &key.to_le_bytes());
        hasher.finish()
    }

    /// Grows as the memory store does.
    fn grown() -> Segments<u64> {
        let mut segments = Segments::new();
        for key in 0..KEYS {
            if segments.split_bytes().is_some() {
                segments.split();
            }
            segments.insert(partition_id(key), key);
        }
        segments
    }

    fn found(segments: &Segments<u64>, key: u64) -> Option<u64> {
        let bucket = segments.find(partition_id(key))?;
        segments.get(bucket).map(|(_, state)| *state)
    }

    fn bytes_of_tables(segments: &Segments<u64>) -> usize {
        let tables = segments.all.iter().map(HashTable::allocation_size);
        tables.sum()
    }

    #[test]
    fn what_was_inserted_is_found_however_often_the_table_was_split() {
        let segments = grown();
        assert_eq!(segments.len(), usize::try_from(KEYS).expect("it is small"));
        for key in 0..KEYS {
            assert_eq!(found(&segments, key), Some(key));
        }
        assert_eq!(found(&segments, KEYS), None);
    }

    #[test]
    fn no_step_of_growth_moves_more_than_the_entries_of_two_segments() {
        let mut segments = Segments::new();
        for key in 0..KEYS {
            let before = segments.len();
            if segments.split_bytes().is_some() {
                let parent = &segments.all[parent_of(segments.all.len())];
                assert!(
                    parent.len() <= SEGMENT_LEN * 9 / 4,
                    "{} at {before}",
                    parent.len()
                );
                segments.split();
            }
            if segments.growth_bytes(partition_id(key)).is_some() {
                let segment = &segments.all[segments.index_of(partition_id(key))];
                assert!(
                    segment.len() <= SEGMENT_LEN * 9 / 4,
                    "{} at {before}",
                    segment.len()
                );
            }
            segments.insert(partition_id(key), key);
        }
    }

    #[test]
    fn bytes_are_those_of_the_tables_after_growth_removal_and_sweeps() {
        let mut segments = grown();
        assert_eq!(segments.tables_bytes, bytes_of_tables(&segments));
        let grown_bytes = segments.allocated_bytes();
        assert_eq!(segments.remove(partition_id(5)), Some(5));
        assert_eq!(segments.remove(partition_id(5)), None);
        segments.retain(|_, key| *key < 10);
        assert_eq!((segments.len(), found(&segments, 9)), (9, Some(9)));
        assert_eq!(segments.tables_bytes, bytes_of_tables(&segments));
        assert!(segments.allocated_bytes() < grown_bytes / 20);
        segments.retain(|_, _| false);
        assert_eq!((segments.len(), segments.allocated_bytes()), (0, 0));
    }
}
