//! Which shard keeps which partition.

use crate::limit::PartitionId;

/// Returns the index of the shard that keeps a partition. It uses the highest bits of the partition id,
/// because tables use the lowest.
///
/// Shards have unequal shares, from three quarters of the mean to three halves, evenly graded. Tables
/// double: with equal shares all would double at the same number of keys, and bytes per key would vary
/// by a factor of two. With unequal ones a few double at any time.
///
/// With `u` in [0, 1) the index is `SHARDS * u * (4 - u) / 3`, whose slope falls from 4/3 to 2/3.
#[expect(clippy::cast_possible_truncation, reason = "sixteen bits fit")]
pub(super) fn shard_of(partition_id: PartitionId) -> usize {
    const ONE: usize = 1 << 16;
    if partition_id == OVERFLOW {
        return OVERFLOW_SHARD;
    }
    let u = (partition_id.high() >> (u64::BITS - ONE.ilog2())) as usize;
    u * (4 * ONE - u) / (3 * ONE * ONE / SHARDS)
}

/// Number of shards: enough that workers rarely meet and that a table grows within microseconds, and
/// few enough that a series' small tables cost little.
pub(super) const SHARDS: usize = 256;
/// The shard of overflow partitions: the last, so that it may be locked while others are.
pub(super) const OVERFLOW_SHARD: usize = SHARDS;
/// The partition id of each series' overflow partition. A client's partition is as unlikely to have the
/// same id as two clients' partitions are.
pub(super) const OVERFLOW: PartitionId = PartitionId::new(u128::MAX);
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_shards_grade_from_three_quarters_of_the_mean_to_three_halves() {
        const MEAN: u128 = 256;
        const STEPS: u128 = SHARDS as u128 * MEAN;
        let mut shares = [0; SHARDS];
        for step in 0..STEPS {
            shares[shard_of(PartitionId::new(step << (u128::BITS - STEPS.ilog2())))] += 1;
        }
        let quarters = shares
            .chunks(SHARDS / 4)
            .map(|quarter| quarter.iter().sum());
        let quarters: Vec<u128> = quarters.collect();
        assert_eq!(
            (shares.iter().min(), shares.iter().max()),
            (Some(&192), Some(&382))
        );
        assert!(quarters.is_sorted(), "{quarters:?}");
    }

    #[test]
    fn overflow_tag_has_the_shard_that_is_locked_last() {
        assert_eq!(shard_of(OVERFLOW), SHARDS);
        assert_eq!(shard_of(PartitionId::new(u128::MAX - 1)), SHARDS - 1);
    }
}
