//! What is wrong with a file: every mistake with its place, what was expected, and a hint.
//!
//! [`Report::render`] is for people at a terminal: the source line with a caret under the culprit.
//! [`Report::lines`] is for logs: one line a mistake. A report never holds what a variable of the
//! file stands for, so neither can show it, and whoever adds a mistake redacts the value that it quotes;
//! here passwords that stand in the file itself are overwritten in its lines.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet, normalize_untrusted_str};

use super::secrets::overwritten;

/// The mistakes of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    mistakes: Vec<Mistake>,
    /// Places whose text came out of a variable, and is not to be repeated.
    redacted: Vec<Range<usize>>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Bytes of the file it points at.
    pub span: Range<usize>,
    /// What is wrong, in a sentence without its full stop.
    pub message: String,
    /// What was expected there, as a noun; the label at the caret says "expected …". May be empty.
    pub expected: String,
    /// How to mend it.
    pub hint: Option<String>,
}

impl Mistake {
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

impl Report {
    /// Adds a mistake; `expected` says what was expected there, as a noun, or nothing.
    pub fn mistake(
        &mut self,
        place: &Range<usize>,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) -> &mut Mistake {
        self.mistakes.push_mut(Mistake {
            span: place.clone(),
            message: message.into(),
            expected: expected.into(),
            hint: None,
        })
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// Returns how many mistakes there are so far.
    pub(super) fn count(&self) -> usize {
        self.mistakes.len()
    }

    /// Notes that the text at `span` came out of a variable, and is not to be repeated.
    pub(super) fn redact(&mut self, span: Range<usize>) {
        self.redacted.push(span);
    }

    /// Adds what a later stage found.
    ///
    /// What it says of a place that has a mistake already follows from that, and is left out; what
    /// it says of a variable's value is said without the value.
    pub fn absorb(&mut self, later: Self) {
        let known = Places::of(self.mistakes.iter().map(|mistake| &mistake.span));
        let redacted = Places::of(&self.redacted);
        for mut mistake in later.mistakes {
            if known.touch(&mistake.span) {
                continue;
            }
            if redacted.touch(&mistake.span) {
                "what this variable stands for does not fit here".clone_into(&mut mistake.message);
                mistake.hint = None;
            }
            self.mistakes.push(mistake);
        }
    }

    /// Returns the mistakes in the order of their places, each once.
    pub fn mistakes(&self) -> Vec<&Mistake> {
        let mut sorted: Vec<_> = self.mistakes.iter().collect();
        sorted.sort_by_key(|m| (m.span.start, m.span.end, &m.message));
        sorted.dedup();
        sorted
    }

    /// Renders the mistakes for a terminal, `text` being the file's: for each the place, the
    /// line, a caret, what was expected and a hint. The last line counts them.
    pub fn render(&self, file_name: &str, text: &str, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mistakes = self.mistakes();
        let text = overwritten(text);
        let text = showable(&text);
        let lines = Lines::of(&text);
        let mut out = String::new();
        for mistake in &mistakes {
            out += &render(mistake, file_name, &lines, &renderer);
            out += "\n\n";
        }
        let s = if mistakes.len() == 1 { "" } else { "s" };
        let _ = writeln!(out, "{file_name}: {} mistake{s}", mistakes.len());
        out
    }

    /// Returns one line for each mistake: `file:line:column: message (hint)`.
    pub fn lines(&self, file_name: &str, text: &str) -> Vec<String> {
        let lines = Lines::of(text);
        let line = |mistake: &Mistake| {
            let (line, column) = lines.place(mistake.span.start);
            let message = printable(&mistake.message);
            let mut out = format!("{file_name}:{line}:{column}: {message}");
            if !mistake.expected.is_empty() {
                let _ = write!(out, ", expected {}", printable(&mistake.expected));
            }
            if let Some(hint) = &mistake.hint {
                let _ = write!(out, " ({})", printable(hint));
            }
            out
        };
        self.mistakes().into_iter().map(line).collect()
    }
}

fn render(mistake: &Mistake, file_name: &str, lines: &Lines<'_>, renderer: &Renderer) -> String {
    let label = match mistake.expected.as_str() {
        "" => None,
        expected => Some(format!("expected {}", printable(expected))),
    };
    // The renderer reads all of its source, so it is given no more than what it shows.
    let span = clamp(lines.text, &mistake.span);
    let (number, around) = lines.around(&span);
    let caret = AnnotationKind::Primary
        .span(span.start - around.start..span.end - around.start)
        .label(label);
    let snippet = Snippet::source(&lines.text[around])
        .line_start(number)
        .path(file_name)
        .annotation(caret);
    let mut group = Level::ERROR
        .primary_title(printable(&mistake.message))
        .element(snippet);
    if let Some(hint) = &mistake.hint {
        group = group.element(Level::HELP.message(printable(hint)));
    }
    renderer.render(&[group])
}

/// Shows control characters as their pictures, the end of a line among them: what a file has in
/// a string can then neither begin a line of the log nor look like another mistake.
fn printable(text: &str) -> String {
    let text = normalize_untrusted_str(text).replace('\n', "␊");
    text.replace(is_terminal_control, "\u{fffd}")
}

/// Replaces what is left of controls in a file's text by characters of the same length, so that
/// places stay.
fn showable(text: &str) -> Cow<'_, str> {
    if text.contains(is_c1) {
        Cow::Owned(text.replace(is_c1, "·"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The controls beyond ASCII, which the renderer lets pass and terminals obey: U+009B begins an
/// escape sequence as ESC and `[` do.
fn is_c1(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}')
}

/// Those and the separators that some take for the end of a line.
fn is_terminal_control(c: char) -> bool {
    is_c1(c) || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Brings a span onto the text's character boundaries.
fn clamp(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    start..text.ceil_char_boundary(span.end).max(start)
}

/// A text and where its lines begin, so that thousands of places are found in it.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let after = text.match_indices('\n').map(|(newline, _)| newline + 1);
        let starts = [0].into_iter().chain(after).collect();
        Self { text, starts }
    }

    /// Returns the index of the line that `offset` is in.
    fn index(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset) - 1
    }

    /// Returns line and column, both from 1, the column in characters.
    fn place(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.index(offset);
        let before = &self.text[self.starts[line]..offset];
        (line + 1, before.chars().count() + 1)
    }

    /// Returns the number of the line where `span` begins, and the bytes of all its lines.
    fn around(&self, span: &Range<usize>) -> (usize, Range<usize>) {
        let first = self.index(span.start);
        let after = self.starts.get(self.index(span.end) + 1);
        let end = after.copied().unwrap_or(self.text.len());
        (first + 1, self.starts[first]..end)
    }
}

/// Places of a file, ready to be asked which of them others overlap.
struct Places {
    /// By start, then end.
    sorted: Vec<(usize, usize)>,
    /// The furthest end up to each of them.
    ends: Vec<usize>,
}

impl Places {
    fn of<'s>(spans: impl IntoIterator<Item = &'s Range<usize>>) -> Self {
        let spans = spans.into_iter().map(|span| (span.start, span.end));
        let mut sorted: Vec<_> = spans.collect();
        sorted.sort_unstable();
        let furthest = |end: &mut usize, span: &(usize, usize)| {
            *end = span.1.max(*end);
            Some(*end)
        };
        let ends = sorted.iter().scan(0, furthest).collect();
        Self { sorted, ends }
    }

