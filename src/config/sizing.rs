//! How much of the memory store clients take.

use super::value::bytes_text;
use crate::limit::calendar_window::CalendarWindow;
use crate::limit::credits::Credits;
use crate::limit::fixed_window::FixedWindow;
use crate::limit::gcra::{CompactGcra, Gcra};
use crate::limit::in_flight::InFlight;
use crate::limit::penalty::Penalty;
use crate::limit::sliding_log::SlidingLog;
use crate::limit::sliding_window::SlidingWindow;
use crate::limit::{Algorithm, PartitionId, Quota};

/// Says roughly how many clients with these quotas fit into the memory store, and how many bytes each takes.
pub fn clients(quotas: &[Quota], bytes_max: u64) -> String {
    let (least, most) = quotas
        .iter()
        .map(bytes)
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let fit = |bytes: u64| rounded(bytes_max / 8 * 7 / bytes);
    let whole = bytes_text(bytes_max);
    if least == most {
        format!(
            "a client takes about {least} bytes: {} fit into {whole}",
            fit(least)
        )
    } else {
        format!(
            "a client takes about {least} to {most} bytes, depending on the units that it has spent: {} to {} fit into {whole}",
            fit(most),
            fit(least)
        )
    }
}

/// Returns how many bytes a client's state takes in the memory store, at least and at most.
fn bytes(quota: &Quota) -> (u64, u64) {
    match quota.algorithm {
        Algorithm::FixedWindow => (entry::<FixedWindow>(), entry::<FixedWindow>()),
        Algorithm::Calendar(_) => (entry::<CalendarWindow>(), entry::<CalendarWindow>()),
        Algorithm::Credits { .. } => (entry::<Credits>(), entry::<Credits>()),
        Algorithm::InFlight => (entry::<InFlight>(), entry::<InFlight>()),
        Algorithm::Penalty { .. } => (0, entry::<Penalty>()),
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } if quota.can_come_back => {
            (entry::<Gcra>(), entry::<Gcra>())
        }
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
            (entry::<CompactGcra>(), entry::<CompactGcra>())
        }
        Algorithm::SlidingWindow { buckets, .. } => {
            let least = entry::<SlidingWindow>();
            let in_use = (u64::from(buckets) + 1).min(quota.limit);
            let heap = if in_use > 2 {
                in_use.next_power_of_two() * 8
            } else {
                0
            };
            (least, least + heap)
        }
        Algorithm::SlidingLog => {
            let least = entry::<SlidingLog>();
            (
                least,
                least + (quota.limit - 1).saturating_mul(LOGGED_BYTES_MAX),
            )
        }
    }
}

/// Returns how many bytes an entry of a table takes: the partition's id, the state and a control byte, in a table that
/// is five eighths full on average.
const fn entry<S>() -> u64 {
    (size_of::<PartitionId>() + size_of::<S>() + 1) as u64 * 8 / 5
}

/// Rounds down to two significant digits.
fn rounded(number: u64) -> u64 {
    let digits = number.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(1));
    number / unit * unit
}

/// Most bytes that a log takes per unit, measured: entries have 16, lists double, and aged entries go in bulk.
const LOGGED_BYTES_MAX: u64 = 42;
