//! What is wrong with a file: every mistake with its place, what was expected, and a hint.
//!
//! [`Report::render`] is for people at a terminal: the source line with a caret under the mistake. [`Report::lines`] is
//! for logs: one line per mistake. A report never contains the value of a variable, so neither can show one. Code that
//! adds a mistake redacts the text that it quotes; passwords that are written in the file itself are overwritten here,
//! in the lines that are shown. A mistake may also be in [another file](OtherFile) that the configuration names, or
//! [includes](IncludedFile).

mod controls;
mod included;
mod lines;
mod mistake;
mod shown;

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::Renderer;

use self::controls::showable;
pub use self::included::IncludedFile;
use self::lines::Places;
pub use self::mistake::{Mistake, OtherFile, Place};
use self::shown::ShownLines;
use super::read_paths::ReadPaths;
use super::secrets::overwritten;

/// Mistakes of a configuration, and what was noted while it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    mistakes: Vec<Mistake>,
    /// Places whose text came from a variable and must not be repeated.
    redacted: Vec<Range<usize>>,
    /// Warnings: what is valid but probably not what was meant, one sentence each.
    warnings: Vec<String>,
    /// Places of values that were left out because something in them is missing and assumed to exist.
    left_out: Vec<Range<usize>>,
    /// What the configuration uses from outside; boxed, because many functions return a report as their error.
    inputs: Box<Inputs>,
}

/// What a configuration uses from outside its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Inputs {
    /// Variables and files that are missing and were assumed to exist, as written in the configuration.
    given: Vec<String>,
    /// Paths that were read, including those of missing files.
    paths: ReadPaths,
}

impl Report {
    /// Adds a mistake; `expected` says what was expected there, as a noun, and may be empty.
    pub fn mistake(
        &mut self,
        place: &Range<usize>,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) -> &mut Mistake {
        self.mistakes.push_mut(Mistake {
            file: None,
            span: place.clone(),
            message: message.into(),
            expected: expected.into(),
            hint: None,
            first: None,
        })
    }

    /// Adds a warning, unless it has been added already. Warnings do not make a file invalid.
    pub(super) fn warning(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Returns the warnings, the names of what was assumed to exist, and the paths that were read.
    pub(super) fn into_remarks(self) -> (Vec<String>, Vec<String>, ReadPaths) {
        (self.warnings, self.inputs.given, self.inputs.paths)
    }

    /// Returns the paths that were read, including those of missing files.
    pub fn paths(&self) -> &ReadPaths {
        &self.inputs.paths
    }

    /// Returns the paths that were read, to add others.
    pub(super) fn paths_mut(&mut self) -> &mut ReadPaths {
        &mut self.inputs.paths
    }

    /// Notes something that is missing and assumed to exist.
    pub(super) fn give(&mut self, name: &str) {
        if !self.inputs.given.iter().any(|known| known == name) {
            self.inputs.given.push(name.to_owned());
        }
    }

    /// Notes that the value at `span` is left out because something in it is assumed to exist.
    pub(super) fn leave_out(&mut self, span: Range<usize>) {
        self.left_out.push(span);
    }

    /// Returns the names of what is missing and was assumed to exist.
    pub fn given(&self) -> &[String] {
        &self.inputs.given
    }

    /// Whether a value was left out because something in it is assumed to exist.
    pub(super) fn leaves_out(&self) -> bool {
        !self.left_out.is_empty()
    }

    /// Whether there are no mistakes.
    pub fn is_empty(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// Returns the number of mistakes and of left-out values so far.
    pub(super) fn count(&self) -> usize {
        self.mistakes.len() + self.left_out.len()
    }

    /// Notes that the text at `span` came from a variable and must not be repeated.
    pub(super) fn redact(&mut self, span: Range<usize>) {
        self.redacted.push(span);
    }

    /// Whether the text at `span` came from a variable.
    pub(super) fn redacts(&self, span: &Range<usize>) -> bool {
        self.redacted.contains(span)
    }

    /// Adds the mistakes that a later stage found.
    ///
    /// A mistake at a place that has one already, or whose value was left out, is only a consequence, and is dropped.
    /// A mistake in the value of a variable is reported without that value.
    pub fn absorb(&mut self, later: Self) {
        let here = self
            .mistakes
            .iter()
            .filter(|mistake| mistake.file.is_none());
        let known = here.map(|mistake| &mistake.span);
        let known = Places::of(known.chain(&self.left_out));
        let redacted = Places::of(&self.redacted);
        for mut mistake in later.mistakes {
            let is_here = mistake.file.is_none();
            if is_here && known.touch(&mistake.span) {
                continue;
            }
            if is_here && redacted.touch(&mistake.span) {
                "the value of this variable is not valid here".clone_into(&mut mistake.message);
                mistake.hint = None;
            }
            self.mistakes.push(mistake);
        }
    }

    /// Adds up to `most` of the mistakes in `later` as those of another file; returns how many it leaves out.
    pub(super) fn absorb_of(&mut self, file: &Arc<OtherFile>, later: &Self, most: usize) -> usize {
        let found = later.mistakes();
        self.mistakes
            .extend(found.iter().take(most).map(|mistake| Mistake {
                file: Some(Arc::clone(file)),
                ..(*mistake).clone()
            }));
        found.len().saturating_sub(most)
    }

    /// Returns the mistakes, ordered by file and place, each once.
    pub fn mistakes(&self) -> Vec<&Mistake> {
        let mut sorted: Vec<_> = self.mistakes.iter().collect();
        let place = |m: &Mistake| (m.span.start, m.span.end);
        sorted.sort_by_key(|m| (m.file.as_ref().map(|file| &file.name), place(m), &m.message));
        sorted.dedup();
        sorted
    }

    /// Renders the mistakes for a terminal, where `text` is that of the file: for each the place, the line, a caret,
    /// what was expected and a hint. The last line counts them.
    pub fn render(&self, file_name: &str, text: &str, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mistakes = self.mistakes();
        let text = overwritten(text);
        let text = showable(&text);
        let shown = ShownLines::new(file_name, &text, &mistakes);
        let mut out = String::new();
        for mistake in &mistakes {
            out += &shown.render(mistake, &renderer);
            out += "\n\n";
        }
        let s = if mistakes.len() == 1 { "" } else { "s" };
        let _ = writeln!(out, "{file_name}: {} mistake{s}", mistakes.len());
        out
    }

    /// Returns one line for each mistake: `file:line:column: message, expected … (hint)`.
    pub fn lines(&self, file_name: &str, text: &str) -> Vec<String> {
        let mistakes = self.mistakes();
        let shown = ShownLines::new(file_name, text, &mistakes);
        mistakes
            .into_iter()
            .map(|mistake| shown.line(mistake))
            .collect()
    }
}

#[cfg(test)]
mod tests;
