//! Warnings about quotas that can never refuse what another quota of the same list admits.
//!
//! Both are charged the same. So a quota never binds beside one that counts at least as much and admits no
//! more; and a long one never binds beside a short one that admits no more than the long limit per long window.

use crate::config::display;
use crate::limit::{Algorithm, Align, Count, OldestBucket, Quota};
use crate::snapshot::Policy;

/// Adds the warnings about a policy's own list of quotas, and those of its overrides.
pub(super) fn warn(policy: &Policy, found: &mut Vec<String>) {
    for grant in policy.grants() {
        let quotas: Vec<&Quota> = grant.quotas().iter().map(|part| &part.quota).collect();
        let never_binds = quotas.iter().find_map(|idle| {
            let mut others = quotas.iter().filter(|other| !std::ptr::eq(**other, *idle));
            others
                .find(|other| makes_idle(policy, other, idle))
                .map(|other| (idle, other))
        });
        if let Some((idle, other)) = never_binds {
            let of = if *grant == policy.grant {
                "`quota`"
            } else {
                "an override"
            };
            found.push(format!(
                "policy `{}`: in {of}, {} never refuses anything that {} admits: leave it out, or change one of them",
                policy.name,
                text(idle),
                text(other)
            ));
        }
    }
}

fn text(quota: &Quota) -> String {
    format!("`{}`", display::rate(quota))
}

/// Whether `idle` admits all that `binding` does.
fn makes_idle(policy: &Policy, binding: &Quota, idle: &Quota) -> bool {
    if let (Some(binding), Some(idle)) = (bucket(binding), bucket(idle)) {
        return binding.0 <= idle.0 && binding.1 >= idle.1;
    }
    if binding.window >= idle.window {
        return binding.limit <= idle.limit && counts_all_of(binding, idle);
    }
    // A cost that is reported later, or a refused request that counts, may exceed a quota's limit.
    if policy.reported_cost.is_some() || binding.count == Count::All {
        return false;
    }
    let stretches = match (nested(binding, idle), kept(binding), reach(idle)) {
        (true, ..) => idle.window.0 / binding.window.0,
        (false, Some(kept @ 1..), Some(reach)) => reach.div_ceil(kept),
        _ => return false,
    };
    binding.limit.saturating_mul(stretches) <= idle.limit
}

/// Returns the most units at once and the microseconds that one takes to come back, if the quota is a bucket.
fn bucket(quota: &Quota) -> Option<(u64, u64)> {
    match quota.algorithm {
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
            Some((quota.capacity(), quota.interval_us()))
        }
        _ => None,
    }
}

/// Whether `long` always counts in full everything that `short` still counts.
fn counts_all_of(long: &Quota, short: &Quota) -> bool {
    match (nested(short, long), kept(long), reach(short)) {
        (true, ..) => true,
        (false, Some(kept), Some(reach)) => kept >= reach,
        _ => false,
    }
}

/// Whether both have fixed windows, and each window of `short` lies in one of `long`.
fn nested(short: &Quota, long: &Quota) -> bool {
    let is_fixed = |quota: &Quota| {
        matches!(quota.algorithm, Algorithm::FixedWindow) && quota.align == Align::Epoch
    };
    is_fixed(short) && is_fixed(long) && long.window.0.is_multiple_of(short.window.0)
}

/// Returns for how many microseconds, at least, spent units count in full; in any stretch of that length, at most
/// the limit is admitted.
fn kept(quota: &Quota) -> Option<u64> {
    let window = quota.window.0;
    match quota.algorithm {
        Algorithm::SlidingLog
        | Algorithm::SlidingWindow {
            oldest: OldestBucket::Whole,
            ..
        } => Some(window),
        Algorithm::SlidingWindow { buckets, .. } => Some(window - window / u64::from(buckets)),
        _ => None,
    }
}

/// Returns for how many microseconds, at most, spent units count at all.
fn reach(quota: &Quota) -> Option<u64> {
    let window = quota.window.0;
    match quota.algorithm {
        Algorithm::SlidingLog
        | Algorithm::SlidingWindow {
            oldest: OldestBucket::Dropped,
            ..
        } => Some(window),
        Algorithm::SlidingWindow { buckets, .. } => Some(window + window / u64::from(buckets)),
        _ => None,
    }
}
