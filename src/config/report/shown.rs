//! Shows mistakes: at a terminal with their line and a caret, in a log on one line each.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::controls::printable;
use super::lines::Lines;
use super::mistake::{Mistake, OtherFile};

/// Name and lines of each file that has mistakes.
pub(super) struct ShownLines<'t> {
    configuration: (&'t str, Lines<'t>),
    others: Vec<(&'t Arc<OtherFile>, Lines<'t>)>,
}

impl<'t> ShownLines<'t> {
    /// Finds the lines of the configuration, and of the other files that mistakes are in.
    pub(super) fn new(name: &'t str, text: &'t str, mistakes: &[&'t Mistake]) -> Self {
        let mut others: Vec<(&Arc<OtherFile>, Lines<'t>)> = Vec::new();
        let places =
            (mistakes.iter()).flat_map(|mistake| [Some(&mistake.file), mistake.first_file()]);
        for file in places.flatten().flatten() {
            if !others.iter().any(|(known, _)| Arc::ptr_eq(known, file)) {
                others.push((file, Lines::of(&file.text)));
            }
        }
        Self {
            configuration: (name, Lines::of(text)),
            others,
        }
    }

    fn file(&self, file: Option<&Arc<OtherFile>>) -> (&str, &Lines<'t>) {
        let other = file.and_then(|file| {
            let mut others = self.others.iter();
            others.find(|(known, _)| Arc::ptr_eq(known, file))
        });
        match other {
            Some((file, lines)) => (&file.name, lines),
            None => (self.configuration.0, &self.configuration.1),
        }
    }

    /// Writes a mistake on one line.
    pub(super) fn line(&self, mistake: &Mistake) -> String {
        let (name, lines) = self.file(mistake.file.as_ref());
        let (line, column) = lines.place(mistake.span.start);
        let message = printable(&mistake.message);
        let mut out = format!("{name}:{line}:{column}: {message}");
        if !mistake.expected.is_empty() {
            let _ = write!(out, ", expected {}", printable(&mistake.expected));
        }
        if let Some(first) = self.first(mistake) {
            let _ = write!(out, "; {first}");
        }
        if let Some(hint) = &mistake.hint {
            let _ = write!(out, " ({})", printable(hint));
        }
        out
    }

    /// Renders a mistake for a terminal.
    pub(super) fn render(&self, mistake: &Mistake, renderer: &Renderer) -> String {
        let (name, lines) = self.file(mistake.file.as_ref());
        let label = match mistake.expected.as_str() {
            "" => None,
            expected => Some(format!("expected {}", printable(expected))),
        };
        // The renderer reads its whole source, so it is given only the lines that it shows.
        let span = clamp(lines.text, &mistake.span);
        let (number, around) = lines.around(&span);
        let caret = AnnotationKind::Primary
            .span(span.start - around.start..span.end - around.start)
            .label(label);
        let snippet = Snippet::source(&lines.text[around])
            .line_start(number)
            .path(name)
            .annotation(caret);
        let mut group = Level::ERROR
            .primary_title(printable(&mistake.message))
            .element(snippet);
        if let Some(first) = self.first(mistake) {
            group = group.element(Level::NOTE.message(first));
        }
        if let Some(hint) = &mistake.hint {
            group = group.element(Level::HELP.message(printable(hint)));
        }
        renderer.render(&[group])
    }

    /// Says where the same thing is given first, if the mistake is that it is given twice.
    fn first(&self, mistake: &Mistake) -> Option<String> {
        let first = mistake.first.as_ref()?;
        let (name, lines) = self.file(first.file.as_ref());
        let (line, column) = lines.place(first.span.start);
        Some(format!("the first one is at {name}:{line}:{column}"))
    }
}

/// Widens a span to the text's character boundaries.
fn clamp(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    start..text.ceil_char_boundary(span.end).max(start)
}
