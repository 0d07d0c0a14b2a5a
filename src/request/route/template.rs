//! The path that a route forwards in place of the one that it matched.
//!
//! A template is written like the path's pattern: `/users/{id}/files/*`. It consists of literal segments, `{param}`s of
//! the path, and, as its last segment, the `*` of the path. Each of these is normalised and is between slashes, so the
//! result is a normalised path. The result ends as the template does: with a slash only if the template has one. `*` is
//! the rest of the request's path, including a last slash.

use std::ops::Range;

use super::other_routers;
use super::pattern::{Element, PathPattern, PathShape, literal};
use super::pattern_error::PatternError;
use super::rule::Found;

/// A path that is made from parts of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate(Vec<PathPiece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathPiece {
    /// Literal segments, each with the slash before it; or a last slash.
    Text(String),
    /// The pattern's parameter with this index.
    Param(usize),
    /// The rest of the path after this many segments.
    Rest(usize),
}

impl PathTemplate {
    /// Parses a template for paths that match `pattern`.
    ///
    /// # Errors
    /// The first segment that is invalid, or that the pattern does not have, with its place.
    pub fn parse(text: &str, pattern: &PathPattern) -> Result<Self, PatternError> {
        let Some(segments) = text.strip_prefix('/') else {
            let end = text.chars().next().map_or(0, char::len_utf8);
            let message = "the template does not begin with a slash";
            return Err(PatternError::new(0..end, message, "`/`"));
        };
        let mut template = Self(Vec::new());
        let mut start = 1;
        for segment in segments.split('/') {
            let span = start..start + segment.len();
            start = span.end + 1;
            if segment.is_empty() && span.end == text.len() {
                template.push_text("/");
            } else if segment == "*" {
                let rest = rest(&span, text, pattern)?;
                template.0.push(PathPiece::Rest(rest));
            } else if let Some(param) = param(segment, &span, pattern)? {
                template.push_text("/");
                template.0.push(PathPiece::Param(param));
            } else if let Some((message, hint)) = other_routers::of_template(segment) {
                let expected = "literal segments, and the parameters and the `*` of `path`";
                let wrong = PatternError::new(span, message, expected);
                return Err(wrong.maybe_hint(Some(hint)));
            } else {
                template.push_text("/");
                template.push_text(&literal(segment, span)?);
            }
        }
        Ok(template)
    }

    /// Makes the path that is forwarded from the normalised `path`, whose route and parameters are `found`.
    pub(in crate::request) fn fill(&self, path: &str, found: &Found) -> String {
        let mut filled = String::with_capacity(path.len());
        for piece in &self.0 {
            filled.push_str(match piece {
                PathPiece::Text(text) => text,
                PathPiece::Param(param) => {
                    let range = found.params.get(*param).cloned();
                    range.map_or("", |range| &path[range])
                }
                PathPiece::Rest(segments) => after_segments(path, *segments),
            });
        }
        if filled.is_empty() {
            filled.push('/');
        }
        filled
    }

    fn push_text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(PathPiece::Text(before)) => before.push_str(text),
            _ => self.0.push(PathPiece::Text(text.to_owned())),
        }
    }
}

/// Returns the rest of a path after its first `segments`, with the slash before it; empty if the path ends there.
pub(in crate::request) fn after_segments(path: &str, segments: usize) -> &str {
    let slash = path.match_indices('/').nth(segments);
    slash.map_or("", |(slash, _)| &path[slash..])
}

/// Returns how many segments of the pattern come before its `*`.
fn rest(span: &Range<usize>, template: &str, pattern: &PathPattern) -> Result<usize, PatternError> {
    if span.end < template.len() {
        let message = "`*` is not the last segment";
        return Err(PatternError::new(span.clone(), message, "`*` at the end"));
    }
    match &pattern.shape {
        PathShape::Elements(elements) if elements.last() == Some(&Element::Rest) => {
            Ok(elements.len() - 1)
        }
        _ => {
            let (message, expected) = ("`path` has no last `*`", "`{param}`s and literal segments");
            Err(PatternError::new(span.clone(), message, expected))
        }
    }
}

