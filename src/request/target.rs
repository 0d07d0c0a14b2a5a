//! A request's target: what the client sent, what was matched, and what is forwarded.
//!
//! [`path`] normalises the path. The path that was matched is forwarded, unless the route changes it or forwards it as
//! it was sent ([`PathChange`]). The query is passed on as it came; a fragment is not read at all.

use std::borrow::Cow;

use http::Uri;
use http::uri::PathAndQuery;

use super::path::{self, BadPath, Normalised};
use super::route::{Found, PathTemplate};
use super::stripped_prefix::StrippedPrefix;

/// What a route does to a path before it is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PathChange {
    /// The path is forwarded as it was matched.
    #[default]
    None,
    /// The route strips as many segments as this prefix has.
    Strip(Box<StrippedPrefix>),
    /// The route forwards the path that this template makes of the request's.
    Rewrite(PathTemplate),
    /// The route forwards the path as it was sent, and not as it was matched. Paths that could lead elsewhere are
    /// refused ([`leads_elsewhere`](super::route::Router::leads_elsewhere)).
    AsSent,
}

/// Normalises a target's path, which can make it longer; a path that no longer fits a target is refused.
pub(crate) fn normalise(target: &Uri) -> Result<Normalised<'_>, BadPath> {
    let path = path::normalise(target.path())?;
    check_length(path.as_str(), target)?;
    Ok(path)
}

/// Returns the path to forward in place of the one that was matched; a path that no longer fits a target is refused.
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
        // An absolute target may have no path at all, and would otherwise be forwarded without one.
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
