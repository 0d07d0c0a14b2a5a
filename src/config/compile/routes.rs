//! Routes: patterns become a router, names become indices, and no two routes may tie.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use http::HeaderName;
use smallvec::SmallVec;
use typed_index_collections::TiSlice;

use super::bodies::BodiesRead;
use super::cors;
use super::names::{PolicyUse, TableNames};
use super::paths::path_change;
use super::route_costs::RouteCosts;
use super::route_mistakes::{in_pattern, is_incomplete};
use crate::config::file::{File, RawRoute, RawUpstream, Spanned, Table};
use crate::config::report::Report;
use crate::config::secrets::redacted;
use crate::config::value::CostText;
use crate::index::{PolicyIndex, RouteIndex, UpstreamIndex};
use crate::limit::plan::CHECKS_MAX;
use crate::request::route::{Case, HostPattern, PathPattern, Router, Rule};
use crate::request::{Choice, Part};
use crate::snapshot::{
    AppliedPolicy, FieldChanges, Policy, ReportedCost, Route, RouteBodies, RouteChanges,
};

/// Compiles `[[routes]]`; a route whose upstream is not known is left out.
pub(super) fn compile(
    file: &File,
    policies: &TiSlice<PolicyIndex, Policy>,
    report: &mut Report,
) -> Routing {
    if file.routes.is_empty() && !file.lost.may_be_any("routes") {
        (report.mistake(
            &(0..0),
            "the file has no route",
            "at least one `[[routes]]`",
        ))
        .hint("add `[[routes]]` with `path = \"/*\"` and an `upstream`");
    }
    refuse_equal_names(file, report);
    refuse_ambiguous_headers(file, report);
    let names = TableNames::of(file);
    let mut by_default = names.policies(&file.top.value.default_policies, report);
    for policy in &mut by_default {
        policy.span = None;
    }
    let mut compiler = RouteCompiler {
        file,
        policies,
        names,
        by_default,
        report,
    };
    let (mut routes, mut rules, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (index, table) in file.routes.iter().enumerate() {
        let path = path(table, compiler.report);
        routes.extend(compiler.route(table, path.as_ref()));
        let rule = rule(&table.value, path, compiler.report);
        // A rule whose upstream is unknown can still tie; one that lacks a part would tie falsely.
        if let Some(rule) = rule.filter(|_| !is_incomplete(table)) {
            rules.push(rule);
            places.push(index);
        }
    }
    let finder = Router::new(rules).unwrap_or_else(|ties| {
        for tie in ties {
            report_tie(
                file,
                [tie.first, tie.second].map(|rule| places[rule]),
                report,
            );
        }
        Router::default()
    });
    Routing {
        routes,
        router: finder,
    }
}

/// Refuses two routes with the same name.
fn refuse_equal_names(file: &File, report: &mut Report) {
    let mut known = HashSet::new();
    for name in file
        .routes
        .iter()
        .filter_map(|table| table.value.name.as_ref())
    {
        if !known.insert(&name.value) {
            let message = format!("two routes are named `{}`", name.value);
            report.mistake(&name.span, message, "a different name");
        }
    }
}

/// Refuses routes that match on headers which differ only in `_` and `-`, because some origins take these for one.
fn refuse_ambiguous_headers(file: &File, report: &mut Report) {
    let mut known = HashMap::new();
    for table in &file.routes {
        for (name, _) in &table.value.headers {
            let first = *known.entry(name.as_str().replace('_', "-")).or_insert(name);
            if first != name {
                let message = format!(
                    "routes ask for the headers `{first}` and `{name}`, which some origins take for one"
                );
                report.mistake(pattern_place(table), message, "one spelling in all routes");
            }
        }
    }
}

/// The routes of a file, and the router that finds them.
pub(super) struct Routing {
    pub(super) routes: Vec<Route>,
    /// Finds the index of a request's route in `routes`.
    pub(super) router: Router,
}

/// What is needed to compile a route.
struct RouteCompiler<'f, 'r> {
    file: &'f File,
    /// The compiled policies, in the file's order.
    policies: &'f TiSlice<PolicyIndex, Policy>,
    names: TableNames<'f>,
    by_default: Vec<PolicyUse>,
    report: &'r mut Report,
}

impl RouteCompiler<'_, '_> {
    fn route(&mut self, table: &Table<RawRoute>, path: Option<&PathPattern>) -> Option<Route> {
        let route = &table.value;
        let upstream = self.upstream(table);
        let path_change = path_change(table, path, self.report);
        if let (Some(upstream), Some(path)) = (upstream, path) {
            self.check_hash(table, path, &self.file.upstreams[upstream]);
        }
        let (policies, bodies) = self.applied(table, path);
        let upstream = upstream?;
        let unless_said = &self.file.upstreams[upstream].value;
        Some(Route {
            name: Arc::clone(&table.name),
            policies,
            bodies,
            upstream,
            path_change,
            response_timeout: (route.response_timeout).unwrap_or(unless_said.response_timeout),
            body_timeout: (route.body_timeout).unwrap_or(Some(unless_said.body_timeout)),
            changes: changes(route),
            cors_origins: cors::origins(table, self.report),
            ..route.route.clone()
        })
    }

    fn upstream(&mut self, table: &Table<RawRoute>) -> Option<UpstreamIndex> {
        if let Some(name) = &table.value.upstream {
            return self.names.upstream(name, self.report);
        }
        if !is_incomplete(table) {
            let hint = match self.file.upstreams.raw.as_slice() {
                [] => "add `[upstreams.api]`, and `upstream = \"api\"` here".to_owned(),
                [first, ..] => format!("add `upstream = \"{}\"`", first.name),
            };
            let (message, expected) = ("a route lacks `upstream`", "a table with `upstream`");
            (self.report.mistake(&table.span, message, expected)).hint(hint);
        }
        None
    }

    /// Returns the policies of a route, default ones first and none that is off, and what they read from bodies.
    fn applied(
        &mut self,
        table: &Table<RawRoute>,
        path: Option<&PathPattern>,
    ) -> (SmallVec<[AppliedPolicy; 1]>, Option<Arc<RouteBodies>>) {
        let (route, file) = (&table.value, self.file);
        let mut uses = Vec::new();
        if route.default_policies {
            uses.extend_from_slice(&self.by_default);
        }
        for policy in self.names.policies(&route.policies, self.report) {
            match uses.iter_mut().find(|use_| use_.policy == policy.policy) {
                Some(default) => default.span = policy.span,
                None => uses.push(policy),
            }
        }
        let costs = RouteCosts::compile(table, (file, &self.names), &uses, self.report);
        let policy = |use_: &PolicyUse| &file.policies[use_.policy].value;
        uses.retain(|use_| policy(use_).policy.mode.is_some());
        let most = |use_: &PolicyUse| self.policies[use_.policy].quotas_max();
        let count: usize = uses.iter().map(most).sum();
        // A request spends all quotas of its route in one step, the size of which has a bound.
        if count > CHECKS_MAX {
            let message = format!("the route's policies have {count} quotas");
            let expected =
                format!("at most {CHECKS_MAX} quotas, those of default policies among them");
            (self.report.mistake(&table.span, message, expected))
                .hint("of several quotas the shortest and the longest window matter most");
        }
        self.check_spills(table, &uses);
        if let Some(path) = path {
            for use_ in &uses {
                self.check_params(table, path, use_);
            }
        }
        let mut bodies = BodiesRead::default();
        let applied = uses.iter().map(|use_| {
            let compiled = &self.policies[use_.policy];
            let fixed = costs.named(use_.policy);
            let body_cost = compiled.body_cost().filter(|_| fixed.is_none());
            let body_cost = body_cost.map(|cost| Arc::new(bodies.place(cost)));
            AppliedPolicy {
                policy: use_.policy,
                cost: match (policy(use_).cost.clone(), compiled.reported_cost.as_deref()) {
                    (CostText::Units(units), _) => costs.of(use_.policy, units),
                    (_, Some(ReportedCost::Header(reported))) => reported.reserve,
                    (_, Some(ReportedCost::Body(reported))) => {
                        fixed.unwrap_or_else(|| reported.reserve_min())
                    }
                    (_, None) => 1,
                },
                body_cost,
            }
        });
        let applied = applied.collect();
        (applied, bodies.compile(table, self.report))
    }

    /// Refuses a route that has both a policy and the credits that it spills to, which must not be asked by themselves.
    fn check_spills(&mut self, table: &Table<RawRoute>, uses: &[PolicyUse]) {
        let both = uses.iter().find_map(|use_| {
            let spill = self.policies[use_.policy].spill?;
            let other = uses.iter().find(|other| other.policy == spill)?;
            Some((use_.policy, other))
        });
        if let Some((policy, credits)) = both {
            let [name, of] = [policy, credits.policy].map(|index| &self.policies[index].name);
            let message =
                format!("policy `{of}` is listed, although policy `{name}` already spills to it");
            let place = credits.span.as_ref().unwrap_or(&table.span);
            (self.report.mistake(place, message, "one of the two"))
                .hint(format!("leave out `{of}`: `{name}` spends its credits"));
        }
    }

    /// Refuses a policy by a `path:PARAM` that the route's path does not have, unless it has an alternative.
    fn check_params(&mut self, table: &Table<RawRoute>, path: &PathPattern, use_: &PolicyUse) {
        let policy = &self.file.policies[use_.policy];
        let name = &policy.name;
        let chooser = &policy.value.overrides_by;
        let choices = policy.value.policy.partition.0.iter().chain(chooser);
        for param in lacking_params(choices, path) {
            let instead = match use_.span {
                Some(_) => "give the route another policy".to_owned(),
                None => format!("set `default_policies = false`: `{name}` is one of them"),
            };
            let message = format!(
                "policy `{name}` counts by `path:{param}`, which the route's path does not have"
            );
            let place = use_.span.as_ref().unwrap_or(pattern_place(table));
            let expected = format!("a route with `{{{param}}}` in its path");
            (self.report.mistake(place, message, expected))
                .hint(format!("name a segment `{{{param}}}`, or {instead}"));
        }
    }

    /// Refuses an upstream that hashes such a `path:PARAM`: requests of the route would go to any endpoint.
    fn check_hash(
        &mut self,
        table: &Table<RawRoute>,
        path: &PathPattern,
        upstream: &Table<RawUpstream>,
    ) {
        let hash = upstream.value.hash.iter().flat_map(|hash| &hash.0);
        for param in lacking_params(hash, path) {
            let name = &upstream.name;
            let message = format!(
                "upstream `{name}` hashes `path:{param}`, which the route's path does not have"
            );
            let place = table.value.upstream.as_ref().map(|at| &at.span);
            let expected = format!("a route with `{{{param}}}` in its path");
            (self
                .report
                .mistake(place.unwrap_or(pattern_place(table)), message, expected))
            .hint(format!(
                "name a segment `{{{param}}}`, or write `hash_by = [\"path:{param} | ip\"]`"
            ));
        }
    }
}

/// Yields the `path:PARAM`s that a path does not have, and that have no alternative.
fn lacking_params<'c>(
    choices: impl Iterator<Item = &'c Choice>,
    path: &PathPattern,
) -> impl Iterator<Item = &'c str> {
    let has = |part: &Part| match part {
        Part::PathParam(param) => path.params().contains(param),
        _ => true,
    };
    choices.filter_map(move |Choice(parts)| match parts.first()? {
        Part::PathParam(param) if !parts.iter().any(has) => Some(&**param),
        _ => None,
    })
}

