//! A regular expression over a whole path.
//!
//! It runs on engines whose time is linear in the path, is anchored at both ends, and is bounded
//! in size when it is built. A literal prefix keeps most paths from reaching an engine at all.
//! Paths are ASCII once they are normalised, so classes are ASCII too.

use regex_automata::meta::{BuildError, Regex};
use regex_automata::{Anchored, Input};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, Look};

use super::PatternError;
use crate::proxy::path;

/// A regular expression, in its own case and in any: which one counts is the rule's to say.
#[derive(Clone, Debug)]
pub(super) struct PathRegex {
    pub(super) exact: CasedRegex,
    pub(super) any_case: CasedRegex,
}

/// A regular expression that is ready to match.
#[derive(Clone, Debug)]
pub(super) struct CasedRegex {
    /// What every path that matches begins with.
    prefix: Box<[u8]>,
    regex: Regex,
}

impl PathRegex {
    pub(super) fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > REGEX_BYTES_MAX {
            let expected = format!("at most {REGEX_BYTES_MAX} bytes");
            return Err(PatternError::new(
                REGEX_BYTES_MAX..text.len(),
                "the expression is too long",
                &expected,
            ));
        }
        refuse_what_no_path_has(text)?;
        Ok(Self {
            exact: CasedRegex::new(text, Case::Exact)?,
            any_case: CasedRegex::new(text, Case::Any)?,
        })
    }

    /// The one that a rule goes by.
    pub(super) fn cased(&self, case_insensitive: bool) -> &CasedRegex {
        if case_insensitive {
            &self.any_case
        } else {
            &self.exact
        }
    }
}

impl CasedRegex {
    fn new(text: &str, case: Case) -> Result<Self, PatternError> {
        let hir = ParserBuilder::new()
            .unicode(false)
            .utf8(false)
            .case_insensitive(case == Case::Any)
            .nest_limit(NESTING_MAX)
            .build()
            .parse(text)
            .map_err(|error| syntax_error(&error))?;
        let prefixes = Extractor::new().extract(&hir);
        let never_a_path = (prefixes.literals())
            .is_some_and(|all| all.iter().all(|p| !matches!(p.as_bytes(), [] | [b'/', ..])));
        if never_a_path {
            return Err(PatternError::new(
                0..text.len(),
                "the expression matches no path",
                "one that begins with a slash",
            ));
        }
        let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        let config = Regex::config()
            .utf8_empty(false)
            .nfa_size_limit(Some(NFA_BYTES_MAX))
            .hybrid_cache_capacity(CACHE_BYTES_MAX);
        let regex = (Regex::builder().configure(config).build_from_hir(&whole))
            .map_err(|error| build_error(&error, text))?;
        Ok(Self {
            prefix: prefixes.longest_common_prefix().unwrap_or_default().into(),
            regex,
        })
    }

    /// Says whether the whole of `path` matches, with or without a last slash.
    pub(super) fn matches_path(&self, path: &str) -> bool {
        let trimmed = path::without_last_slash(path);
        self.matches(path)
            || (trimmed.len() < path.len() && !trimmed.is_empty() && self.matches(trimmed))
    }

