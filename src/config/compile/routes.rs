//! Routes: patterns become a router, names become indices, and no two routes may tie.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use super::names::{Names, PolicyUse};
use super::{defaults, policies};
use crate::config::file::{self, At, File};
use crate::config::report::{Mistake, Report};
use crate::config::words;
use crate::limit::plan::CHECKS_MAX;
use crate::request::route::{Case, HostPattern, PathPattern, PatternError, Router, Rule, Tie};
use crate::request::{Choice, Part};
use crate::snapshot::{AppliedPolicy, Route};

/// Compiles `[[routes]]`; what a mistake leaves too little of is left out.
pub(super) fn compile(file: &File, report: &mut Report) -> Routing {
    if file.routes.is_empty() && !file.incomplete {
        report.add(
            Mistake::at(0..0, "the file has no route")
                .expected("at least one `[[routes]]`")
                .hint("add `[[routes]]` with `path = \"/*\"` and an `upstream`"),
        );
    }
    let names = Names::of(file);
    let mut by_default = names.policies(&file.default_policies, report);
    for policy in &mut by_default {
        policy.span = None;
    }
    let mut routes = Vec::new();
    let mut rules = Vec::new();
    let mut places = Vec::new();
    for (index, at) in file.routes.iter().enumerate() {
        let path = path(at, report);
        routes.extend(one(file, &names, at, path.as_ref(), &by_default, report));
        // A rule whose upstream is unknown can still tie; one that lacks a part would tie falsely.
        if let Some(rule) = rule(&at.value, path, report).filter(|_| !at.value.incomplete) {
            rules.push(rule);
            places.push(index);
        }
    }
    number_equal_names(&mut routes);
    Routing {
        routes,
        router: Router::new(rules).unwrap_or_else(|ties| {
            for tie in ties {
                report.add(tied(file, &places, tie));
            }
            Router::default()
        }),
    }
}

/// The routes of a file, and what finds them.
pub(super) struct Routing {
    pub(super) routes: Vec<Route>,
    /// Answers an index into `routes`.
    pub(super) router: Router,
}

fn one(
    file: &File,
    names: &Names<'_>,
    at: &At<file::Route>,
    path: Option<&PathPattern>,
    by_default: &[PolicyUse],
    report: &mut Report,
) -> Option<Route> {
    let route = &at.value;
    let upstream = upstream(file, names, at, report);
    let strip_prefix = strip_prefix(route, report);
    let own = names.policies(&route.policies, report);
    let policies = applied(file, at, by_default, own, path, report);
    let upstream = upstream?;
    let origin = &file.upstreams[upstream].1;
    Some(Route {
        name: name(route).into(),
        policies,
        upstream,
        strip_prefix,
        preserve_host: route.preserve_host.unwrap_or(true),
        response_timeout: (route.response_timeout.or(origin.response_timeout))
            .unwrap_or(defaults::RESPONSE_TIMEOUT),
        body_timeout: (route.body_timeout.or(origin.body_timeout))
            .unwrap_or(defaults::UPSTREAM_BODY_TIMEOUT),
        max_body_bytes: route.max_body_bytes,
        encoded_slash: route.encoded_slash.unwrap_or_default(),
    })
}

fn rule(route: &file::Route, path: Option<PathPattern>, report: &mut Report) -> Option<Rule> {
    let host = route.host.as_ref().map(|host| {
        let parsed = HostPattern::parse(&host.value);
        parsed.map_err(|error| report.add(in_pattern(host, error)))
    });
    Some(Rule {
        host: host.transpose().ok()?,
        path: path?,
        methods: route.methods.iter().map(|at| at.value.clone()).collect(),
        headers: route.headers.clone(),
        case_insensitive: route.case_insensitive.unwrap_or_default(),
    })
}

fn path(at: &At<file::Route>, report: &mut Report) -> Option<PathPattern> {
    let route = &at.value;
    let (text, parsed) = match (&route.path, &route.path_regex) {
        (Some(_), Some(regex)) => {
            report.add(
                Mistake::at(
                    regex.span.clone(),
                    "a route has both `path` and `path_regex`",
                )
                .expected("one of them")
                .hint("make it two routes, or remove one of them"),
            );
            return None;
        }
        (Some(path), None) => (path, PathPattern::parse(&path.value)),
        (None, Some(regex)) => {
            let case = match route.case_insensitive {
                Some(true) => Case::Any,
                _ => Case::Exact,
            };
            (regex, PathPattern::regex(&regex.value, case))
        }
        (None, None) => {
            if !route.incomplete {
                report.add(
                    Mistake::at(
                        at.span.clone(),
                        "a route has neither `path` nor `path_regex`",
                    )
                    .expected("a table with `path`")
                    .hint("add `path = \"/*\"` to match every path"),
                );
            }
            return None;
        }
    };
    (parsed.map_err(|error| report.add(in_pattern(text, error)))).ok()
}

