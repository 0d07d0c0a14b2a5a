//! Which route a request takes: precedence is an `Ord`.
//!
//! A rank (`rank`) says which of two rules that both match a request wins; the tree of each host (`tree`) tries rules
//! in that order, so the first that matches is the answer. Trees are keyed by host: the exact name, then the longest
//! wildcard, then the rules for any host. A lookup allocates nothing unless the path has an escape that is decoded for
//! comparison, such as `%3A`, or a long segment where case is ignored.

mod as_sent;
mod broader;
mod expressions;
mod header_match;
mod host;
mod host_trees;
mod leaf;
mod mismatch;
mod other_routers;
mod pattern;
mod pattern_error;
mod rank;
mod regex;
mod rule;
mod template;
mod tree;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use http::{HeaderMap, HeaderName, Method};

pub use self::header_match::HeaderMatch;
pub use self::host::HostPattern;
use self::host_trees::HostTrees;
pub use self::mismatch::Mismatch;
pub use self::pattern::PathPattern;
pub use self::pattern_error::PatternError;
pub use self::regex::Case;
pub use self::rule::{Found, Lookup, Rule, Tie};
pub use self::template::PathTemplate;
pub(super) use self::template::after_segments;
use self::tree::{RouteQuery, RouteTree};
use super::path;

/// Finds the route of a request.
#[derive(Debug, Default)]
pub struct Router {
    rules: Vec<Rule>,
    /// Names of the headers that rules ask for, each once.
    header_names: Vec<HeaderName>,
    exact_hosts: HostTrees,
    /// The trees of wildcard hosts, by the name after `*.`.
    wildcard_hosts: HostTrees,
    any_host: RouteTree,
}

impl Router {
    /// Builds a router over `rules`.
    ///
    /// # Errors
    /// Rules that could tie: each later rule once, with the first one that it ties with.
    pub fn new(rules: Vec<Rule>) -> Result<Self, Vec<Tie>> {
        let mut by_host: HashMap<Option<&HostPattern>, Vec<usize>> = HashMap::new();
        for (index, rule) in rules.iter().enumerate() {
            by_host.entry(rule.host.as_ref()).or_default().push(index);
        }
        let mut router = Self::default();
        let mut ties = Vec::new();
        for (host, members) in by_host {
            let tree = RouteTree::new(&rules, &members, &mut ties);
            match host {
                None => router.any_host = tree,
                Some(host) if host.is_wildcard() => {
                    router.wildcard_hosts.insert(host.name(), tree);
                }
                Some(host) => {
                    router.exact_hosts.insert(host.name(), tree);
                }
            }
        }
        if ties.is_empty() {
            let names = rules.iter().flat_map(|rule| &rule.headers);
            let names: HashSet<_> = names.map(|(name, _)| name.clone()).collect();
            router.header_names = names.into_iter().collect();
            router.rules = rules;
            Ok(router)
        } else {
            ties.sort_unstable_by_key(|tie| (tie.second, tie.first));
            Err(ties)
        }
    }

    /// Finds the most specific rule that matches. `host` is in lower case without port, and `path` is normalised.
    pub fn find(&self, host: &str, method: &Method, path: &str, headers: &HeaderMap) -> Lookup {
        if !path.starts_with('/') {
            return Lookup::NoRoute;
        }
        let compared = path::comparable(path);
        let request = RouteQuery::new(&compared, method, headers);
        let find = |tree: &RouteTree| tree.find(&self.rules, &request);
        let mut lookup = (self.exact_hosts.get(host).and_then(find))
            .or_else(|| self.wildcard_hosts.above(host).find_map(find))
            .or_else(|| find(&self.any_host))
            .unwrap_or(Lookup::NoRoute);
        if let (Cow::Owned(_), Lookup::Found(found)) = (&compared, &mut lookup) {
            for range in &mut found.params {
                *range = path::offset_in(path, range.start)..path::offset_in(path, range.end);
            }
        }
        lookup
    }

    /// Whether the encoded slashes of a path hide another route's path: an origin that decodes them would serve what
    /// the other route limits.
    ///
    /// A route that also takes the path as it is does not count: it is less specific, and the found route is an
    /// exception from it.
    pub fn hides_another(
        &self,
        found: &Found,
        host: &str,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> bool {
        let decoded = path::with_slashes_decoded(path);
        let lookup = self.find(host, method, &decoded, headers);
        self.is_for_another(&lookup, found, path)
    }

    /// Whether `decoded`, the result for the path with its slashes decoded, is another route, which does not take the
    /// path as it is.
    fn is_for_another(&self, decoded: &Lookup, found: &Found, path: &str) -> bool {
        match decoded {
            Lookup::Found(other) => {
                other.route != found.route && !self.rules[usize::from(other.route)].takes_path(path)
            }
            Lookup::MethodCase => true,
            Lookup::NoRoute => false,
        }
    }

    /// Returns the value of the found route's parameter with this name.
    pub fn param<'p>(&self, found: &Found, name: &str, path: &'p str) -> Option<&'p str> {
        let params = self.rules.get(usize::from(found.route))?.path.params();
        let index = params.iter().position(|param| &**param == name)?;
        path.get(found.params.get(index)?.clone())
    }

    /// Whether the found route names this method.
    pub fn names_method(&self, found: &Found, method: &Method) -> bool {
        let rule = self.rules.get(usize::from(found.route));
        rule.is_some_and(|rule| rule.methods.contains(method))
    }

    /// Returns the names of the headers that rules ask for, each once.
    pub fn header_names(&self) -> &[HeaderName] {
        &self.header_names
    }

    /// Whether the found route ignores case, so that one path has many spellings.
    pub(super) fn ignores_case(&self, found: &Found) -> bool {
        (self.rules.get(usize::from(found.route))).is_some_and(|rule| rule.case_insensitive)
    }
}
