//! Bounds that keys of several tables share.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Allowed timeouts. 0 is not one, because it could mean either to wait without end or to fail at once.
pub(super) const TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_hours(7 * 24);
pub(super) const UP_TO_A_DAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);
/// Allowed limits of a body's size, in bytes; 0 allows no body.
pub(super) const BODY_BYTES: RangeInclusive<u64> = 0..=1 << 40;