/// Returns the fields that a route changes, if it changes any.
fn changes(route: &RawRoute) -> Option<Box<RouteChanges>> {
    let fields = |set: &[_], removed: &[Spanned<HeaderName>]| FieldChanges {
        set: set.to_vec(),
        remove: removed.iter().map(|at| at.value.clone()).collect(),
    };
    let changes = RouteChanges {
        request: fields(&route.request_headers_set, &route.request_headers_removed),
        response: fields(&route.response_headers_set, &route.response_headers_removed),
    };
    (changes != RouteChanges::default()).then(|| Box::new(changes))
}

fn rule(route: &RawRoute, path: Option<PathPattern>, report: &mut Report) -> Option<Rule> {
    let host = route.host.as_ref().map(|host| {
        let parsed = HostPattern::parse(&host.value);
        parsed.map_err(|error| {
            in_pattern(host, error, report);
        })
    });
    Some(Rule {
        host: host.transpose().ok()?,
        path: path?,
        methods: route.methods.iter().map(|at| at.value.clone()).collect(),
        headers: route.headers.clone(),
        case_insensitive: route.case_insensitive,
    })
}

fn path(table: &Table<RawRoute>, report: &mut Report) -> Option<PathPattern> {
    let route = &table.value;
    let (text, parsed) = match (&route.path, &route.path_regex) {
        (Some(_), Some(regex)) => {
            let message = "a route has both `path` and `path_regex`";
            (report.mistake(&regex.span, message, "one of them"))
                .hint("make it two routes, or remove one of them");
            return None;
        }
        (Some(path), None) => (path, PathPattern::parse(&path.value)),
        (None, Some(regex)) => {
            let case = if route.case_insensitive {
                Case::Any
            } else {
                Case::Exact
            };
            (regex, PathPattern::regex(&regex.value, case))
        }
        (None, None) => {
            if !is_incomplete(table) {
                let message = "a route has neither `path` nor `path_regex`";
                (report.mistake(&table.span, message, "a table with `path`"))
                    .hint("add `path = \"/*\"` to match every path");
            }
            return None;
        }
    };
    let parsed = parsed.map_err(|error| {
        in_pattern(text, error, report);
    });
    parsed.ok()
}

/// Returns the place of a route's path, or of the route if it has no path.
fn pattern_place(table: &Table<RawRoute>) -> &Range<usize> {
    let pattern = table.value.pattern();
    pattern.map_or(&table.span, |at| &at.span)
}

fn report_tie(file: &File, places: [usize; 2], report: &mut Report) {
    let [earlier, later] = places.map(|index| &file.routes[RouteIndex::from(index)]);
    let message = format!(
        "routes {} and {}, `{}` and `{}`, could tie: one request can match both, and neither is more specific",
        places[0] + 1,
        places[1] + 1,
        redacted(&earlier.name),
        redacted(&later.name)
    );
    let expected = "a route that is more specific, or that matches different requests";
    (report.mistake(pattern_place(later), message, expected))
        .hint("remove one, or tell them apart by `host`, `methods` or `headers`");
}
