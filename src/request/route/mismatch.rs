//! Why routes do not take a request: explanations for operators, which no request needs.

use http::{HeaderMap, HeaderName, Method};

use super::Router;
use super::leaf::has_header;
use super::rule::Rule;
use crate::index::RouteIndex;
use crate::request::path;

/// The first thing that a rule asks for and a request does not have; the closer the rule is to a match, the greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// The host does not match.
    Host,
    /// The path does not match.
    Path {
        /// How many segments of the pattern match, from the left.
        segments: usize,
    },
    /// The method does not match.
    Method,
    /// The method differs from one of the rule's only in case.
    MethodCase,
    /// A header has another value, or several.
    HeaderValue(Box<str>),
    /// A header is missing.
    NoHeader(Box<str>),
    /// The rule takes the request, but a more specific one does too.
    LessSpecific,
}

impl Router {
    /// Returns, for each rule except that of `found`, why it does not take a request, in file order. `host` is in lower
    /// case without port, and `path` is normalised.
    pub fn mismatches(
        &self,
        found: Option<RouteIndex>,
        host: &str,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Vec<(RouteIndex, Mismatch)> {
        let compared = path::comparable(path);
        let rules = (self.rules.iter().enumerate()).map(|(index, rule)| (index.into(), rule));
        rules
            .filter(|(index, _)| Some(*index) != found)
            .map(|(index, rule)| (index, rule.mismatch(host, method, &compared, headers)))
            .collect()
    }
}

impl Rule {
    /// Returns the first thing that the rule asks for and a request does not have; `path` is in its comparable
    /// spelling.
    pub(super) fn mismatch(
        &self,
        host: &str,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Mismatch {
        if !self.host.as_ref().is_none_or(|own| own.takes(host)) {
            return Mismatch::Host;
        }
        if !self.path.matches(path, self.case_insensitive) {
            let segments = self.path.leading_segments(path, self.case_insensitive);
            return Mismatch::Path { segments };
        }
        if !self.takes_method(method) {
            return if self.claims_method(method) {
                Mismatch::MethodCase
            } else {
                Mismatch::Method
            };
        }
        let lacks = |(name, asked): &&(HeaderName, _)| !has_header(headers, name, asked);
        match self.headers.iter().find(lacks) {
            None => Mismatch::LessSpecific,
            Some((name, _)) if headers.contains_key(name) => {
                Mismatch::HeaderValue(name.as_str().into())
            }
            Some((name, _)) => Mismatch::NoHeader(name.as_str().into()),
        }
    }
}