fn upstream(
    file: &File,
    names: &Names<'_>,
    at: &At<file::Route>,
    report: &mut Report,
) -> Option<usize> {
    let Some(name) = &at.value.upstream else {
        if !at.value.incomplete {
            let hint = match file.upstreams.as_slice() {
                [] => "add `[upstreams.api]`, and `upstream = \"api\"` here".to_owned(),
                [(name, _), ..] => format!("add `upstream = \"{}\"`", name.value),
            };
            report.add(
                Mistake::at(at.span.clone(), "a route lacks `upstream`")
                    .expected("a table with `upstream`")
                    .hint(hint),
            );
        }
        return None;
    };
    names.upstream(name, report)
}

/// Returns the policies of a route: the default ones, then its own, each once, none that is off.
fn applied(
    file: &File,
    at: &At<file::Route>,
    by_default: &[PolicyUse],
    own: Vec<PolicyUse>,
    path: Option<&PathPattern>,
    report: &mut Report,
) -> Vec<AppliedPolicy> {
    let route = &at.value;
    let mut uses = match route.default_policies {
        Some(false) => Vec::new(),
        _ => by_default.to_vec(),
    };
    for policy in own {
        match uses.iter_mut().find(|use_| use_.policy == policy.policy) {
            Some(default) => default.span = policy.span,
            None => uses.push(policy),
        }
    }
    uses.retain(|use_| file.policies[use_.policy].1.mode != Some(file::Mode::Off));
    check_quotas(file, at, &uses, report);
    if let Some(path) = path {
        for use_ in &uses {
            check_params(file, at, path, use_, report);
        }
    }
    let applied = uses.iter().map(|use_| {
        let cost = (route.cost.as_ref()).or(file.policies[use_.policy].1.cost.as_ref());
        AppliedPolicy {
            policy: use_.policy,
            cost: cost.map_or(defaults::COST, |at| at.value),
        }
    });
    applied.collect()
}

/// A request spends all quotas of its route in one step, which has its bound.
fn check_quotas(file: &File, at: &At<file::Route>, uses: &[PolicyUse], report: &mut Report) {
    let quotas = |use_: &PolicyUse| {
        let quota = file.policies[use_.policy].1.quota.as_ref();
        quota.map_or(0, |quotas| quotas.value.len())
    };
    let count: usize = uses.iter().map(quotas).sum();
    if count > CHECKS_MAX {
        let message = format!("the route's policies have {count} quotas");
        report.add(
            Mistake::at(at.span.clone(), message)
                .expected(format!(
                    "at most {CHECKS_MAX} quotas, those of default policies among them"
                ))
                .hint("of several quotas the shortest and the longest window matter most"),
        );
    }
}

/// A partition's `path:PARAM` must be in the path, unless an alternative to it can be there.
fn check_params(
    file: &File,
    at: &At<file::Route>,
    path: &PathPattern,
    use_: &PolicyUse,
    report: &mut Report,
) {
    let (name, policy) = &file.policies[use_.policy];
    let has = |part: &Part| match part {
        Part::PathParam(param) => path.params().contains(param),
        _ => true,
    };
    for Choice(parts) in policies::partition(policy).0 {
        let Some(Part::PathParam(param)) = parts.first().filter(|_| !parts.iter().any(has)) else {
            continue;
        };
        let written = at.value.path.as_ref().or(at.value.path_regex.as_ref());
        let whole = written.map_or(&at.span, |path| &path.span);
        let hint = match use_.span {
            Some(_) => format!("call a segment `{{{param}}}`, or give the route another policy"),
            None => format!(
                "call a segment `{{{param}}}`, or set `default_policies = false`: `{}` is one of them",
                name.value
            ),
        };
        report.add(
            Mistake::at(
                (use_.span.as_ref().unwrap_or(whole)).clone(),
                format!(
                    "policy `{}` counts by `path:{param}`, which the route's path does not have",
                    name.value
                ),
            )
            .expected(format!("a route with `{{{param}}}` in its path"))
            .hint(hint),
        );
    }
}

