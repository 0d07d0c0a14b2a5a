//! Lists what a reload changes about a policy, and which counters survive it.

use crate::config::display;
use crate::config::file::{OverridesFile, RawPolicy, RawQuota, Spanned};
use crate::config::options::{Change, Effect, POLICY};
use crate::config::value::GrantText;

/// Says what changes between two policies of one name.
///
/// Keys that start the counters afresh come first; each quota has a line of its own.
pub(super) fn changes(old: &RawPolicy, new: &RawPolicy) -> Vec<Change> {
    let mut changes = POLICY.changes(old, new);
    if let (Some(was), Some(is)) = (&old.overrides_file, &new.overrides_file)
        && let Some(change) = changes
            .iter_mut()
            .find(|change| change.key == "overrides_file")
    {
        change.text = rows(was, is);
    }
    let is_another = |key| move |change: &Change| change.key == key;
    // Buckets of two different algorithms cannot be compared.
    let is_same = !changes.iter().any(is_another("algorithm"));
    changes.retain(|change| is_same || !matches!(change.key, "buckets" | "oldest_bucket"));
    let has_quotas = changes.iter().any(is_another("quota"));
    changes.retain(|change| change.key != "quota");
    changes.sort_by_key(|change| change.effect != Effect::CountersAfresh);
    if has_quotas {
        let afresh = changes
            .iter()
            .take_while(|change| change.effect == Effect::CountersAfresh);
        let at = afresh.count();
        changes.splice(at..at, quotas(&old.quota, &new.quota));
    }
    changes
}

/// Says how a file of overrides differs.
fn rows(was: &OverridesFile, is: &OverridesFile) -> String {
    let (before, after) = (was.rows, is.rows);
    let rows = if after == 1 { "row" } else { "rows" };
    if was.path != is.path {
        format!("{} → {}, {before} → {after} {rows}", was.path, is.path)
    } else if before == after {
        format!("changed, {after} {rows}")
    } else {
        format!("{before} → {after} {rows}")
    }
}

/// Says which quotas have another number of units, and which were added or removed.
fn quotas(old: &[Spanned<RawQuota>], new: &[Spanned<RawQuota>]) -> Vec<Change> {
    // Whether two quotas are the same but for their number of units.
    let is_one = |one: &RawQuota, other: &RawQuota| match (&one.quota, &other.quota) {
        (GrantText::Quota(a), GrantText::Quota(b)) => {
            a.span == b.span && display::own_keys(one).eq(display::own_keys(other))
        }
        _ => one == other,
    };
    let find = |list: &[Spanned<RawQuota>], one: &RawQuota| {
        let place = list.iter().position(|other| is_one(&other.value, one));
        place.map(|at| list[at].value.clone())
    };
    let mut changes = Vec::new();
    let mut add = |text: String, effect| {
        let key = "";
        changes.push(Change { key, text, effect });
    };
    for Spanned { value: was, .. } in old {
        if let (GrantText::Quota(number), Some(is)) = (&was.quota, find(new, was))
            && let GrantText::Quota(quota) = &is.quota
            && quota.limit != number.limit
        {
            let text = format!("{} → {}", number.limit, display::raw_quota(&is));
            add(text, Effect::CountersKept);
        }
    }
    let only = |these: &[Spanned<RawQuota>], those: &[Spanned<RawQuota>]| -> Vec<String> {
        let only = these.iter().filter(|one| find(those, &one.value).is_none());
        only.map(|one| display::raw_quota(&one.value)).collect()
    };
    let (gone, come) = (only(old, new), only(new, old));
    let is_quota = |at: &Spanned<RawQuota>| matches!(at.value.quota, GrantText::Quota(_));
    if let ([was], [is]) = (gone.as_slice(), come.as_slice()) {
        let all_quotas = old.iter().chain(new).all(is_quota);
        let note = if all_quotas {
            ", counters start afresh"
        } else {
            ""
        };
        add(format!("{was} → {is}{note}"), Effect::Applies);
    } else {
        for (quotas, what) in [(gone, "removed"), (come, "added")] {
            for quota in quotas {
                add(format!("{quota} {what}"), Effect::Applies);
            }
        }
    }
    changes
}
