//! Renders checks as the scripts take them.

use crate::clock::{Micros, Timestamp};
use crate::limit::calendar::Windows;
use crate::limit::sliding_window::BUCKETS_MAX;
use crate::limit::{Algorithm, Align, Count, OldestBucket, Quota};
use crate::store::holder::GatewayId;

/// Appends one enforced check as `lua/prelude.lua` describes it. Its room is how much may be used already
/// for `asked` to fit.
pub(super) fn put_check(
    argument: &mut Vec<u8>,
    quota: &Quota,
    phase: Micros,
    (cost, asked): (u64, u64),
) {
    let counts_all = quota.count == Count::All;
    let room = signed(quota.limit) - signed(asked);
    let (algorithm, cost, room, x, y) = match quota.algorithm {
        Algorithm::FixedWindow => {
            let algorithm = if quota.align == Align::First { 8 } else { 1 };
            (algorithm, cost, room, quota.window.0, phase.0)
        }
        // `put_calendars` fills in where the windows are.
        Algorithm::Calendar(_) => (7, cost, room, 0, 0),
        Algorithm::SlidingWindow {
            buckets: quota_buckets,
            oldest,
        } => {
            let buckets = u64::from(quota_buckets);
            let (first, bits) = if is_long(quota_buckets) {
                (9, 9)
            } else {
                (2, 7)
            };
            let algorithm = first
                + match oldest {
                    OldestBucket::Weighted => 0,
                    OldestBucket::Whole => 1,
                    OldestBucket::Dropped => 2,
                };
            let width_us = quota.window.0 / buckets;
            (algorithm, cost, room, width_us, buckets | phase.0 << bits)
        }
        Algorithm::SlidingLog => (5, cost, room, quota.window.0, quota.limit),
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
            let interval_us = quota.interval_us();
            let burst_us = quota.burst_us();
            let taken_us = cost.saturating_mul(interval_us);
            let room_us = signed(burst_us) - signed(asked.saturating_mul(interval_us));
            (6, taken_us, room_us, burst_us, 0)
        }
        Algorithm::Credits { initial } => (12, cost, signed(asked), initial, 0),
        // `put_gateway` fills in where the gateway is, and the sequence number.
        Algorithm::InFlight => (14, cost, room, 0, 0),
        Algorithm::Penalty { length, growth } => (13, cost, 0, length.0, growth.into()),
    };
    argument.extend([algorithm, if counts_all { COUNTS_ALL } else { 0 }]);
    put_number(argument, cost);
    argument.extend(room.to_be_bytes());
    put_number(argument, x);
    put_number(argument, y);
}

/// Appends, after all checks, each calendar's windows around the server's time, and writes into its check where they
/// are. The first check begins at byte `first`.
pub(super) fn put_calendars<'q>(
    argument: &mut Vec<u8>,
    first: usize,
    quotas: impl Iterator<Item = &'q Quota>,
    now: &impl Fn() -> Timestamp,
) {
    for (index, quota) in quotas.enumerate() {
        let Algorithm::Calendar(calendar) = quota.algorithm else {
            continue;
        };
        let x_at = first + index * CHECK_BYTES + CHECK_X;
        let place = argument.len() as u64 + 1;
        argument[x_at..x_at + 7].copy_from_slice(&place.to_be_bytes()[1..]);
        let Windows {
            previous,
            current,
            next,
        } = calendar.windows(now());
        for edge in [previous.start, current.start, next.start, next.end] {
            put_number(argument, edge.0);
        }
        for number in [previous.number, current.number, next.number] {
            argument.extend(number.to_be_bytes());
        }
    }
}

/// Appends, after all checks, a gateway and the units in flight that it asks for, which are 0 if it announces. Writes
/// where these are, and the sequence number, into the check, which begins at byte `at`.
pub(super) fn put_gateway(
    argument: &mut Vec<u8>,
    at: usize,
    gateway: GatewayId,
    units: u64,
    sequence: u64,
) {
    let place = argument.len() as u64 + 1;
    for (offset, number) in [(CHECK_X, place), (CHECK_Y, sequence.min(NUMBER_MAX))] {
        argument[at + offset..at + offset + 7].copy_from_slice(&number.to_be_bytes()[1..]);
    }
    put_number(argument, gateway.number());
    put_number(argument, units);
}

/// Returns a number as a signed one; [`NUMBER_MAX`] if it is larger.
fn signed(number: u64) -> i64 {
    number.min(NUMBER_MAX).cast_signed()
}

/// Appends a number in seven bytes; [`NUMBER_MAX`] if it is larger.
pub(super) fn put_number(argument: &mut Vec<u8>, number: u64) {
    argument.extend_from_slice(&number.min(NUMBER_MAX).to_be_bytes()[1..]);
}

/// Says whether the number of buckets needs nine bits instead of seven below the phase. Both share a double, which
/// holds 53 bits, and a phase may be a year in microseconds; with this many buckets, it is shorter, as each bucket is.
pub(super) fn is_long(buckets: u32) -> bool {
    buckets >= 128
}

const _: () = assert!(BUCKETS_MAX < 1 << 9);

/// The flag of a check that counts refused requests too.
const COUNTS_ALL: u8 = 8;
/// Length of one check, in bytes.
pub(super) const CHECK_BYTES: usize = 31;
/// Offset of x in a check, in bytes.
const CHECK_X: usize = 17;
/// Offset of y in a check, in bytes.
const CHECK_Y: usize = 24;
/// The largest number that is sent: a double holds all integers up to it. Any larger one means the same.
const NUMBER_MAX: u64 = 1 << 53;
