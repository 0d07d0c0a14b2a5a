//! The ranks of rules, spelled out.

use std::cmp::Reverse;

use super::super::pattern::{Element, PathShape};
use super::super::rank::RankWithinPath;
use super::super::{HostPattern, Rule};

/// How specific a rule is; the smaller rank wins. Fields are in order of weight.
///
/// A [`RouteTree`](super::super::tree::RouteTree) embodies this order; here it is spelled out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    host: HostRank,
    /// Ranks of the segments from the left. A pattern that ends comes before one that goes on with `*`.
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
    /// An expression, by its place in the file.
    Regex(usize),
    Rest,
}

impl Rank {
    /// Ranks the rule at `index` of the file.
    pub(super) fn of(rule: &Rule, index: usize) -> Self {
        Self {
            host: HostRank::of(rule.host.as_ref()),
            path: match &rule.path.shape {
                PathShape::Regex(_) => vec![SegmentRank::Regex(index)],
                PathShape::Elements(elements) => elements.iter().map(SegmentRank::of).collect(),
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
