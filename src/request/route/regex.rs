//! Regular expressions that match a whole path, or the whole value of a header.
//!
//! An expression runs on engines whose time is linear in the length of the text, is anchored at both ends, and is
//! bounded in size when it is built. A literal prefix rules out most paths before an engine runs. Normalised paths are
//! ASCII, so classes are ASCII too, also in expressions for values.

use regex_automata::meta::{BuildError, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::{Anchored, Input};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind, Look};

use super::pattern_error::PatternError;
use crate::request::path;

/// A regular expression over a whole path, ready to match.
#[derive(Clone, Debug)]
pub(super) struct PathRegex {
    /// The bytes that every matching path begins with.
    prefix: Box<[u8]>,
    /// Texts that every matching path contains, in some case.
    texts: Box<[Box<str>]>,
    regex: Regex,
}

/// The case in which the letters of an expression match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// The case they are written in.
    Exact,
    /// Either case.
    Any,
}

impl PathRegex {
    pub(super) fn parse(text: &str, case: Case) -> Result<Self, PatternError> {
        refuse_long(text)?;
        refuse_what_no_path_has(text)?;
        let hir = hir(text, case)?;
        let mut texts = Vec::new();
        match case {
            Case::Exact => collect_texts(&hir, &mut texts),
            // Letters have become classes here, so the texts are collected from the case-sensitive
            // expression: every match contains each of them in some case.
            Case::Any => collect_texts(&self::hir(text, Case::Exact)?, &mut texts),
        }
        let prefixes = Extractor::new().extract(&hir);
        let never_a_path = (prefixes.literals())
            .is_some_and(|all| all.iter().all(|p| !matches!(p.as_bytes(), [] | [b'/', ..])));
        if never_a_path {
            return Err(PatternError::new(
                0..text.len(),
                "the expression matches no path",
                "an expression that begins with a slash",
            ));
        }
        Ok(Self {
            prefix: prefixes.longest_common_prefix().unwrap_or_default().into(),
            texts: texts.into(),
            regex: whole(hir, text)?,
        })
    }

    /// Yields texts, in lower case, each of which every matching path contains in some case.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }

    /// Whether the whole of `path` matches, with or without a last slash.
    pub(super) fn matches_path(&self, path: &str) -> bool {
        let trimmed = path::without_last_slash(path);
        self.matches(path)
            || (trimmed.len() < path.len() && !trimmed.is_empty() && self.matches(trimmed))
    }

    /// Whether the whole of `path` matches.
    pub(super) fn matches(&self, path: &str) -> bool {
        path.as_bytes().starts_with(&self.prefix) && is_whole_match(&self.regex, path)
    }
}

/// A regular expression over the whole value of a header, with the same engines and bounds.
#[derive(Clone, Debug)]
pub struct ValueRegex {
    text: Box<str>,
    regex: Regex,
}

impl ValueRegex {
    /// Parses an expression.
    ///
    /// # Errors
    /// If the text is not an expression, or is too large.
    pub(super) fn parse(text: &str) -> Result<Self, PatternError> {
        refuse_long(text)?;
        Ok(Self {
            text: text.into(),
            regex: whole(hir(text, Case::Exact)?, text)?,
        })
    }

    /// Whether the expression is empty, so that it matches only the empty value.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether the whole of `value` matches.
    pub(super) fn matches(&self, value: &str) -> bool {
        is_whole_match(&self.regex, value)
    }
}

impl PartialEq for ValueRegex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ValueRegex {}

/// Builds an expression that matches a text only as a whole; `text` is the source of `hir`, for errors.
fn whole(hir: Hir, text: &str) -> Result<Regex, PatternError> {
    let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
    let config = Regex::config()
        .utf8_empty(false)
        .which_captures(WhichCaptures::None)
        // Prefilters help to find where a match begins, but here it begins where the text does.
        .auto_prefilter(false)
        .nfa_size_limit(Some(NFA_BYTES_MAX))
        .hybrid_cache_capacity(CACHE_BYTES_MAX);
    (Regex::builder().configure(config).build_from_hir(&whole))
        .map_err(|error| build_error(&error, text))
}

