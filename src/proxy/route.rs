//! Which route a request takes: precedence is an `Ord`.

use http::{HeaderMap, HeaderName, Method};
use smallvec::SmallVec;
use std::ops::Range;

/// Finds the route of a request.
#[derive(Debug, Default)]
pub struct Router {}

/// What a route of the file asks of a request.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The path's pattern.
    pub path: PathPattern,
    /// The host's pattern; none matches every host.
    pub host: Option<HostPattern>,
    /// Methods that match; none given matches all; `GET` includes `HEAD`.
    pub methods: Vec<Method>,
    /// Headers that must be there, with this value if one is given.
    pub headers: Vec<(HeaderName, Option<String>)>,
    /// Whether literal segments match in any case.
    pub case_insensitive: bool,
}

/// A path's pattern, parsed.
#[derive(Clone, Debug)]
pub struct PathPattern {}

/// A host's pattern, parsed: exact or `*.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {}

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Bytes of the pattern's text it points at.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What was expected there.
    pub expected: String,
}

/// Two rules of equal rank that one request can both match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// Index of the earlier rule.
    pub first: usize,
    /// Index of the later rule.
    pub second: usize,
}

/// The route of a request, and where its parameters lie in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Index of the rule.
    pub route: usize,
    /// The values of `{param}`s, in the pattern's order, as byte ranges of the normalised path.
    pub params: SmallVec<[Range<usize>; 4]>,
}

impl PathPattern {
    /// Parses `path`: literal segments, `{param}`s, and a last segment `*`.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let _ = text;
        unimplemented!()
    }
    /// Parses `path_regex`: matched against the whole normalised path.
    pub fn regex(text: &str) -> Result<Self, PatternError> {
        let _ = text;
        unimplemented!()
    }
    /// The names of its `{param}`s, in order.
    pub fn params(&self) -> &[Box<str>] {
        unimplemented!()
    }
}

impl HostPattern {
    /// Parses `host`.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let _ = text;
        unimplemented!()
    }
}

impl Router {
    /// Builds a router over `rules`; every tie is named.
    pub fn new(rules: Vec<Rule>) -> Result<Self, Vec<Tie>> {
        let _ = rules;
        Ok(Self {})
    }

    /// Finds the most specific rule that matches. `host` is lower case without port, `path` is normalised.
    pub fn find(
        &self,
        host: &str,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<Found> {
        let _ = (host, method, path, headers);
        None
    }

    /// Returns the value of a route's parameter of this name.
    pub fn param<'p>(&self, found: &Found, name: &str, path: &'p str) -> Option<&'p str> {
        let _ = (found, name, path);
        None
    }
}
