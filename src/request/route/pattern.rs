//! A path's pattern: segments, or a regular expression.
//!
//! A pattern such as `/v1/{id}/*` has literal segments, `{param}` for one segment (never an empty one), and a last `*`
//! for the rest. The rest may be empty, so `/*` matches `/`, and `/a/*` matches `/a` and `/a/` as well: a policy on all
//! of `/a/` has no gap at its root. Literals are normalised like the paths of requests. Inside a segment, the
//! characters `*`, `{` and `}` are written `%2A`, `%7B` and `%7D`.

use std::ops::Range;

use super::other_routers;
use super::pattern_error::PatternError;
use super::regex::{Case, PathRegex};
use crate::request::path;

/// A path's pattern, parsed.
#[derive(Clone, Debug)]
pub struct PathPattern {
    pub(super) shape: PathShape,
    params: Vec<Box<str>>,
}

/// What a pattern is made of.
#[derive(Clone, Debug)]
pub(super) enum PathShape {
    /// Segments from the left; [`Element::Rest`], if there is one, is the last.
    Elements(Vec<Element>),
    /// A regular expression over the whole path.
    Regex(PathRegex),
}

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// This text, which is in its comparable spelling.
    Literal(Box<str>),
    /// Any one segment.
    Param,
    /// The rest of the path, which may be empty.
    Rest,
}

impl PathPattern {
    /// Parses `path`: literal segments, `{param}`s, and a last segment `*`.
    ///
    /// # Errors
    /// The first segment that is none of these, with its place.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let Some(segments) = text.strip_prefix('/') else {
            let end = text.chars().next().map_or(0, char::len_utf8);
            let message = "the path does not begin with a slash";
            let wrong = PatternError::new(0..end, message, "`/`");
            return Err(wrong.maybe_hint(other_routers::of_path(text)));
        };
        let mut pattern = Vec::new();
        let mut params = Vec::new();
        let mut start = 1;
        // A last slash is ignored, as it is in requests.
        for segment in path::without_last_slash(segments).split('/') {
            let span = start..start + segment.len();
            start = span.end + 1;
            if segments.is_empty() {
                break;
            }
            if pattern.last() == Some(&Element::Rest) {
                let at = span.start - 2..span.start - 1;
                return Err(PatternError::new(
                    at,
                    "`*` is not the last segment",
                    "`{name}` for one segment",
                ));
            }
            if pattern.len() == SEGMENTS_MAX {
                let expected = format!("at most {SEGMENTS_MAX}");
                return Err(PatternError::new(
                    span,
                    "the path has too many segments",
                    &expected,
                ));
            }
            pattern.push(element(segment, span, &mut params)?);
        }
        Ok(Self {
            shape: PathShape::Elements(pattern),
            params,
        })
    }

    /// Parses `path_regex`, which is matched against the whole normalised path, with or without a last slash.
    ///
    /// # Errors
    /// A text that is not a regular expression, is too large, or can match no normalised path.
    pub fn regex(text: &str, case: Case) -> Result<Self, PatternError> {
        Ok(Self {
            shape: PathShape::Regex(PathRegex::parse(text, case)?),
            params: Vec::new(),
        })
    }

    /// Whether the whole of `path`, in its comparable spelling, matches.
    pub(super) fn matches(&self, path: &str, case_insensitive: bool) -> bool {
        let elements = match &self.shape {
            PathShape::Regex(regex) => return regex.matches_path(path),
            PathShape::Elements(elements) => elements,
        };
        let mut segments = path::without_last_slash(path).split('/').skip(1);
        for element in elements {
            let matches = match (element, segments.next()) {
                (Element::Rest, _) => return true,
                (Element::Literal(text), Some(segment)) if case_insensitive => {
                    text.eq_ignore_ascii_case(segment)
                }
                (Element::Literal(text), Some(segment)) => **text == *segment,
                (Element::Param, Some(_)) => true,
                (_, None) => false,
            };
            if !matches {
                return false;
            }
        }
        segments.next().is_none()
    }

    /// Counts the pattern's segments, from the left, that match a path in its comparable spelling; 0 for an expression.
    pub(super) fn leading_segments(&self, path: &str, case_insensitive: bool) -> usize {
        let PathShape::Elements(elements) = &self.shape else {
            return 0;
        };
        let segments = path::without_last_slash(path).split('/').skip(1);
        let matches = |(element, segment): &(&Element, &str)| match element {
            Element::Literal(text) if case_insensitive => text.eq_ignore_ascii_case(segment),
            Element::Literal(text) => **text == **segment,
            Element::Param | Element::Rest => true,
        };
        elements.iter().zip(segments).take_while(matches).count()
    }

    /// Whether this pattern matches the same paths as another one, however parameters are named; false for expressions,
    /// of which that is not known.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (&self.shape, &other.shape) {
            (PathShape::Elements(own), PathShape::Elements(other)) => own == other,
            _ => false,
        }
    }

    /// Returns the names of the pattern's `{param}`s, in order.
    pub fn params(&self) -> &[Box<str>] {
        &self.params
    }
}

