//! What a reload changes about policies, and which counters survive it.

use super::Diff;
use crate::config::words;
use crate::limit::{Algorithm, Quota};
use crate::snapshot::{Policy, PolicyQuota};
use crate::store::Shape;

/// Adds what changed between two policies of one name.
pub(super) fn policy(old: &Policy, new: &Policy, lines: &mut Vec<String>) {
    let mut diff = Diff::of(&format!("policy {}: ", old.name), lines);
    let (was, is) = (&old.quotas[0].quota, &new.quotas[0].quota);
    let same_shape = Shape::from(was.algorithm) == Shape::from(is.algorithm);
    let same_partition = old.partition == new.partition;
    if !same_shape {
        diff.line(&format!("{}, counters start afresh", shape(was, is)));
    }
    if !same_partition {
        let (was, is) = (&old.partition, &new.partition);
        let (was, is) = (words::partition(was), words::partition(is));
        diff.line(&format!("partition {was} → {is}, counters start afresh"));
    }
    // Where the counters are not kept, a line above says so of all of them.
    let kept = if same_shape && same_partition {
        ", counters kept"
    } else {
        ""
    };
    for line in quotas(&old.quotas, &new.quotas, kept) {
        diff.line(&line);
    }
    if let Some(line) = settings(was, is) {
        diff.line(&format!("{line}{kept}"));
    }
    diff.key("count", &was.count, &is.count, |count| {
        words::count(*count).to_owned()
    });
    diff.key("missing", &old.missing, &new.missing, |missing| {
        words::missing(*missing).to_owned()
    });
    diff.key("mode", &old.mode, &new.mode, |mode| {
        words::mode(*mode).to_owned()
    });
    let (was, is) = (old.on_store_failure, new.on_store_failure);
    diff.key("on_store_failure", &was, &is, |action| {
        words::on_store_failure(*action).to_owned()
    });
}

/// Writes what made the shape another.
fn shape(was: &Quota, is: &Quota) -> String {
    let (
        Algorithm::SlidingWindow {
            buckets: old_buckets,
            leaving: old_leaving,
        },
        Algorithm::SlidingWindow {
            buckets: new_buckets,
            leaving: new_leaving,
        },
    ) = (was.algorithm, is.algorithm)
    else {
        let [was, is] = [was, is].map(|quota| words::algorithm(quota.algorithm));
        return format!("algorithm {was} → {is}");
    };
    let mut parts = Vec::new();
    if old_buckets != new_buckets {
        parts.push(format!("buckets {old_buckets} → {new_buckets}"));
    }
    if old_leaving != new_leaving {
        let [was, is] = [old_leaving, new_leaving].map(words::leaving);
        parts.push(format!("leaving {was} → {is}"));
    }
    parts.join(", ")
}

/// Writes what of the algorithm changed without touching the shape.
fn settings(was: &Quota, is: &Quota) -> Option<String> {
    match (was.algorithm, is.algorithm) {
        // A burst that follows the quota is told with it.
        (Algorithm::Gcra { burst: before }, Algorithm::Gcra { burst: after })
            if before != after && (before != was.limit || after != is.limit) =>
        {
            Some(format!("burst {before} → {after}"))
        }
        (Algorithm::LeakyBucket { queue: before }, Algorithm::LeakyBucket { queue: after })
            if before != after =>
        {
            Some(format!("queue {before} → {after}"))
        }
        _ => None,
    }
}

/// Writes which quotas changed their number, came and went; a window is what identifies one.
fn quotas(old: &[PolicyQuota], new: &[PolicyQuota], kept: &str) -> Vec<String> {
    let find = |list: &[PolicyQuota], one: &PolicyQuota| {
        let found = list
            .iter()
            .find(|other| other.quota.window == one.quota.window);
        found.map(|part| part.quota)
    };
    let mut lines = Vec::new();
    for part in old {
        let was = part.quota;
        if let Some(is) = find(new, part)
            && was.limit != is.limit
        {
            lines.push(format!("{} → {}{kept}", was.limit, words::rate(&is)));
        }
    }
    let gone: Vec<&PolicyQuota> = old
        .iter()
        .filter(|part| find(new, part).is_none())
        .collect();
    let come: Vec<&PolicyQuota> = new
        .iter()
        .filter(|part| find(old, part).is_none())
        .collect();
    if let ([was], [is]) = (gone.as_slice(), come.as_slice()) {
        let (was, is) = (words::rate(&was.quota), words::rate(&is.quota));
        lines.push(format!("{was} → {is}, counters start afresh"));
        return lines;
    }
    lines.extend(
        gone.iter()
            .map(|part| format!("{} removed", words::rate(&part.quota))),
    );
    lines.extend(
        come.iter()
            .map(|part| format!("{} added", words::rate(&part.quota))),
    );
    lines
}
