//! Quotas of a list that can never refuse what another one of the list admits.
//!
//! Both are charged the same. So a quota never binds beside one that counts at least as much and admits no
//! more; and a long one never binds beside a short one that keeps every stretch of it below its limit.

use crate::config::display;
use crate::limit::{Algorithm, Align, Count, OldestBucket, Quota};
use crate::snapshot::Policy;

/// Adds the warnings about a policy's own list, and those of its overrides.
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
    // A cost that is told later, or a request that counts though it was refused, may pass a quota's limit.
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

/// Most units at once, and the microseconds that each takes to come back, of a quota that is a bucket.
fn bucket(quota: &Quota) -> Option<(u64, u64)> {
    match quota.algorithm {
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
            Some((quota.capacity(), quota.interval_us()))
        }
        _ => None,
    }
}

/// Whether whatever `short` counts at a time, `long` counts in full.
fn counts_all_of(long: &Quota, short: &Quota) -> bool {
    match (nested(short, long), kept(long), reach(short)) {
        (true, ..) => true,
        (false, Some(kept), Some(reach)) => kept >= reach,
        _ => false,
    }
}

/// Whether both are windows of which each short one lies in one of the long ones.
fn nested(short: &Quota, long: &Quota) -> bool {
    let is_fixed = |quota: &Quota| {
        matches!(quota.algorithm, Algorithm::FixedWindow) && quota.align == Align::Epoch
    };
    is_fixed(short) && is_fixed(long) && long.window.0.is_multiple_of(short.window.0)
}

/// For how many microseconds what was spent counts in full, at least; in any such stretch at most the limit is
/// admitted.
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

/// For how many microseconds what was spent counts at all, at most.
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
