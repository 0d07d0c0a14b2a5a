//! A request's target: what the client sent, what was matched, and what is forwarded.
//!
//! [`path`] normalises the path. What is forwarded is what was matched, except that a prefix may be
//! stripped. The query is passed on as it came; a fragment is not even read.

use http::Uri;
use http::uri::PathAndQuery;

use super::path::{self, BadPath, Normalised};

/// Normalises the path, which can grow; a path that no longer fits a target is refused.
pub(crate) fn normalise(target: &Uri) -> Result<Normalised<'_>, BadPath> {
    let path = path::normalise(target.path())?;
    let query_bytes = target.query().map_or(0, |query| "?".len() + query.len());
    if path.as_str().len() + query_bytes > TARGET_BYTES_MAX {
        return Err(BadPath::Length);
    }
    Ok(path)
}

/// Makes the origin-form target that is forwarded: the path that was matched, and the query.
pub(crate) fn outgoing(target: &Uri, path: &str, strip_prefix: Option<&str>) -> Uri {
    let stripped = strip_prefix.map_or(path, |prefix| strip(path, prefix));
    let path_and_query = match (stripped, target.query()) {
        // An absolute target may have no path at all, and would be forwarded without one.
        ("/", None) => PathAndQuery::from_static("/"),
        (_, query) => {
            let as_it_came = target.path_and_query().filter(|it| it.path() == stripped);
            as_it_came.cloned().unwrap_or_else(|| {
                let query = query.map_or(String::new(), |query| format!("?{query}"));
                PathAndQuery::try_from(format!("{stripped}{query}"))
                    .expect("a normalised path and a parsed query make a target")
            })
        }
    };
    Uri::from(path_and_query)
}

/// Removes as many segments from `path` as `prefix` has: the route may have matched them in another
/// spelling.
fn strip<'p>(path: &'p str, prefix: &str) -> &'p str {
    let segments = prefix.matches('/').count();
    path.match_indices('/')
        .nth(segments)
        .map_or("/", |(slash, _)| &path[slash..])
}

/// Most bytes of a path and its query that [`Uri`] holds.
pub(crate) const TARGET_BYTES_MAX: usize = 65_534;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forwarded_is_what_was_matched() {
        for (target, strip_prefix, expected) in [
            ("/", None, "/"),
            ("/a/../b?c=/../d", None, "/b?c=/../d"),
            ("/a?", None, "/a?"),
            ("/?", None, "/?"),
            ("http://a", None, "/"),
            ("http://a?b", None, "/?b"),
            ("http://a#b", None, "/"),
            ("http://a/#b", None, "/"),
            ("/a#b", None, "/a"),
            ("/a?b#c", None, "/a?b"),
            ("/api/x", Some("/api"), "/x"),
            ("/api", Some("/api"), "/"),
            ("/api/", Some("/api"), "/"),
            ("/api?x", Some("/api"), "/?x"),
            ("/api//x", Some("/api"), "/x"),
            ("/api/%2e//../api/x", Some("/api"), "/x"),
            ("/api/..%2e", Some("/api"), "/..."),
            ("/api/%2Fx", Some("/api"), "/%2Fx"),
            ("/a%3Ab/c/d", Some("/a:b/c"), "/d"),
        ] {
            let uri: Uri = target.parse().expect(target);
            let path = normalise(&uri).expect(target);
            let forwarded = outgoing(&uri, path.as_str(), strip_prefix);
            assert_eq!(forwarded.to_string(), expected, "{target}");
            assert_eq!((forwarded.scheme(), forwarded.authority()), (None, None));
        }
    }
}
