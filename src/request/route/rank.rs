//! Which of two rules that match a request wins, and which pairs nothing can tell apart.

use std::cmp::Reverse;

use http::Method;

use super::pattern::{Element, Shape};
use super::{HostPattern, Rule};

/// How specific a rule is; the smaller rank wins. Fields are in order of weight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    host: HostRank,
    /// Segment by segment from the left. A pattern that ends is before one that goes on with `*`.
    path: Vec<SegmentRank>,
    within: RankWithinPath,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HostRank {
    Exact,
    Wildcard { length: Reverse<usize> },
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SegmentRank {
    Literal,
    Param,
    /// By place in the file.
    Regex(usize),
    Rest,
}

/// How specific a rule is among those of the same host and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankWithinPath {
    methods: MethodsRank,
    headers: Reverse<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MethodsRank {
    Given,
    All,
}

impl Rank {
    /// Ranks the rule at `index` of the file.
    ///
    /// A [`Tree`](super::tree::Tree) embodies this order; the oracle of its test sorts by it.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the tree embodies what this spells out")
    )]
    pub(super) fn of(rule: &Rule, index: usize) -> Self {
        Self {
            host: HostRank::of(rule.host.as_ref()),
            path: match &rule.path.shape {
                Shape::Regex(_) => vec![SegmentRank::Regex(index)],
                Shape::Elements(elements) => elements.iter().map(SegmentRank::of).collect(),
            },
            within: RankWithinPath::of(rule),
        }
    }
}

impl HostRank {
    fn of(host: Option<&HostPattern>) -> Self {
        match host {
            None => Self::Any,
            Some(host) if host.is_wildcard() => Self::Wildcard {
                length: Reverse(host.name().len()),
            },
            Some(_) => Self::Exact,
        }
    }
}

impl SegmentRank {
    fn of(element: &Element) -> Self {
        match element {
            Element::Literal(_) => Self::Literal,
            Element::Param => Self::Param,
            Element::Rest => Self::Rest,
        }
    }
}

impl RankWithinPath {
    pub(super) fn of(rule: &Rule) -> Self {
        Self {
            methods: match rule.methods.as_slice() {
                [] => MethodsRank::All,
                _ => MethodsRank::Given,
            },
            headers: Reverse(rule.headers.len()),
        }
    }
}

/// Says whether one request can match both rules, whose hosts are the same and whose paths differ in case at most.
pub(super) fn overlap(a: &Rule, b: &Rule) -> bool {
    let same_path = a.case_insensitive
        || b.case_insensitive
        || match (&a.path.shape, &b.path.shape) {
            (Shape::Elements(a), Shape::Elements(b)) => a == b,
            _ => false,
        };
    same_path && methods_overlap(&a.methods, &b.methods) && headers_overlap(a, b)
}

fn methods_overlap(a: &[Method], b: &[Method]) -> bool {
    let includes = |all: &[Method], method: &Method| all.iter().any(|m| claims(m, method));
    a.is_empty()
        || b.is_empty()
        || a.iter().any(|method| includes(b, method))
        || b.iter().any(|method| includes(a, method))
}

/// Says whether a rule that names `named` takes requests of `method`, or refuses them for their case.
pub(super) fn claims(named: &Method, method: &Method) -> bool {
    let sent = method.as_str();
    sent.eq_ignore_ascii_case(named.as_str())
        || (named == Method::GET && sent.eq_ignore_ascii_case("HEAD"))
}

fn headers_overlap(a: &Rule, b: &Rule) -> bool {
    !a.headers.iter().any(|(name, value)| {
        value.is_some() && (b.headers.iter()).any(|(n, v)| n == name && v.is_some() && v != value)
    })
}
