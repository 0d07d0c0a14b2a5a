//! Several lines of one header as one value (RFC 9110, section 5.3), so that origins read what was counted or compared,
//! whichever line they read.

use std::borrow::Cow;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::claims::remove_lookalikes;
use super::route::Router;

/// Returns a header's value: its lines joined in order, each without white space around it. Empty lines do not count
/// (RFC 9110 section 5.6.1.2); if all are empty, there is no value.
pub(super) fn joined<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Option<Cow<'r, [u8]>> {
    let mut lines = headers
        .get_all(name)
        .iter()
        .map(|line| line.as_bytes().trim_ascii())
        .filter(|line| !line.is_empty());
    let first = lines.next()?;
    let mut value = Cow::Borrowed(first);
    for line in lines {
        let value = value.to_mut();
        value.extend(if *name == COOKIE { b"; " } else { b", " });
        value.extend(line);
    }
    Some(value)
}

/// Joins the lines of each header that routes ask for into one, before a route is looked up. Otherwise an origin that
/// reads only the first line would see a value that no route saw.
///
/// Returns the headers that had several lines. `has_disguises` says whether other fields may have names that read like
/// theirs.
pub fn join_routed_lines(
    headers: &mut HeaderMap,
    router: &Router,
    has_disguises: bool,
) -> Vec<HeaderName> {
    let (names, mut joined) = (router.header_names(), Vec::new());
    if names.is_empty() {
        return joined;
    }
    if needs_joining(headers, has_disguises) {
        let several = names.iter().filter(|name| join_header(headers, name));
        joined.extend(several.cloned());
    }
    joined
}

/// Whether some header may have several lines, or another field may have a name that reads like its name.
pub(super) fn needs_joining(headers: &HeaderMap, has_disguises: bool) -> bool {
    has_disguises || headers.len() > headers.keys_len()
}

/// Joins a header's lines, and removes fields whose names read like it; returns whether there were several lines.
pub(super) fn join_header(headers: &mut HeaderMap, name: &HeaderName) -> bool {
    remove_lookalikes(headers, name);
    if headers.get_all(name).iter().nth(1).is_none() {
        return false;
    }
    let value = joined(headers, name).unwrap_or_default();
    let value = HeaderValue::from_bytes(&value).expect("values joined by a comma make a value");
    headers.insert(name, value);
    true
}
