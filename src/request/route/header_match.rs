//! What a rule asks of a header's value: any value, a certain one, or one that an expression matches.

use http::HeaderValue;

use super::pattern_error::PatternError;
use super::regex::ValueRegex;

/// The values of a header that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderMatch {
    /// Any value, if the header is there.
    Any,
    /// This text exactly.
    Value(Box<str>),
    /// A value that the expression matches as a whole. No expression matches a value that is not UTF-8.
    Regex(ValueRegex),
}

impl HeaderMatch {
    /// Parses a value as written in the file: `*`, `re:` and an expression, or the value itself.
    ///
    /// # Errors
    /// A value that no request can have, or a text that is not an expression, with its place.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (value, at) = match text.strip_prefix(REGEX) {
            Some(regex) => (regex, REGEX.len()),
            None => (text, 0),
        };
        if HeaderValue::from_str(value).is_err() || value.trim() != value {
            let expected = "a value without control characters or spaces around it, or `*` for any";
            let message = "this can never be a header's value";
            return Err(PatternError::new(at..text.len(), message, expected));
        }
        if at > 0 {
            let regex = ValueRegex::parse(value).map_err(|mut error| {
                error.span = error.span.start + at..error.span.end + at;
                error
            })?;
            return Ok(Self::Regex(regex));
        }
        Ok(match text {
            "*" => Self::Any,
            value => Self::Value(value.into()),
        })
    }

    /// Returns the value that is asked for, if it is a certain one.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Any | Self::Regex(_) => None,
        }
    }

    /// Whether this is the empty value, or an empty expression.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Value(value) => value.is_empty(),
            Self::Regex(regex) => regex.is_empty(),
        }
    }

    /// Whether this value matches.
    pub fn takes(&self, value: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Value(own) => own.as_bytes() == value,
            Self::Regex(regex) => str::from_utf8(value).is_ok_and(|value| regex.matches(value)),
        }
    }

    /// Whether every value that `other` matches is known to match this too.
    pub(super) fn includes(&self, other: &Self) -> bool {
        match other {
            Self::Value(value) => self.takes(value.as_bytes()),
            Self::Any | Self::Regex(_) => *self == Self::Any || self == other,
        }
    }

    /// Whether it is known that no value matches both.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (own, Self::Value(value)) | (Self::Value(value), own) => !own.takes(value.as_bytes()),
            _ => false,
        }
    }
}

/// The prefix of an expression.
const REGEX: &str = "re:";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> HeaderMatch {
        HeaderMatch::parse(text).expect(text)
    }

    #[test]
    fn an_expression_is_for_the_whole_value() {
        for (asked, value, expected) in [
            ("*", &b""[..], true),
            ("*", b"\xff", true),
            ("2", b"2", true),
            ("2", b"2.0", false),
            (r"2\.\d+", b"2.0", false),
            (r"re:2\.\d+", b"2.0", true),
            (r"re:2\.\d+", b"2.17", true),
            (r"re:2\.\d+", b"12.0", false),
            (r"re:2\.\d+", b"2.0 ", false),
            (r"re:2\.\d+", b"2.0\n", false),
            (r"re:2\.\d+", b"2.0, 3", false),
            ("re:a|b.*", b"a", true),
            ("re:a|b.*", b"ab", false),
            ("re:a|b.*", b"xbc", false),
            ("re:^a$", b"a", true),
            ("re:A", b"a", false),
            ("re:(?i)A", b"a", true),
            ("re:", b"", true),
            ("re:", b"x", false),
            ("re:.*", b"", true),
            ("re:re:.*", b"re:x", true),
            ("re:caf\u{e9}", "caf\u{e9}".as_bytes(), true),
            (r"re:\d", "\u{0663}".as_bytes(), false),
            // No expression matches a value that is not UTF-8.
            ("re:.*", b"\xff", false),
            ("re:(?s-u:.)*", b"a\xff", false),
        ] {
            assert_eq!(parse(asked).takes(value), expected, "{asked} {value:?}");
        }
    }

    #[test]
    fn mistakes_in_a_value_are_named_with_their_place() {
        let never = "this can never be a header's value";
        for (text, span, message) in [
            (" a", 0..2, never),
            ("a\n", 0..2, never),
            ("re: a", 3..5, never),
            ("re:a ", 3..5, never),
            ("re:a(b", 4..5, "unclosed group"),
            ("re:[", 3..4, "unclosed character class"),
            ("re:*", 3..3, "repetition operator missing expression"),
            (
                "re:(a{1000}){1000}",
                3..18,
                "the expression is too large once its repetitions are written out",
            ),
        ] {
            let error = HeaderMatch::parse(text).expect_err(text);
            assert_eq!((error.span, &*error.message), (span, message), "{text}");
        }
        let long = format!("re:{}", "a".repeat(2049));
        let error = HeaderMatch::parse(&long).expect_err("too long");
        assert_eq!(
            (error.span, &*error.message),
            (2051..2052, "the expression is too long")
        );
    }

    #[test]
    fn only_what_is_known_of_expressions_is_said() {
        for (one, other, includes, excludes) in [
            ("*", "*", true, false),
            ("*", "1", true, false),
            ("*", "re:1", true, false),
            ("1", "*", false, false),
            ("1", "1", true, false),
            ("1", "2", false, true),
            ("1", "re:1", false, false),
            ("1", "re:2", false, true),
            ("re:1.*", "12", true, false),
            ("re:1.*", "2", false, true),
            ("re:1.*", "*", false, false),
            ("re:1.*", "re:1.*", true, false),
            ("re:1.*", "re:2.*", false, false),
        ] {
            let (a, b) = (parse(one), parse(other));
            assert_eq!(a.includes(&b), includes, "{one} includes {other}");
            assert_eq!(a.excludes(&b), excludes, "{one} excludes {other}");
            assert_eq!(b.excludes(&a), excludes, "{other} excludes {one}");
        }
    }
}
