//! One mistake of a file, and where it is.

use std::ops::Range;
use std::sync::Arc;

use super::controls::{printable, showable};

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file that it is in; none: the configuration.
    pub file: Option<Arc<OtherFile>>,
    /// Bytes of the file it points at.
    pub span: Range<usize>,
    /// What is wrong, in a sentence without its full stop.
    pub message: String,
    /// What was expected there, as a noun; the label at the caret says "expected …". May be empty.
    pub expected: String,
    /// How to mend it.
    pub hint: Option<String>,
    /// Where the first one stands, if two are one too many.
    pub first: Option<Place>,
}

/// Another file that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherFile {
    /// Its name, without control characters.
    pub name: String,
    /// What is in it, as far as it may be shown, each byte in its place.
    pub text: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file; none: the configuration.
    pub file: Option<Arc<OtherFile>>,
    /// Bytes of the file.
    pub span: Range<usize>,
}

impl OtherFile {
    /// Makes one of a text without secrets. Its name may be one that was found on disk.
    pub fn new(name: &str, text: &str) -> Arc<Self> {
        Arc::new(Self {
            name: printable(name),
            text: showable(text).into_owned(),
        })
    }
}

impl Mistake {
    /// Says where the first one stands of two that are one too many.
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

    /// Returns the file that the first one is in, if two are one too many.
    pub(super) fn first_file(&self) -> Option<&Option<Arc<OtherFile>>> {
        self.first.as_ref().map(|first| &first.file)
    }

    /// Says how to mend it.
    pub fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.maybe_hint(Some(hint.into()))
    }

    /// Says how to mend it, if anybody knows.
    pub fn maybe_hint(&mut self, hint: Option<String>) -> &mut Self {
        self.hint = hint;
        self
    }
}
