//! Bounds that keys of several tables have.

use std::ops::RangeInclusive;
use std::time::Duration;

/// What a timeout may be: none would be a wait without end or a failure at once, and says neither.
pub(super) const TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_hours(7 * 24);
pub(super) const UP_TO_A_DAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);
/// What a body may be limited to; 0 allows none.
pub(super) const BODY_BYTES: RangeInclusive<u64> = 0..=1 << 40;
