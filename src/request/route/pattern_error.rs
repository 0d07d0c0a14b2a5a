//! What is wrong with a pattern.

use std::ops::Range;

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; expected {expected}")]
pub struct PatternError {
    /// The bytes of the pattern's text that are wrong.
    pub span: Range<usize>,
    /// The mistake.
    pub message: String,
    /// What was expected there.
    pub expected: String,
    /// How to fix the mistake, if that is known.
    pub hint: Option<String>,
}

impl PatternError {
    pub(super) fn new(span: Range<usize>, message: &str, expected: &str) -> Self {
        Self {
            span,
            message: message.to_owned(),
            expected: expected.to_owned(),
            hint: None,
        }
    }

    /// Sets how to fix the mistake, if that is known.
    pub(super) fn maybe_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }
}
