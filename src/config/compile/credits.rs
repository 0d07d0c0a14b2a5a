//! What goes with credits: where balances are kept, which clients start with one, and which keys are allowed.

use std::ops::Range;

use super::inventable;
use crate::config::file::{File, RawGrant, RawPolicy, RawQuota, Table};
use crate::config::options::{POLICY, STORE};
use crate::config::report::Report;
use crate::config::value::{GrantText, QuotaSpan, StoreUrl};
use crate::limit::Count;
use crate::limit::plan::OnStoreFailure;
use crate::snapshot::{Grant, Policy};
use crate::store::settings::Location;

/// Checks the credits of a policy, the overrides of which are already compiled.
pub(super) fn check(table: &Table<RawPolicy>, policy: &Policy, file: &File, report: &mut Report) {
    let raw = &table.value;
    let is_incomplete = table.is_incomplete(POLICY.about.title);
    let has_credits = raw.quota.iter().any(|at| is_credits(&at.value));
    if let Some(place) = table.place("initial_credits")
        && !has_credits
        && !is_incomplete
    {
        without_credits("initial_credits", place, report);
    }
    let Some(place) = first(table, policy) else {
        if let (Some(place), false) = (table.place("allow_loss"), is_incomplete) {
            without_credits("allow_loss", place, report);
        }
        return;
    };
    if let Some(place) = table.place("on_store_failure")
        && policy.on_store_failure == OnStoreFailure::Local
    {
        let message = "`on_store_failure = \"local\"` does not go with credits";
        (report.mistake(place, message, "`closed` or `open`"))
            .hint("a balance is in Redis alone: no gateway has a share of it");
    }
    if let Some(place) = table.place("count")
        && raw.count == Count::All
    {
        let message = "`count = \"all\"` does not go with credits";
        report.mistake(place, message, "`admitted`");
    }
    if let Some(place) = table.place("notify") {
        let message = "`notify` does not go with credits";
        (report.mistake(place, message, "no `notify`"))
            .hint("a balance is no part of a quota: it only shrinks until credits are granted");
    }
    let store = &file.store;
    let is_in_memory = matches!(store.value.url, StoreUrl::Memory)
        && (store.has("url") || !store.is_incomplete(STORE.about.title));
    if is_in_memory && !raw.allow_loss {
        let hint = "to keep them here all the same, say `allow_loss = true`";
        refuse_in_memory(place, hint, report);
    }
    inventable::check_initial(table, policy, report);
}

fn refuse_in_memory(place: &Range<usize>, hint: &str, report: &mut Report) {
    let message =
        "credits would be kept in this process, and a restart would lose what clients bought";
    (report.mistake(place, message, "a `url` of Redis in `[store]`")).hint(hint);
}

/// Refuses a policy whose credits the store in force would lose; another store needs a restart.
pub(super) fn check_store_in_force(
    table: &Table<RawPolicy>,
    policy: &Policy,
    running: &Location,
    report: &mut Report,
) {
    if let (Some(place), Location::Memory, false) =
        (first(table, policy), running, table.value.allow_loss)
    {
        let hint = "a changed `url` needs a restart, and until then credits would be in memory: restart with this file";
        refuse_in_memory(place, hint, report);
    }
}

/// Refuses `initial_credits` in an override that grants no credits.
pub(super) fn check_override_key(grant: &RawGrant, report: &mut Report) {
    if let Some(at) = &grant.initial_credits
        && !grant.quota.iter().any(|at| is_credits(&at.value))
    {
        without_credits("initial_credits", &at.span, report);
    }
}

fn is_credits(quota: &RawQuota) -> bool {
    matches!(&quota.quota, GrantText::Quota(text) if text.span == QuotaSpan::Credits)
}

fn without_credits(key: &str, place: &Range<usize>, report: &mut Report) {
    let message = format!("`{key}` goes with credits only");
    (report.mistake(place, message, "`quota = \"credits\"`")).hint("remove it");
}

/// Returns the place of the first quota that is `credits`, or of `overrides_file` if only its rows grant any.
fn first<'t>(table: &'t Table<RawPolicy>, policy: &Policy) -> Option<&'t Range<usize>> {
    if let Some(written) = table.value.quotas().find(|at| is_credits(&at.value)) {
        return Some(&written.span);
    }
    let mut quotas = policy.grants().flat_map(Grant::quotas);
    let is_in_file = quotas.any(|part| part.quota.is_balance());
    table.place("overrides_file").filter(|_| is_in_file)
}
