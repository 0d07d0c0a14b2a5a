//! What is wrong with a file: every mistake with its place, what was expected, and a hint.

use std::ops::Range;

/// The mistakes of one file, in the order of their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    mistakes: Vec<Mistake>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Bytes of the file it points at.
    pub span: Range<usize>,
    /// What is wrong, in a sentence without its full stop.
    pub message: String,
    /// What was expected there: the label at the caret.
    pub expected: String,
    /// How to mend it.
    pub hint: Option<String>,
}

impl Report {
    /// Adds a mistake.
    pub fn add(&mut self, mistake: Mistake) {
        self.mistakes.push(mistake);
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.mistakes.is_empty()
    }
}
