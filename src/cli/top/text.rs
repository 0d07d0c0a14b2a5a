//! Texts from the gateway and its clients, made safe for a terminal, and fitted into columns.

use std::fmt;

use ratatui::text::{Line, Span};
use serde::{Deserialize, Deserializer};

/// Text in which every character takes one or two columns of a terminal and has no other effect. Characters that would,
/// such as escape sequences, marks of direction and combining characters, are spelled out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SafeText(String);

impl SafeText {
    pub(super) fn of(text: &str) -> Self {
        let mut safe = String::new();
        for (count, c) in text.chars().enumerate() {
            if count == CHARS_MAX {
                safe.push('…');
                break;
            }
            let is_space = c.is_whitespace() && c != ' ';
            if c.is_control() || is_space || is_ambiguous(c) || columns(c) == 0 {
                safe.extend(c.escape_default());
            } else {
                safe.push(c);
            }
        }
        Self(safe)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SafeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(Self::of(&text.unwrap_or_default()))
    }
}

/// Whether terminals disagree on how many columns a character takes: some hide a soft hyphen, or make one picture of
/// the two halves of a flag, or of a face and its skin tone.
fn is_ambiguous(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// Returns how many columns a character takes.
fn columns(c: char) -> usize {
    Span::raw(&*c.encode_utf8(&mut [0; 4])).width()
}

/// Returns how many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// Shortens a text to `most` columns.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(1);
    let fits = |c: &char| {
        let wanted = columns(*c);
        let fits = wanted <= left;
        left = left.saturating_sub(wanted);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    if most == 0 { kept } else { kept + "…" }
}

/// Shortens a text to this many columns, or fills it up with spaces.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    let text = shortened(text, columns);
    let missing = columns - width(&text);
    text + &" ".repeat(missing)
}

/// Shortens a line to `most` columns.
pub(super) fn shortened_line(line: Line<'static>, most: usize) -> Line<'static> {
    let mut left = most;
    let mut spans = Vec::new();
    for span in line.spans {
        let text = shortened(&span.content, left);
        left -= width(&text);
        let is_cut = text != span.content;
        spans.push(Span::styled(text, span.style));
        if is_cut {
            break;
        }
    }
    Line::from(spans)
}

/// Breaks a text between words into lines of at most `columns` columns; longer words are shortened.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let word = shortened(word, columns);
        if !line.is_empty() && width(&line) + 1 + width(&word) > columns {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

/// Shows the time of day of a moment such as `2026-11-28T14:00:02.5Z`, and the date if that is not the date of `today`.
pub(super) fn time_of_day(moment: &SafeText, today: &SafeText) -> String {
    let text = moment.as_str();
    let date = |text: &str| text.get(..DATE.len()).map(str::to_owned);
    let is_whole = text.is_ascii() && text.len() > SECOND.len();
    match text.get(DATE.len() + 1..SECOND.len()) {
        Some(time) if is_whole && date(text) == date(today.as_str()) => time.to_owned(),
        Some(time) if is_whole => format!("{} {time}", &text[..DATE.len()]),
        _ => text.to_owned(),
    }
}

/// Shows a duration in seconds, minutes or hours.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

const DATE: &str = "2026-11-28";
const SECOND: &str = "2026-11-28T14:00:02";
/// Most characters of a text that are kept: clients' names, and texts on the store or a reload, are shorter.
const CHARS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        for (hostile, safe) in [
            ("203.0.113.9", "203.0.113.9"),
            ("a\u{1b}[2J\u{7}b", "a\\u{1b}[2J\\u{7}b"),
            ("a\r\n\tb", "a\\r\\n\\tb"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}drow\u{2066}", "\\u{202e}drow\\u{2066}"),
            ("\u{200f}\u{200e}\u{61c}", "\\u{200f}\\u{200e}\\u{61c}"),
            ("e\u{301}\u{200d}\u{feff}", "e\\u{301}\\u{200d}\\u{feff}"),
            ("\u{2028}\u{a0}\u{ad}", "\\u{2028}\\u{a0}\\u{ad}"),
            ("東京🚀", "東京🚀"),
            ("🇩🇪", "\\u{1f1e9}\\u{1f1ea}"),
        ] {
            assert_eq!(SafeText::of(hostile).as_str(), safe);
        }
        let long = SafeText::of(&"\u{202e}".repeat(10_000));
        assert_eq!(long.as_str().len(), CHARS_MAX * 8 + '…'.len_utf8());
    }

    #[test]
    fn fitted_text_takes_its_columns_whatever_it_is() {
        for (text, columns, fit) in [
            ("abc", 5, "abc  "),
            ("abcdef", 5, "abcd…"),
            ("東京都庁", 5, "東京…"),
            ("東京都庁", 4, "東… "),
            ("東", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fitted(text, columns), fit, "{text} in {columns}");
            assert_eq!(width(fit), columns);
        }
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(
            wrapped("a bc def ghijkl", 4),
            ["a bc", "def", "ghi…"].map(str::to_owned)
        );
    }

    #[test]
    fn a_date_is_shown_of_another_day_only() {
        let at = |text: &str| SafeText::of(text);
        let now = at("2026-11-28T14:00:02.123Z");
        for (moment, shown) in [
            ("2026-11-28T13:05:00.000Z", "13:05:00"),
            ("2026-11-27T13:05:00Z", "2026-11-27 13:05:00"),
            ("soon", "soon"),
            ("東京東京東京東京東京", "東京東京東京東京東京"),
        ] {
            assert_eq!(time_of_day(&at(moment), &now), shown);
        }
    }
}
