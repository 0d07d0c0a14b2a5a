//! Quotas of which gateways buy units ahead: what goes with that.

use super::in_flight::is_in_flight;
use crate::config::file::{ConsistencyName, RawPolicy, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::limit::consistency::can_be_leased;
use crate::limit::{Algorithm, Consistency, Count, Quota};
use crate::snapshot::{Grant, Policy};

/// Compiles how exactly gateways keep the quotas of a policy whose overrides are compiled.
pub(super) fn compile(
    table: &Table<RawPolicy>,
    policy: &Policy,
    report: &mut Report,
) -> Consistency {
    let raw = &table.value;
    if raw.consistency == ConsistencyName::Exact {
        if let Some(place) = table.place("overshoot")
            && !table.is_incomplete(POLICY.about.title)
        {
            let message = "`overshoot` is given, but the policy is exact";
            (report.mistake(place, message, "`consistency = \"leased\"` as well"))
                .hint("add it, or remove this");
        }
        return Consistency::Exact;
    }
    for (key, is_other) in [
        ("count", raw.count == Count::All),
        ("penalty", raw.penalty.is_some()),
        ("candidate", !raw.candidate.is_empty()),
        ("spill", raw.spill.is_some()),
    ] {
        if let (Some(place), true) = (table.place(key), is_other) {
            let message = format!("this `{key}` does not go with `consistency = \"leased\"`");
            (report.mistake(place, message, "a policy that is exact")).hint(
                "a gateway that spends units bought ahead does not ask Redis what else becomes of the request",
            );
        }
    }
    if let (Some(place), Some(kind)) = (table.place("consistency"), exact_kind(policy)) {
        let message = format!("`leased` does not go with {kind}");
        report.mistake(
            place,
            message,
            "`exact`, or quotas per window of other algorithms",
        );
    }
    Consistency::Leased(raw.overshoot)
}

/// Returns what of the policy's quotas cannot be bought ahead.
fn exact_kind(policy: &Policy) -> Option<&'static str> {
    if is_in_flight(policy) {
        return Some("units in flight");
    }
    let mut quotas = policy
        .grants()
        .flat_map(Grant::quotas)
        .map(|part| &part.quota);
    let is_exact = |quota: &&Quota| quota.count == Count::Admitted && !can_be_leased(quota);
    let kind = quotas.find(is_exact)?.algorithm;
    Some(match kind {
        Algorithm::Credits { .. } => "credits",
        _ => "`leaky-bucket`",
    })
}
