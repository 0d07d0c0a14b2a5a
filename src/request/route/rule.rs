//! What a route asks of a request, and the result of a lookup.

use std::ops::Range;

use http::{HeaderName, Method};
use smallvec::SmallVec;

use super::header_match::HeaderMatch;
use super::host::HostPattern;
use super::pattern::PathPattern;
use crate::index::RouteIndex;
use crate::request::path;

/// What a route of the file asks of a request.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The path's pattern.
    pub path: PathPattern,
    /// The host's pattern; `None` matches every host.
    pub host: Option<HostPattern>,
    /// Methods that match; if the list is empty, all do. `GET` includes `HEAD`.
    pub methods: Vec<Method>,
    /// Headers that must be there, each with the values that match.
    pub headers: Vec<(HeaderName, HeaderMatch)>,
    /// Whether the path matches in any (ASCII) case; an expression has its [`Case`](super::Case) already.
    pub case_insensitive: bool,
}

/// Two rules of equal rank that one request can both match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// Index of the earlier rule.
    pub first: usize,
    /// Index of the later rule.
    pub second: usize,
}

/// What [`Router::find`](super::Router::find) answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The most specific rule that matches.
    Found(Found),
    /// No rule matches: 404.
    NoRoute,
    /// The rule would match if the method were in its right case: 400.
    MethodCase,
}

/// The route of a request, and where its parameters are in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The index of the rule, which is that of its route.
    pub route: RouteIndex,
    /// Byte ranges of the normalised path that hold the values of `{param}`s, in the pattern's order.
    pub params: SmallVec<[Range<usize>; 4]>,
}

impl Rule {
    /// Whether a normalised path matches, regardless of the rest of the request.
    pub(super) fn takes_path(&self, path: &str) -> bool {
        (self.path).matches(&path::comparable(path), self.case_insensitive)
    }
}
