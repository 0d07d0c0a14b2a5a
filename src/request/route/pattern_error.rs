//! What is wrong with a pattern.

use std::ops::Range;

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; expected {expected}")]
pub struct PatternError {
    /// Bytes of the pattern's text it points at.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What was expected there.
    pub expected: String,
    /// How to mend it.
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

    /// Says how to mend it, if anybody knows.
    pub(super) fn maybe_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }
}
