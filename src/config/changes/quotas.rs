//! What a reload changes about a policy, and which counters survive it.

use crate::config::file::{At, RawPolicy};
use crate::config::options::{Change, Effect, POLICY};
use crate::config::spelling;
use crate::config::value::QuotaText;

/// Says what changes between two policies of one name.
///
/// What starts the counters afresh comes first; the quotas are told one by one.
pub(super) fn changes(old: &RawPolicy, new: &RawPolicy) -> Vec<Change> {
    let mut changes = POLICY.changes(old, new);
    let is_another = |key| move |change: &Change| change.key == key;
    // What divided the window of another algorithm says nothing more.
    let is_same = !changes.iter().any(is_another("algorithm"));
    changes.retain(|change| is_same || !matches!(change.key, "buckets" | "leaving"));
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

/// Says which quotas changed their number, came and went; a window is what identifies one.
fn quotas(old: &[At<QuotaText>], new: &[At<QuotaText>]) -> Vec<Change> {
    let find = |list: &[At<QuotaText>], one: &QuotaText| {
        let place = list
            .iter()
            .position(|other| other.value.window == one.window);
        place.map(|at| list[at].value.clone())
    };
    let mut changes = Vec::new();
    let mut add = |text: String, effect| {
        let key = "";
        changes.push(Change { key, text, effect });
    };
    for At { value: was, .. } in old {
        if let Some(is) = find(new, was).filter(|is| is.limit != was.limit) {
            let text = format!("{} → {}", was.limit, spelling::quota(&is));
            add(text, Effect::CountersKept);
        }
    }
    let only = |these: &[At<QuotaText>], those: &[At<QuotaText>]| -> Vec<String> {
        let only = these.iter().filter(|one| find(those, &one.value).is_none());
        only.map(|one| spelling::quota(&one.value)).collect()
    };
    let (gone, come) = (only(old, new), only(new, old));
    if let ([was], [is]) = (gone.as_slice(), come.as_slice()) {
        let text = format!("{was} → {is}, counters start afresh");
        add(text, Effect::Applies);
    } else {
        for (quotas, what) in [(gone, "removed"), (come, "added")] {
            for quota in quotas {
                add(format!("{quota} {what}"), Effect::Applies);
            }
        }
    }
    changes
}
