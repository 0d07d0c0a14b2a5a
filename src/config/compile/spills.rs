//! Policies that spill what they refuse to the credits of another one.

use std::ops::Range;

use typed_index_collections::TiSlice;

use super::names::TableNames;
use crate::config::file::{File, RawPolicy, Table};
use crate::config::report::Report;
use crate::index::PolicyIndex;
use crate::limit::{Algorithm, Count};
use crate::snapshot::{Grant, Policy, PolicyMode};

/// Finds the policies that others spill to, and refuses what does not go together.
pub(super) fn compile(
    file: &File,
    policies: &mut TiSlice<PolicyIndex, Policy>,
    report: &mut Report,
) {
    let names = TableNames::of(file);
    for (index, table) in file.policies.iter_enumerated() {
        let Some(name) = &table.value.spill else {
            continue;
        };
        let Some(of) = names.policy(name, report) else {
            continue;
        };
        let mistakes = report.count();
        check(table, &policies[index], &name.span, report);
        check_credits(&policies[index], &policies[of], &name.span, report);
        if report.count() == mistakes {
            policies[index].spill = Some(of);
        }
    }
}

/// Refuses a policy that cannot spill.
fn check(table: &Table<RawPolicy>, policy: &Policy, place: &Range<usize>, report: &mut Report) {
    let raw = &table.value;
    let is_fixed = |grant: &Grant| match grant {
        Grant::Quotas(quotas) => matches!(
            &quotas[..],
            [one] if matches!(one.quota.algorithm, Algorithm::FixedWindow | Algorithm::Calendar(_))
        ),
        Grant::Unlimited | Grant::Blocked => true,
    };
    if !policy.grants().all(is_fixed) {
        let message =
            "a policy that spills must have exactly one quota, of `fixed-window` or of a calendar";
        (report.mistake(
            place,
            message,
            "one such as `quota = \"1000 per calendar month\"`",
        ))
        .hint("put rate limits into a policy of their own");
    }
    let others = [
        (
            "mode",
            !matches!(raw.policy.mode, None | Some(PolicyMode::Enforce)),
        ),
        ("candidate", !raw.candidate.is_empty()),
        ("penalty", raw.penalty.is_some()),
        ("count", raw.count == Count::All),
    ];
    for (key, is_other) in others {
        if let (Some(place), true) = (table.place(key), is_other) {
            let message = format!("this `{key}` does not go with `spill`");
            (report.mistake(
                place,
                message,
                "a policy that enforces its quota, and counts what it admits",
            ))
            .hint("remove one of the two");
        }
    }
}

/// Refuses to spill to a policy that has no credits for the same clients.
fn check_credits(policy: &Policy, of: &Policy, place: &Range<usize>, report: &mut Report) {
    if !matches!(of.grant.quotas(), [one] if one.quota.is_balance()) {
        let message = format!("policy `{}` is not one of credits alone", of.name);
        report.mistake(place, message, "a policy with `quota = \"credits\"`");
    } else if of.partition != policy.partition {
        let message = format!("policy `{}` identifies clients by other parts", of.name);
        report.mistake(place, message, "the same `partition` in both");
    }
}