    /// Says whether the whole of `path` matches.
    pub(super) fn matches(&self, path: &str) -> bool {
        path.as_bytes().starts_with(&self.prefix)
            && (self.regex).is_match(Input::new(path).anchored(Anchored::Yes))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Exact,
    Any,
}

/// Paths are normalised and compared without needless escapes: an expression that asks for another
/// spelling would silently never match.
fn refuse_what_no_path_has(text: &str) -> Result<(), PatternError> {
    if let Some((at, letter)) = text.char_indices().find(|(_, letter)| !letter.is_ascii()) {
        let normal = format!("/{letter}");
        let normal = path::normalise(&normal).expect("a letter beyond ASCII is encoded");
        let expected = format!("its escape `{}`", &normal.as_str()[1..]);
        return Err(PatternError::new(
            at..at + letter.len_utf8(),
            "no normalised path has this character",
            &expected,
        ));
    }
    for (at, _) in text.match_indices('%') {
        let Some(escape) = text.get(at..at + 3) else {
            break;
        };
        if !escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit()) {
            continue;
        }
        let path = format!("/{escape}");
        let normal = path::normalise(&path);
        let compared = (normal.as_ref()).map(|path| path::comparable(&path.as_str()[1..]));
        if compared.as_deref() != Ok(escape) {
            let expected = match compared {
                Ok(text) => format!("what it is matched as: `{text}`"),
                Err(_) => "an escape that a path may have".to_owned(),
            };
            return Err(PatternError::new(
                at..at + escape.len(),
                "no normalised path has this escape",
                &expected,
            ));
        }
    }
    Ok(())
}

fn syntax_error(error: &regex_syntax::Error) -> PatternError {
    let (span, message) = match error {
        regex_syntax::Error::Parse(error) => (error.span(), error.kind().to_string()),
        regex_syntax::Error::Translate(error) => (error.span(), error.kind().to_string()),
        other => {
            let message = other.to_string();
            return PatternError::new(0..0, &message, "a regular expression");
        }
    };
    PatternError::new(
        span.start.offset..span.end.offset,
        &message,
        "a regular expression",
    )
}

fn build_error(error: &BuildError, text: &str) -> PatternError {
    let message = match error.size_limit() {
        Some(_) => "the expression is too large once its repetitions are written out".to_owned(),
        None => error.to_string(),
    };
    let expected = format!("one that compiles to at most {NFA_BYTES_MAX} bytes");
    PatternError::new(0..text.len(), &message, &expected)
}

const REGEX_BYTES_MAX: usize = 2 << 10;
const NESTING_MAX: u32 = 64;
/// Bytes of a compiled expression.
const NFA_BYTES_MAX: usize = 256 << 10;
/// Bytes of an expression's lazily built automaton, per thread.
const CACHE_BYTES_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_matches_whole_paths_only() {
        let regex = PathRegex::parse(r"/api/v[12]/(\d+|x)").expect("good expression");
        for (path, exact, any_case) in [
            ("/api/v1/42", true, true),
            ("/api/v2/x", true, true),
            ("/API/v2/X", false, true),
            ("/api/v1/42/y", false, false),
            ("/x/api/v1/42", false, false),
            ("/api/v3/42", false, false),
        ] {
            assert_eq!(regex.exact.matches(path), exact, "{path}");
            assert_eq!(regex.any_case.matches(path), any_case, "{path}");
        }
        let either = PathRegex::parse("/a|/b.*").expect("good expression");
        assert!(either.exact.matches("/a") && either.exact.matches("/bc"));
        assert!(!either.exact.matches("/ab"));
    }

    #[test]
    fn mistakes_in_an_expression_are_named_with_their_place() {
        for (text, span, message) in [
            ("/a(b", 2..3, "unclosed group"),
            (
                "/a/[z-a]",
                4..7,
                "invalid character class range, the start must be <= the end",
            ),
            ("api/.*", 0..6, "the expression matches no path"),
            ("/é", 1..3, "no normalised path has this character"),
            ("/a%2fb", 2..5, "no normalised path has this escape"),
            ("/a%3Ab", 2..5, "no normalised path has this escape"),
            ("/a%00", 2..5, "no normalised path has this escape"),
            (
                "/(a{1000}){1000}",
                0..16,
                "the expression is too large once its repetitions are written out",
            ),
        ] {
            let error = PathRegex::parse(text).expect_err(text);
            assert_eq!((error.span, &*error.message), (span, message), "{text}");
        }
        for good in ["", "/a%2Fb", "/100%", ".*", "(/a|/b)", "^/a$"] {
            PathRegex::parse(good).expect(good);
        }
    }
}
