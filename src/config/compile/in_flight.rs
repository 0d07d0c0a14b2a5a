//! What goes with units in flight: costs that are known when a request arrives, and quotas of the same kind.

use crate::config::file::{RawPolicy, RawQuota, Table};
use crate::config::report::Report;
use crate::config::value::{CostText, GrantText, QuotaSpan};
use crate::limit::Count;
use crate::snapshot::{Grant, Policy};

/// Checks a policy with units in flight, the overrides of which are already compiled.
pub(super) fn check(table: &Table<RawPolicy>, policy: &Policy, report: &mut Report) {
    if !is_in_flight(policy) {
        return;
    }
    let raw = &table.value;
    // Quotas of both kinds in the policy's own list are reported when that is compiled.
    let mut written = raw.quotas().filter(|_| raw.quota.len() <= 1);
    let other = written.find(|at| is_windowed(&at.value));
    let others_of_file = || {
        let has_others = !policy.grants().all(|grant| fits(policy, grant));
        table.place("overrides_file").filter(|_| has_others)
    };
    if let Some(place) = other.map(|at| &at.span).or_else(others_of_file) {
        let message = "the policy counts units in flight, and this quota something else";
        (report.mistake(place, message, "a quota such as `20 in flight`"))
            .hint("a request can have several policies: write one for each kind of quota");
    }
    let is_told = !matches!(raw.cost, CostText::Units(_));
    let other = "a policy without it";
    for (key, is_other, expected) in [
        ("cost", is_told, "a number"),
        ("count", raw.count == Count::All, "`admitted`"),
        ("count_status", !raw.count_status.is_empty(), other),
        ("refund_on", !raw.refund_on.is_empty(), other),
    ] {
        if let (Some(place), true) = (table.place(key), is_other) {
            let message = format!("this `{key}` does not go with units in flight");
            (report.mistake(place, message, expected))
                .hint("what a request holds is known when it arrives, and comes back when it ends");
        }
    }
}

/// Whether all quotas of a grant are of the policy's kind: units in flight, or others.
pub(super) fn fits(policy: &Policy, grant: &Grant) -> bool {
    let is_in_flight = is_in_flight(policy);
    let mut quotas = grant.quotas().iter();
    quotas.all(|part| part.quota.is_in_flight() == is_in_flight)
}

/// Whether a policy counts units in flight.
pub(super) fn is_in_flight(policy: &Policy) -> bool {
    let mut quotas = policy.grants().flat_map(Grant::quotas);
    quotas.any(|part| part.quota.is_in_flight())
}

fn is_windowed(quota: &RawQuota) -> bool {
    matches!(&quota.quota, GrantText::Quota(text) if text.span != QuotaSpan::InFlight)
}
