//! A request's target: what the client sent, what was matched, and what is forwarded.
//!
//! [`path`] normalises the path. What is forwarded is what was matched, unless the route changes it, or wants
//! it as it was sent ([`PathChange`]). The query is passed on as it came; a fragment is not even read.

use std::borrow::Cow;

use http::Uri;
use http::uri::PathAndQuery;

use super::path::{self, BadPath, Normalised};
use super::route::{Found, PathTemplate};
use super::stripped_prefix::StrippedPrefix;

/// What a route does to a path before it is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PathChange {
    /// Nothing.
    #[default]
    None,
    /// It strips as many segments as this has.
    Strip(Box<StrippedPrefix>),
    /// It fills this.
    Rewrite(PathTemplate),
    /// It forwards the path as it was sent, and not as it was matched. Only a path passes that leads nowhere
    /// else ([`leads_elsewhere`](super::route::Router::leads_elsewhere)).
    AsSent,
}

/// Normalises the path, which can grow; a path that no longer fits a target is refused.
pub(crate) fn normalise(target: &Uri) -> Result<Normalised<'_>, BadPath> {
    let path = path::normalise(target.path())?;
    check_length(path.as_str(), target)?;
    Ok(path)
}

/// Returns the path that is forwarded of the one that was matched; a path that no longer fits a target
/// is refused.
pub(crate) fn changed<'p>(
    target: &Uri,
    path: &'p Normalised<'_>,
    change: &PathChange,
    found: &Found,
) -> Result<Cow<'p, str>, BadPath> {
    let (path, sent) = (path.as_str(), path.sent());
    match change {
        PathChange::None => Ok(Cow::Borrowed(path)),
        PathChange::Strip(prefix) => Ok(Cow::Borrowed(prefix.strip(path))),
        PathChange::AsSent => Ok(Cow::Borrowed(sent)),
        PathChange::Rewrite(template) => {
            let path = template.fill(path, found);
            check_length(&path, target)?;
            Ok(Cow::Owned(path))
        }
    }
}

/// Makes the origin-form target that is forwarded: `path`, normalised or as it came, and the query of `target`.
pub(crate) fn outgoing(target: &Uri, path: &str) -> Uri {
    let path_and_query = match (path, target.query()) {
        // An absolute target may have no path at all, and would be forwarded without one.
        ("/", None) => PathAndQuery::from_static("/"),
        (_, query) => {
            let as_it_came = target
                .path_and_query()
                .filter(|path_and_query| path_and_query.path() == path);
            as_it_came.cloned().unwrap_or_else(|| {
                let query = query.map_or(String::new(), |query| format!("?{query}"));
                PathAndQuery::try_from(format!("{path}{query}"))
                    .expect("a normalised path and a parsed query make a target")
            })
        }
    };
    Uri::from(path_and_query)
}

fn check_length(path: &str, target: &Uri) -> Result<(), BadPath> {
    let query_bytes = target.query().map_or(0, |query| "?".len() + query.len());
    if path.len() + query_bytes > TARGET_BYTES_MAX {
        return Err(BadPath::Length);
    }
    Ok(())
}

/// Most bytes of a path and its query that [`Uri`] holds.
pub(crate) const TARGET_BYTES_MAX: usize = 65_534;

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;

    use super::super::route::PathPattern;
    use super::*;

    fn found() -> Found {
        Found {
            route: 0.into(),
            params: SmallVec::new(),
        }
    }

    #[test]
    fn a_rewritten_target_keeps_its_query_and_fits() {
        let pattern = PathPattern::parse("/a/*").expect("a pattern");
        let template = PathTemplate::parse("/longer/*", &pattern).expect("a template");
        let change = PathChange::Rewrite(template);
        let rewritten = |target: &str| -> Result<String, BadPath> {
            let uri: Uri = target.parse().expect("a target");
            let path = normalise(&uri).expect("it fits as it came");
            let path = changed(&uri, &path, &change, &found())?;
            Ok(outgoing(&uri, &path).to_string())
        };
        for (target, expected) in [
            ("/a/b?c=/a/d", "/longer/b?c=/a/d"),
            ("/a/b?", "/longer/b?"),
            ("/a?x", "/longer?x"),
            ("http://h/a/./b#f", "/longer/b"),
        ] {
            assert_eq!(rewritten(target).as_deref(), Ok(expected), "{target}");
        }
        let grown = "/longer".len() - "/a".len();
        for (bytes, fits) in [(TARGET_BYTES_MAX - grown, true), (TARGET_BYTES_MAX, false)] {
            let target = format!("/a/{}?{}", "b".repeat(100), "c".repeat(bytes - 104));
            assert_eq!(rewritten(&target).is_ok(), fits);
        }
    }

    #[test]
    fn a_target_is_forwarded_as_it_was_sent_where_the_route_wants_that() {
        for (target, expected) in [
            ("/a//b", "/a//b"),
            ("/a/./b/../c?d=/../e", "/a/./b/../c?d=/../e"),
            ("/a%7e%2fb+c%2B%20d;e:f", "/a%7e%2fb+c%2B%20d;e:f"),
            ("/%61/", "/%61/"),
            ("http://a", "/"),
            ("http://a?b", "/?b"),
            ("http://a//b#c", "//b"),
            ("/a#b", "/a"),
            ("//h/a", "//h/a"),
        ] {
            let uri: Uri = target.parse().expect(target);
            let path = normalise(&uri).expect(target);
            let path = changed(&uri, &path, &PathChange::AsSent, &found()).expect(target);
            let forwarded = outgoing(&uri, &path);
            assert_eq!(forwarded.to_string(), expected, "{target}");
            assert_eq!((forwarded.scheme(), forwarded.authority()), (None, None));
        }
    }

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
            ("/api/%2e//../api/x", Some("/api"), "/api/x"),
            ("/api/%2e//../../api/x", Some("/api"), "/x"),
            ("/api/..%2e", Some("/api"), "/..."),
            ("/api/%2Fx", Some("/api"), "/%2Fx"),
            ("/a%3Ab/c/d", Some("/a:b/c"), "/d"),
        ] {
            let uri: Uri = target.parse().expect(target);
            let path = normalise(&uri).expect(target);
            let change = strip_prefix
                .and_then(StrippedPrefix::new)
                .map_or(PathChange::None, |prefix| PathChange::Strip(prefix.into()));
            let path = changed(&uri, &path, &change, &found()).expect(target);
            let forwarded = outgoing(&uri, &path);
            assert_eq!(forwarded.to_string(), expected, "{target}");
            assert_eq!((forwarded.scheme(), forwarded.authority()), (None, None));
        }
    }
}