fn element(
    segment: &str,
    span: Range<usize>,
    params: &mut Vec<Box<str>>,
) -> Result<Element, PatternError> {
    if segment == "*" {
        return Ok(Element::Rest);
    }
    if let Some((message, hint)) = other_routers::of_segment(segment) {
        let expected = match message {
            other_routers::NO_NAME => "`{name}` of letters, digits and `_`",
            _ => "a literal segment, `{name}` for any one, or a last `*`",
        };
        return Err(PatternError::new(span, message, expected).maybe_hint(Some(hint)));
    }
    let Some(name) = (segment.strip_prefix('{')).and_then(|rest| rest.strip_suffix('}')) else {
        let text = literal(segment, span)?;
        return Ok(Element::Literal(path::comparable(&text).into()));
    };
    if params.iter().any(|param| &**param == name) {
        return Err(PatternError::new(
            span,
            "the path has this parameter twice",
            "another name",
        ));
    }
    params.push(name.into());
    Ok(Element::Param)
}

/// Returns a literal segment in its normalised spelling.
pub(super) fn literal(segment: &str, span: Range<usize>) -> Result<String, PatternError> {
    if segment.is_empty() {
        return Err(PatternError::new(
            span,
            "the segment is empty",
            "one slash between two segments",
        ));
    }
    if let Some(at) = segment.find(['{', '}', '*']) {
        let at = span.start + at..span.start + at + 1;
        return Err(PatternError::new(
            at,
            "this can only stand for a whole segment",
            "`/{name}/`, a final `/*`, or the escaped character",
        ));
    }
    let path = format!("/{segment}");
    match path::normalise(&path) {
        Ok(normal) if normal.as_str() == "/" => Err(PatternError::new(
            span,
            "a dot segment matches no path",
            "the path that it resolves to",
        )),
        Ok(normal) => Ok(normal.as_str()[1..].to_owned()),
        Err(bad) => Err(PatternError {
            span,
            message: bad.to_string(),
            expected: "a path that requests may have".to_owned(),
            hint: (segment.contains('?')).then(|| "a query is no part of `path`".to_owned()),
        }),
    }
}

/// Most segments of a pattern, which bounds the depth of a lookup.
const SEGMENTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(text: &str) -> Vec<Element> {
        match PathPattern::parse(text).expect(text).shape {
            PathShape::Elements(elements) => elements,
            PathShape::Regex(_) => panic!("{text} is no regular expression"),
        }
    }

    #[test]
    fn paths_are_read_as_literals_parameters_and_a_rest() {
        let literal = |text: &str| Element::Literal(text.into());
        for (text, expected) in [
            ("/", vec![]),
            ("/*", vec![Element::Rest]),
            ("/v1/product", vec![literal("v1"), literal("product")]),
            ("/v1/", vec![literal("v1")]),
            (
                "/a/{id}/*",
                vec![literal("a"), Element::Param, Element::Rest],
            ),
            ("/%61%3ab", vec![literal("a:b")]),
            ("/é", vec![literal("%C3%A9")]),
            ("/%2A%7b", vec![literal("*%7B")]),
        ] {
            assert_eq!(elements(text), expected, "{text}");
        }
        let params = PathPattern::parse("/{a}/x/{b_2}").expect("good pattern");
        assert_eq!(params.params(), [Box::from("a"), Box::from("b_2")]);
    }

    #[test]
    fn mistakes_in_a_path_are_named_with_their_place() {
        for (text, span, message) in [
            ("", 0..0, "the path does not begin with a slash"),
            ("v1", 0..1, "the path does not begin with a slash"),
            ("é", 0..2, "the path does not begin with a slash"),
            ("/a//b", 3..3, "the segment is empty"),
            ("//", 1..1, "the segment is empty"),
            ("/a/../b", 3..5, "a dot segment matches no path"),
            ("/%2e", 1..4, "a dot segment matches no path"),
            ("/*/b", 1..2, "`*` is not the last segment"),
            (
                "/a*",
                1..3,
                "`*` can only stand for all that follows a slash",
            ),
            ("/:id", 1..4, "a parameter is not written with a colon"),
            ("/x{id}", 2..3, "this can only stand for a whole segment"),
            ("/{id", 1..2, "this can only stand for a whole segment"),
            ("/{}", 1..3, "this is not a parameter's name"),
            ("/{1a}", 1..5, "this is not a parameter's name"),
            ("/{*rest}", 1..8, "this is not a parameter's name"),
            ("/{a}/{a}", 5..8, "the path has this parameter twice"),
            (
                "/a?b",
                1..4,
                "the path has a character that must be percent-encoded",
            ),
            ("/a%", 1..3, "the path has a % without two hex digits"),
            ("/a\\b", 1..4, "the path has a backslash"),
            ("/a%00", 1..5, "the path has a NUL"),
        ] {
            let error = PathPattern::parse(text).expect_err(text);
            assert_eq!((error.span, &*error.message), (span, message), "{text}");
        }
        let deep = "/a".repeat(SEGMENTS_MAX + 1);
        let error = PathPattern::parse(&deep).expect_err("too deep");
        assert_eq!(error.message, "the path has too many segments");
    }
}
