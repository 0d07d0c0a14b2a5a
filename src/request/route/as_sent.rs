//! Paths that are forwarded as they were sent, with the segments that their normal form leaves out.
//!
//! Origins read such a path in different ways: some take every segment literally, as object stores do, others resolve
//! dot segments, merge slashes, or do both, in either order. An origin that parses the path as a URL takes the text
//! after `//` at its beginning for a host. Any of them may take encoded slashes for slashes first. A path passes if
//! every reading finds the route by which the request was decided, and the same parameters; the text that `*` matches
//! may differ.

use http::{HeaderMap, Method};

use super::Router;
use super::rule::{Found, Lookup};
use crate::request::path::{self, Normalised};

impl Router {
    /// Whether an origin that gets the path as it was sent could take it for another route's, or for one with other
    /// parameters. With encoded slashes decoded, the path may also have no route, or a route that takes the normalised
    /// path too ([`hides_another`](Self::hides_another)).
    pub fn leads_elsewhere(
        &self,
        found: &Found,
        host: &str,
        method: &Method,
        path: &Normalised<'_>,
        headers: &HeaderMap,
    ) -> bool {
        let matched = path.as_str();
        if path.sent() == matched && !path.has_encoded_slash() {
            return false;
        }
        let whole = path::with_all_segments(path.sent());
        let find = |reading: &str| self.find(host, method, reading, headers);
        let leads_elsewhere = |reading: &String| match find(reading) {
            Lookup::Found(other) => {
                other.route != found.route || !params(&other, reading).eq(params(found, matched))
            }
            Lookup::NoRoute | Lookup::MethodCase => true,
        };
        let decoded = path
            .has_encoded_slash()
            .then(|| whole.replace("%2F", "/").replace("%5C", "/"));
        let hides_another = |decoded: String| {
            let mut readings = readings(decoded).into_iter();
            readings.any(|reading| self.is_for_another(&find(&reading), found, matched))
        };
        readings(whole).iter().any(leads_elsewhere) || decoded.is_some_and(hides_another)
    }
}

/// Returns the values of the parameters that `found` has in `path`.
fn params<'f>(found: &'f Found, path: &'f str) -> impl Iterator<Item = &'f str> {
    found.params.iter().map(|range| &path[range.clone()])
}

/// Returns the paths that origins may read a path as; for most paths they are all the same.
fn readings(path: String) -> Vec<String> {
    let behind_host = [behind_host(&path), behind_host(&resolved(&path))];
    let paths = std::iter::once(path).chain(behind_host.into_iter().flatten());
    let mut readings: Vec<_> = paths.flat_map(in_every_order).collect();
    readings.dedup();
    readings
}

/// Returns the path with dot segments resolved, slashes merged, both in either order, and neither.
fn in_every_order(path: String) -> [String; 5] {
    let (resolved, merged) = (resolved(&path), path::merged(&path));
    [
        self::resolved(&merged),
        path::merged(&resolved),
        resolved,
        merged,
        path,
    ]
}

/// Returns the path that a URL parser finds after the host, if the path begins like one with a host.
fn behind_host(path: &str) -> Option<String> {
    let host = path.strip_prefix("//")?.trim_start_matches('/');
    let path = host.find('/').map_or("/", |end| &host[end..]);
    Some(path.to_owned())
}

/// Resolves dot segments; `..` removes an empty segment like any other.
fn resolved(path: &str) -> String {
    let mut kept = Vec::new();
    let mut last = "";
    for segment in path.split('/').skip(1) {
        last = segment;
        match segment {
            "." => {}
            ".." => _ = kept.pop(),
            name => kept.push(name),
        }
    }
    if kept.is_empty() || matches!(last, "." | "..") {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests;
