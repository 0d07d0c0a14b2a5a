//! One mistake of a file, and where it is.

use std::ops::Range;
use std::sync::Arc;

use super::controls::{printable, showable};

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// File that the mistake is in, or `None` for the configuration.
    pub file: Option<Arc<OtherFile>>,
    /// Bytes of the file that the mistake points at.
    pub span: Range<usize>,
    /// What is wrong, as a sentence without its full stop.
    pub message: String,
    /// What was expected there, as a noun; the label at the caret says "expected …". May be empty.
    pub expected: String,
    /// How to mend the mistake.
    pub hint: Option<String>,
    /// Place where the same thing is given first, if the mistake is that it is given twice.
    pub first: Option<Place>,
}

/// Another file that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherFile {
    /// Name of the file, without control characters.
    pub name: String,
    /// Text of the file, as far as it may be shown, with each byte at its place.
    pub text: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// File of the place, or `None` for the configuration.
    pub file: Option<Arc<OtherFile>>,
    /// Byte range in the file.
    pub span: Range<usize>,
}

impl OtherFile {
    /// Makes a file of a text without secrets. Control characters in its name, which may come from the disk, are
    /// replaced.
    pub fn new(name: &str, text: &str) -> Arc<Self> {
        Arc::new(Self {
            name: printable(name),
            text: showable(text).into_owned(),
        })
    }
}

impl Mistake {
    /// Adds the place where the same thing is given first.
    pub fn first(&mut self, first: Place) -> &mut Self {
        self.first = Some(first);
        self
    }

    /// Says what is wrong, what was expected and how to mend it, in a line without a place.
    pub fn in_a_line(&self) -> String {
        let expected = match &*self.expected {
            "" => String::new(),
            expected => format!(", expected {expected}"),
        };
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}"));
        format!("{}{expected}{}", self.message, hint.unwrap_or_default())
    }

    /// Returns the file in which the same thing is given first, if the mistake is that it is given twice.
    pub(super) fn first_file(&self) -> Option<&Option<Arc<OtherFile>>> {
        self.first.as_ref().map(|first| &first.file)
    }

    /// Adds a hint that says how to mend the mistake.
    pub fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.maybe_hint(Some(hint.into()))
    }

    /// Sets the hint that says how to mend the mistake, if there is one.
    pub fn maybe_hint(&mut self, hint: Option<String>) -> &mut Self {
        self.hint = hint;
        self
    }
}
