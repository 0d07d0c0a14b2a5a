//! What a request costs on a route: the route's numbers, in place of its policies' own.

use typed_index_collections::TiSlice;

use super::names::{PolicyUse, TableNames};
use super::route_mistakes::is_incomplete;
use crate::config::display;
use crate::config::file::{File, RawRoute, RouteCost, Spanned, Table};
use crate::config::report::Report;
use crate::config::value::CostText;
use crate::index::PolicyIndex;
use crate::snapshot::{Policy, Route};

/// The `cost` of a route: units in place of the policies' own numbers.
pub(super) enum RouteCosts {
    /// The same number for each policy, or `None` for their own.
    Each(Option<u64>),
    /// Numbers for these policies; the others keep their own.
    OfPolicies(Vec<(PolicyIndex, u64)>),
}

impl RouteCosts {
    /// Compiles the `cost` of a route to which the policies of `uses` apply.
    pub(super) fn compile(
        table: &Table<RawRoute>,
        (file, names): (&File, &TableNames<'_>),
        uses: &[PolicyUse],
        report: &mut Report,
    ) -> Self {
        let list = match &table.value.cost {
            None => return Self::Each(None),
            Some(RouteCost::Each(units)) => return Self::Each(Some(*units)),
            Some(RouteCost::OfPolicies(list)) => list,
        };
        let place = table.place("cost").unwrap_or(&table.span);
        if list.is_empty() && !is_incomplete(table) {
            let expected = "a number, or a table such as `{ per-key = 10 }`";
            report.mistake(place, "`cost` names no policy", expected);
        }
        let costs = list.iter().filter_map(|(name, units)| {
            let policy = policy(table, name, (file, names), uses, report)?;
            Some((policy, *units))
        });
        Self::OfPolicies(costs.collect())
    }

    /// Returns what a request costs in a policy whose own number is `own`.
    pub(super) fn of(&self, policy: PolicyIndex, own: u64) -> u64 {
        match self {
            Self::Each(units) => units.unwrap_or(own),
            Self::OfPolicies(_) => self.named(policy).unwrap_or(own),
        }
    }

    /// Returns what a request costs in a policy that the route's `cost` names, or `None` if it does not.
    pub(super) fn named(&self, policy: PolicyIndex) -> Option<u64> {
        match self {
            Self::Each(_) => None,
            Self::OfPolicies(list) => {
                let mut found = list.iter().filter(|(named, _)| *named == policy);
                found.next().map(|(_, units)| *units)
            }
        }
    }
}

/// Finds the policy that a route's `cost` names, which must be one of the route's. A number may replace what bodies
/// report, which are then not read for this policy, but not what a header reports.
fn policy(
    table: &Table<RawRoute>,
    name: &Spanned<String>,
    (file, names): (&File, &TableNames<'_>),
    uses: &[PolicyUse],
    report: &mut Report,
) -> Option<PolicyIndex> {
    let is_named = |one: &&PolicyUse| *file.policies[one.policy].name == *name.value;
    let Some(found) = uses.iter().find(is_named) else {
        // If `policies` names it as well, the mistake is reported there.
        if !table.value.policies.contains(name) && !is_incomplete(table) {
            for unused in names.policies(std::slice::from_ref(name), report) {
                let name_of = &file.policies[unused.policy].name;
                let message = format!("policy `{name_of}` does not apply to the route");
                (report.mistake(&name.span, message, "a policy of the route"))
                    .hint("add it to the route's `policies`, or remove it from `cost`");
            }
        }
        return None;
    };
    let own = &file.policies[found.policy].value.cost;
    if matches!(own, CostText::Reported(..)) {
        let message = format!(
            "policy `{}` counts what `{}` reports, which a number does not replace",
            name.value,
            display::cost(own)
        );
        (report.mistake(
            &name.span,
            message,
            "a policy whose `cost` is a number or read from bodies",
        ))
        .hint("remove it from the route's `cost`");
        return None;
    }
    Some(found.policy)
}

/// Warns of a `cost` for all policies of a route if none has a number that it replaces: reported costs stay.
pub(in crate::config::compile) fn warn_ineffective_cost(
    raw: &RawRoute,
    route: &Route,
    policies: &TiSlice<PolicyIndex, Policy>,
) -> Option<String> {
    let mut applied = route.policies.iter();
    let is_replaced = applied.any(|one| policies[one.policy].reported_cost.is_none());
    if !matches!(raw.cost, Some(RouteCost::Each(_))) || is_replaced {
        return None;
    }
    let in_bodies = route.policies.iter().map(|one| &policies[one.policy]);
    let hint = in_bodies
        .filter(|policy| policy.body_cost().is_some())
        .map(|policy| {
            format!(
                "; `cost = {{ {} = 1 }}` replaces what bodies report",
                policy.name
            )
        });
    Some(format!(
        "route `{}`: `cost` has no effect, because no policy of the route has a number as its `cost`{}",
        route.name,
        hint.take(1).collect::<String>()
    ))
}