fn is_whole_match(regex: &Regex, text: &str) -> bool {
    regex.is_match(Input::new(text).anchored(Anchored::Yes))
}

fn refuse_long(text: &str) -> Result<(), PatternError> {
    if text.len() <= REGEX_BYTES_MAX {
        return Ok(());
    }
    let expected = format!("at most {REGEX_BYTES_MAX} bytes");
    let rest = text.floor_char_boundary(REGEX_BYTES_MAX)..text.len();
    Err(PatternError::new(
        rest,
        "the expression is too long",
        &expected,
    ))
}

fn hir(text: &str, case: Case) -> Result<Hir, PatternError> {
    ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(case == Case::Any)
        .nest_limit(NESTING_MAX)
        .build()
        .parse(text)
        .map_err(|error| syntax_error(&error))
}

/// Collects the literals that every match contains, in lower case.
fn collect_texts(hir: &Hir, texts: &mut Vec<Box<str>>) {
    match hir.kind() {
        HirKind::Literal(literal) => {
            let text = str::from_utf8(&literal.0).map(str::to_ascii_lowercase);
            texts.extend(text.ok().map(String::into_boxed_str));
        }
        HirKind::Capture(capture) => collect_texts(&capture.sub, texts),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            collect_texts(&repetition.sub, texts);
        }
        HirKind::Concat(parts) => {
            for part in parts {
                collect_texts(part, texts);
            }
        }
        _ => {}
    }
}

/// Refuses an expression with a spelling that no normalised path has, because it would silently
/// never match.
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
                Ok(text) => format!("its normalised spelling, `{text}`"),
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
    let expected = format!("an expression that compiles to at most {NFA_BYTES_MAX} bytes");
    PatternError::new(0..text.len(), &message, &expected)
}

const REGEX_BYTES_MAX: usize = 2 << 10;
const NESTING_MAX: u32 = 64;
/// Most bytes of a compiled expression.
const NFA_BYTES_MAX: usize = 256 << 10;
/// Most bytes of an expression's lazily built automaton, per thread.
const CACHE_BYTES_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_matches_whole_paths_only() {
        let [exactly, in_any_case] = [Case::Exact, Case::Any]
            .map(|case| PathRegex::parse(r"/api/v[12]/(\d+|x)", case).expect("good expression"));
        for (path, exact, any_case) in [
            ("/api/v1/42", true, true),
            ("/api/v2/x", true, true),
            ("/API/v2/X", false, true),
            ("/api/v1/42/y", false, false),
            ("/x/api/v1/42", false, false),
            ("/api/v3/42", false, false),
        ] {
            assert_eq!(exactly.matches(path), exact, "{path}");
            assert_eq!(in_any_case.matches(path), any_case, "{path}");
        }
        let either = PathRegex::parse("/a|/b.*", Case::Exact).expect("good expression");
        assert!(either.matches("/a") && either.matches("/bc"));
        assert!(!either.matches("/ab"));
    }

    #[test]
    fn texts_are_what_a_match_cannot_do_without() {
        for (expression, texts) in [
            (r"/v\d+/Orders/(\d+)/x", &["/v", "/orders/", "/x"][..]),
            ("/(abc)+(def)*(ghi)?(jkl|mno){2}", &["/", "abc"]),
            ("(/a|/b)", &[]),
            (".*", &[]),
            ("/a(?i)b", &["/a"]),
        ] {
            for case in [Case::Exact, Case::Any] {
                let regex = PathRegex::parse(expression, case).expect(expression);
                assert_eq!(regex.texts().collect::<Vec<_>>(), texts, "{expression}");
            }
        }
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
            let error = PathRegex::parse(text, Case::Exact).expect_err(text);
            assert_eq!((error.span, &*error.message), (span, message), "{text}");
        }
        for good in ["", "/a%2Fb", "/100%", ".*", "(/a|/b)", "^/a$"] {
            PathRegex::parse(good, Case::Any).expect(good);
        }
    }
}