    /// Says whether one of the places overlaps `span`, or is the same, as two empty ones can be.
    fn touch(&self, span: &Range<usize>) -> bool {
        let before = self.sorted.partition_point(|(start, _)| *start < span.end);
        let overlaps = before > 0 && self.ends[before - 1] > span.start;
        overlaps || (self.sorted.binary_search(&(span.start, span.end))).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a = 1\nß = \"é\" # x\n";

    #[test]
    fn columns_count_characters_in_both_forms() {
        let mut report = Report::default();
        report
            .mistake(&(16..17), "no comment", "")
            .hint("leave it out");
        assert_eq!(
            report.lines("f.toml", TEXT),
            ["f.toml:2:9: no comment (leave it out)"]
        );
        assert_eq!(
            report.render("f.toml", TEXT, false),
            "error: no comment\n --> f.toml:2:9\n  |\n2 | ß = \"é\" # x\n  |         ^\n  |\n  = help: leave it out\n\nf.toml: 1 mistake\n"
        );
    }

    #[test]
    fn a_mistake_stays_on_its_line_whatever_the_file_has_in_a_string() {
        let mut report = Report::default();
        let hostile = "`a\nerror: b\u{1b}[2J` is not a duration";
        report
            .mistake(&(0..1), hostile, "")
            .hint("did you mean `a\n`?");
        assert_eq!(
            report.lines("f.toml", TEXT),
            ["f.toml:1:1: `a␊error: b␛[2J` is not a duration (did you mean `a␊`?)"]
        );
        let rendered = report.render("f.toml", TEXT, false);
        assert!(
            rendered.starts_with("error: `a␊error: b␛[2J` is"),
            "{rendered}"
        );
    }

    #[test]
    fn controls_beyond_ascii_reach_no_terminal() {
        let text = "a = \"\u{9b}31m\u{85}\" # ß\n";
        let mut report = Report::default();
        report.mistake(&(4..14), "`\u{9b}31m\u{2028}` is no number", "");
        assert_eq!(
            report.lines("f.toml", text),
            ["f.toml:1:5: `\u{fffd}31m\u{fffd}` is no number"]
        );
        let rendered = report.render("f.toml", text, false);
        assert!(rendered.contains("1 | a = \"·31m·\" # ß\n"), "{rendered}");
        assert!(
            !rendered.contains(['\u{85}', '\u{9b}', '\u{2028}']),
            "{rendered}"
        );
    }

    fn mistake(span: Range<usize>, message: &str, expected: &str) -> Mistake {
        Mistake {
            span,
            message: message.to_owned(),
            expected: expected.to_owned(),
            hint: None,
        }
    }

    #[test]
    fn mistakes_are_sorted_by_place_and_said_once() {
        let mut report = Report::default();
        for (place, message) in [(4..5, "late"), (0..1, "early"), (4..5, "late")] {
            report.mistake(&place, message, "");
        }
        let (early, late) = (mistake(0..1, "early", ""), mistake(4..5, "late", ""));
        assert_eq!(report.mistakes(), [&early, &late]);
    }

    #[test]
    fn what_follows_from_a_mistake_is_left_out() {
        let mut report = Report::default();
        report.mistake(&(2..6), "cause", "");
        let mut later = Report::default();
        later.mistake(&(4..9), "effect", "");
        later.mistake(&(6..9), "another", "");
        report.absorb(later);
        let (cause, another) = (mistake(2..6, "cause", ""), mistake(6..9, "another", ""));
        assert_eq!(report.mistakes(), [&cause, &another]);
    }

    #[test]
    fn what_a_variable_stands_for_is_not_repeated() {
        let mut report = Report::default();
        report.redact(2..6);
        let mut later = Report::default();
        later
            .mistake(&(2..6), "no upstream `hunter2`", "an upstream")
            .hint("did you mean `hunter`?");
        report.absorb(later);
        let message = "what this variable stands for does not fit here";
        assert_eq!(report.mistakes(), [&mistake(2..6, message, "an upstream")]);
    }
}
