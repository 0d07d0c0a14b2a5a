//! What an operator grants one client for a time, which is written and counted like the policy's overrides.

use std::collections::HashSet;
use std::sync::Arc;

use super::counting::Counting;
use super::overrides::{WINDOWS_MAX, window};
use super::quotas;
use super::{holds_requests, in_flight, number};
use crate::config::file::{File, RawGrant, RawQuota, Spanned};
use crate::config::report::Report;
use crate::config::value::grant;
use crate::index::PolicyIndex;
use crate::limit::plan::{CHECKS_MAX, SeriesId};
use crate::snapshot::{Grant, Policy, Snapshot};
use crate::store::{Series, SeriesRole};

/// What a new grant has to fit in beside: quotas of other policies, and grants of the same policy.
#[derive(Clone, Copy, Debug)]
pub struct GrantsBeside<'g> {
    /// Most quotas of the grant: more, with those of other policies, would be too many for a plan.
    pub room: usize,
    /// Temporary grants that clients of the policy already have.
    pub grants: &'g [Grant],
}

/// Returns how many quotas of a policy a plan has room for, beside those of the other policies on any of its routes
/// and of preflights.
pub fn checks_left_for(snapshot: &Snapshot, policy: PolicyIndex) -> usize {
    let plans = snapshot.routes.iter().map(|route| &*route.policies);
    let plans = plans.chain(snapshot.preflight_policies.as_deref());
    let with_it = plans.filter(|plan| plan.iter().any(|one| one.policy == policy));
    let most = with_it.map(|plan| {
        let others = plan.iter().filter(|one| one.policy != policy);
        others
            .map(|one| snapshot.policies[one.policy].quotas_max())
            .sum()
    });
    CHECKS_MAX.saturating_sub(most.max().unwrap_or(0))
}

/// Compiles what one client of a policy is granted for a time; `index` is that of the policy in `snapshot`. The store
/// is asked for series only if nothing is wrong.
///
/// # Errors
/// What is wrong with `texts`, and what was expected.
pub fn temporary_grant(
    file: &File,
    snapshot: &Snapshot,
    index: PolicyIndex,
    texts: &[String],
    beside: GrantsBeside<'_>,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Result<Grant, String> {
    let policy = &snapshot.policies[index];
    // The table is found by name, because a reload may have put another file in force meanwhile.
    let mut tables = file.policies.iter();
    let table = tables.find(|table| *table.name == *policy.name);
    let table = table.ok_or_else(|| format!("there is no policy `{}` any more", policy.name))?;
    let mut list = Vec::with_capacity(texts.len());
    for text in texts {
        let value = grant(text).map_err(|wrong| format!("`{text}` {}", wrong.in_a_line()))?;
        let value = RawQuota::from(value);
        list.push(Spanned { value, span: 0..0 });
    }
    if list.is_empty() {
        return Err("no quota is given, expected at least one".to_owned());
    }
    let (mut report, raw) = (Report::default(), RawGrant::default());
    let counting = Counting::of_override(&table.value, &raw, policy.has_own_days());
    let mut grant = quotas::grant(&table.name, &list, &counting, &mut report);
    if let Some(mistake) = report.mistakes().first() {
        return Err(mistake.in_a_line());
    }
    if policy.spill.is_some() && grant.quotas().len() > 1 {
        return Err("the policy spills to credits, expected one quota".to_owned());
    }
    if !in_flight::fits(policy, &grant) {
        let expected = if in_flight::is_in_flight(policy) {
            "counts units in flight, expected a quota such as `20 in flight`"
        } else {
            "counts no units in flight, expected a quota such as `100 per minute`"
        };
        return Err(format!("the policy {expected}"));
    }
    check_room(policy, &grant, beside)?;
    let can_come_back = holds_requests(&snapshot.policies) || policy.is_settled();
    if let Grant::Quotas(quotas) = &mut grant {
        for part in quotas {
            number(part, can_come_back, &mut |quota| {
                let name = Arc::clone(&policy.name);
                series_id_of(&Series::of(name, SeriesRole::Real, quota))
            });
        }
    }
    Ok(grant)
}

/// Refuses a grant with which a plan would have too many quotas, or the policy too many windows.
fn check_room(policy: &Policy, grant: &Grant, beside: GrantsBeside<'_>) -> Result<(), String> {
    let (count, room) = (grant.quotas().len(), beside.room);
    if count > room {
        return Err(format!(
            "there are {count} quotas, expected at most {room}: with those of other policies on its routes, a request \
             has at most {CHECKS_MAX}"
        ));
    }
    let others = policy.grants().skip(1).chain(beside.grants);
    let windows = others.chain([grant]).flat_map(Grant::quotas);
    let windows: HashSet<_> = windows.map(|part| window(&part.quota)).collect();
    if windows.len() > WINDOWS_MAX {
        return Err(format!(
            "with the overrides of this policy there are {} different windows, expected at most {WINDOWS_MAX}",
            windows.len()
        ));
    }
    Ok(())
}
