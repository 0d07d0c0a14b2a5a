//! Pages of other origins: which policies decide CORS preflights, and who may read the gateway's own answers.

use http::HeaderValue;
use typed_index_collections::TiSlice;

use super::names::{PolicyUse, TableNames};
use crate::config::display;
use crate::config::file::{File, RawRoute, Table};
use crate::config::report::Report;
use crate::config::value::CostText;
use crate::index::PolicyIndex;
use crate::limit::plan::CHECKS_MAX;
use crate::request::Part;
use crate::snapshot::{AppliedPolicy, Policy, Snapshot, UpstreamKind};

/// Compiles `preflight_policies`.
pub(super) fn preflight_policies(
    file: &File,
    policies: &TiSlice<PolicyIndex, Policy>,
    report: &mut Report,
) -> Option<Vec<AppliedPolicy>> {
    let list = file.top.value.preflight_policies.as_ref()?;
    let mut uses = TableNames::of(file).policies(list, report);
    for use_ in &uses {
        check(file, use_, report);
    }
    uses.retain(|use_| policies[use_.policy].mode.is_some());
    let most = |use_: &PolicyUse| policies[use_.policy].quotas_max();
    let count: usize = uses.iter().map(most).sum();
    if count > CHECKS_MAX
        && let Some(place) = file.top.place("preflight_policies")
    {
        let message = format!("the policies of preflights have {count} quotas");
        report.mistake(place, message, format!("at most {CHECKS_MAX} quotas"));
    }
    let applied = uses.iter().map(|use_| AppliedPolicy {
        policy: use_.policy,
        cost: match file.policies[use_.policy].value.cost {
            CostText::Units(units) => units,
            _ => 1,
        },
        body_cost: None,
    });
    Some(applied.collect())
}

/// Refuses a policy that needs what preflights do not carry: anything about the client, or a reported cost.
fn check(file: &File, use_: &PolicyUse, report: &mut Report) {
    let (policy, Some(place)) = (&file.policies[use_.policy], &use_.span) else {
        return;
    };
    let (name, policy) = (&policy.name, &policy.value);
    let chooser = policy.overrides_by.iter().flat_map(|choice| &choice.0);
    let mut parts = policy.policy.partition.parts().chain(chooser);
    let is_said = |part: &&Part| matches!(part, Part::Ip | Part::Host | Part::Path | Part::Route);
    if let Some(part) = parts.find(|part| !is_said(part)) {
        let part = display::part(part);
        let message =
            format!("policy `{name}` counts by `{part}`, which CORS preflights do not have");
        (report.mistake(
            place,
            message,
            "a policy by `ip`, `host`, `path` or `route`",
        ))
        .hint("browsers send preflights without keys, tokens and cookies: add a policy by `ip`");
    }
    if !matches!(policy.cost, CostText::Units(_)) {
        let cost = display::cost(&policy.cost);
        let message = format!("CORS preflights do not report a cost, as policy `{name}` expects");
        (report.mistake(place, message, "a policy whose `cost` is a number")).hint(format!(
            "its cost is `{cost}`: add another policy for preflights"
        ));
    }
}

/// Compiles `cors_origins`.
pub(super) fn origins(table: &Table<RawRoute>, report: &mut Report) -> Box<[HeaderValue]> {
    let origins = &table.value.cors_origins;
    if let [_, _, ..] = &origins[..]
        && let Some(any) = origins.iter().find(|origin| origin.value == "*")
    {
        let message = "`*` stands for every origin, so the others have no effect";
        report.mistake(&any.span, message, "either `*` or a list of origins");
    }
    origins.iter().map(|origin| origin.value.clone()).collect()
}

/// Warns that nothing limits preflights to an upstream, because `preflight_policies` is empty.
pub(super) fn warn_unlimited_preflights(snapshot: &Snapshot) -> Option<String> {
    let policies = snapshot.preflight_policies.as_ref()?;
    let upstream = |route: usize| &snapshot.upstreams[snapshot.routes.raw[route].upstream];
    let is_forwarded = |route: &usize| matches!(upstream(*route).kind, UpstreamKind::Http(_));
    let route = (0..snapshot.routes.len()).find(is_forwarded)?;
    policies.is_empty().then(|| {
        format!(
            "`preflight_policies` is empty: any number of CORS preflights reach upstream `{}`",
            upstream(route).name
        )
    })
}