/// What is stripped must be whole literal segments at the path's beginning.
fn strip_prefix(route: &file::Route, report: &mut Report) -> Option<Box<str>> {
    let prefix = route.strip_prefix.as_ref()?;
    let mut refuse = |message: String, hint: Option<String>| {
        let expected = "the literal segments that the path begins with";
        report.add(
            Mistake::at(prefix.span.clone(), message)
                .expected(expected)
                .maybe_hint(hint),
        );
    };
    let stripped = prefix.value.trim_end_matches('/');
    if !stripped.starts_with('/') {
        refuse(
            format!("`strip_prefix` of `{}` strips no segment", prefix.value),
            None,
        );
        return None;
    }
    let Some(path) = &route.path else {
        if !route.incomplete {
            refuse(
                "`strip_prefix` needs `path`: a regular expression has no literal segments"
                    .to_owned(),
                None,
            );
        }
        return None;
    };
    let literal: Vec<&str> = (path.value.split('/').skip(1))
        .take_while(|segment| !segment.is_empty() && *segment != "*" && !segment.contains('{'))
        .collect();
    let segments: Vec<&str> = stripped.split('/').skip(1).collect();
    if !literal.starts_with(&segments) {
        let hint =
            (!literal.is_empty()).then(|| format!("`/{}` can be stripped", literal.join("/")));
        refuse(
            format!("the path `{}` does not begin with `{stripped}`", path.value),
            hint,
        );
    }
    Some(stripped.into())
}

/// Names a route in log and metrics: methods, host and path as the file has them, but for control
/// characters, which an expression may have.
fn name(route: &file::Route) -> String {
    let mut name = String::new();
    let methods: Vec<&str> = route.methods.iter().map(|at| at.value.as_str()).collect();
    if !methods.is_empty() {
        let _ = write!(name, "{} ", methods.join(","));
    }
    for text in [&route.host, &route.path, &route.path_regex]
        .into_iter()
        .flatten()
    {
        for character in text.value.chars() {
            if character.is_control() {
                name.extend(character.escape_default());
            } else {
                name.push(character);
            }
        }
    }
    // A header's value can be a secret and stays out of labels.
    if !route.headers.is_empty() {
        let names = route.headers.iter().map(|(name, _)| name.to_string());
        let _ = write!(name, " {}", words::list(names));
    }
    name
}

/// Tells routes apart that differ only in what a name leaves out: `/a [x-version] #2`.
fn number_equal_names(routes: &mut [Route]) {
    let mut taken: HashSet<Arc<str>> = HashSet::with_capacity(routes.len());
    let mut numbers: HashMap<Arc<str>, usize> = HashMap::new();
    for route in routes {
        if !taken.insert(Arc::clone(&route.name)) {
            let base = Arc::clone(&route.name);
            let number = numbers.entry(Arc::clone(&base)).or_insert(1);
            while !taken.insert(Arc::clone(&route.name)) {
                *number += 1;
                route.name = format!("{base} #{number}").into();
            }
        }
    }
}

fn tied(file: &File, places: &[usize], tie: Tie) -> Mistake {
    let (first, second) = (places[tie.first], places[tie.second]);
    let later = &file.routes[second];
    let written = later
        .value
        .path
        .as_ref()
        .or(later.value.path_regex.as_ref());
    Mistake::at((written.map_or(&later.span, |path| &path.span)).clone(), format!(
            "the {} and the {} route, `{}` and `{}`, could tie: one request can match both, and neither is more specific",
            ordinal(first + 1),
            ordinal(second + 1),
            name(&file.routes[first].value),
            name(&later.value)
        )).expected("a route that is more specific, or matches other requests").hint("remove one, or tell them apart by `host`, `methods` or `headers`")
}

fn ordinal(number: usize) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

/// Places a pattern's mistake in the file: at its bytes, if the text is written there as it is.
fn in_pattern(text: &At<String>, error: PatternError) -> Mistake {
    // Quotes are one byte each; escapes and variables make the two lengths differ.
    let plain = text.span.len() == text.value.len() + 2;
    let span: Range<usize> = if plain {
        let start = text.span.start + 1;
        start + error.span.start..start + error.span.end
    } else {
        text.span.clone()
    };
    Mistake::at(span.clone(), error.message).expected(error.expected)
}