/// Returns the index of a `{param}` among those of the pattern; none if the segment is not a `{param}`.
fn param(
    segment: &str,
    span: &Range<usize>,
    pattern: &PathPattern,
) -> Result<Option<usize>, PatternError> {
    let name = (segment.strip_prefix('{')).and_then(|rest| rest.strip_suffix('}'));
    let Some(name) = name else { return Ok(None) };
    let params = pattern.params();
    if let Some(place) = params.iter().position(|param| **param == *name) {
        return Ok(Some(place));
    }
    let known: Vec<String> = params
        .iter()
        .map(|param| format!("`{{{param}}}`"))
        .collect();
    let expected = match &known[..] {
        [] => "literal segments".to_owned(),
        known => known.join(" or "),
    };
    let message = format!("`path` has no `{{{name}}}`");
    Err(PatternError::new(span.clone(), &message, &expected))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};
    use proptest::prelude::*;

    use super::super::{Lookup, Router, Rule};
    use super::*;
    use crate::request::path;

    fn router(pattern: &PathPattern) -> Router {
        let rule = Rule {
            path: pattern.clone(),
            host: None,
            methods: Vec::new(),
            headers: Vec::new(),
            case_insensitive: false,
        };
        Router::new(vec![rule]).expect("one route")
    }

    /// Returns the path that is forwarded for a path that was sent; none if it is refused or has no route.
    fn forwarded(router: &Router, template: &PathTemplate, sent: &str) -> Option<String> {
        let path = path::normalise(sent).ok()?;
        match router.find("", &Method::GET, path.as_str(), &HeaderMap::new()) {
            Lookup::Found(found) => Some(template.fill(path.as_str(), &found)),
            _ => None,
        }
    }

    #[test]
    fn mistakes_in_a_template_are_named_with_their_place() {
        let pattern = PathPattern::parse("/v1/{id}").expect("a pattern");
        for (template, span, message) in [
            ("", 0..0, "the template does not begin with a slash"),
            (
                "users/{id}",
                0..1,
                "the template does not begin with a slash",
            ),
            ("/users/{name}", 7..13, "`path` has no `{name}`"),
            ("/users/*", 7..8, "`path` has no last `*`"),
            ("/*/users", 1..2, "`*` is not the last segment"),
            ("/users//{id}", 7..7, "the segment is empty"),
            (
                "/users/x{id}",
                8..9,
                "this can only stand for a whole segment",
            ),
            ("/users/../{id}", 7..9, "a dot segment matches no path"),
            (
                "/users?id={id}",
                7..8,
                "this can only stand for a whole segment",
            ),
            (
                "/users?a",
                1..8,
                "the path has a character that must be percent-encoded",
            ),
            (
                "/..%2Fx",
                1..7,
                "the path hides a dot segment behind an encoded slash or a `;`",
            ),
        ] {
            let error = PathTemplate::parse(template, &pattern).expect_err(template);
            assert_eq!(&*error.message, message, "{template}");
            if message != "this can only stand for a whole segment" {
                assert_eq!(error.span, span, "{template}");
            }
        }
    }

    proptest! {
        /// Whatever a client sends, the path that is forwarded is normalised and begins as the template does.
        #[test]
        fn what_is_forwarded_is_a_normalised_path(
            segments in prop::collection::vec(
                "[a-c:;.]{0,3}|%2[eEfF]|%3[aA]|%5[cC]|\\.\\.|\\.|%25|é", 0..6
            ),
            is_rest in any::<bool>(),
            has_last_slash in any::<bool>(),
        ) {
            let (pattern, template) = if is_rest {
                ("/{a}/{b}/*", "/x/{b}/%2Fy/{a}/*")
            } else {
                ("/{a}/{b}", "/x/{b}/%2Fy/{a}/")
            };
            let pattern = PathPattern::parse(pattern).expect("a pattern");
            let template = PathTemplate::parse(template, &pattern).expect("a template");
            let mut sent = format!("/{}", segments.join("/"));
            if has_last_slash {
                sent.push('/');
            }
            if let Some(path) = forwarded(&router(&pattern), &template, &sent) {
                let again = path::normalise(&path).expect("a good path");
                prop_assert_eq!(again.as_str(), &path);
                prop_assert!(path.starts_with("/x/"), "{} of {}", path, sent);
                prop_assert!(!path.contains("//"));
            }
        }
    }
}
