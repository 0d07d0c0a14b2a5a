//! How mistakes of a route are reported: their place in a pattern, and whether its table is incomplete.

use std::ops::Range;

use crate::config::file::{RawRoute, Spanned, Table};
use crate::config::options::ROUTE;
use crate::config::report::{Mistake, Report};
use crate::request::route::PatternError;

/// Whether a route is incomplete: a key that seems absent may be there, but wrong.
pub(super) fn is_incomplete(table: &Table<RawRoute>) -> bool {
    table.is_incomplete(ROUTE.about.title)
}

/// Reports a pattern's mistake: at its bytes, or at the whole text if that has escapes or variables.
pub(super) fn in_pattern<'r>(
    text: &Spanned<String>,
    error: PatternError,
    report: &'r mut Report,
) -> &'r mut Mistake {
    // Quotes are one byte each; escapes and variables make the two lengths differ.
    let plain = text.span.len() == text.value.len() + 2;
    let span: Range<usize> = if plain {
        let start = text.span.start + 1;
        start + error.span.start..start + error.span.end
    } else {
        text.span.clone()
    };
    (report.mistake(&span, error.message, error.expected)).maybe_hint(error.hint)
}
