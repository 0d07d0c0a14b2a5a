//! Reports what is wrong with a text of the file.

use std::ops::Range;

use crate::config::report::Report;
use crate::config::secrets::redacted;
use crate::config::value::ValueError;

/// Reports what is wrong with a text of the file, which must not contain the values of variables.
///
/// If the text contains passwords, these are overwritten before it becomes part of the message, and the hint, which may
/// repeat the text, is left out.
pub(in crate::config) fn say(
    report: &mut Report,
    wrong: ValueError,
    text: &str,
    span: Range<usize>,
) {
    let redacted = redacted(text);
    let subject = match wrong.subject {
        Some(subject) => subject.to_owned(),
        None if text.is_empty() && wrong.problem == "is empty" => "this string".to_owned(),
        None if text.is_empty() => "an empty string".to_owned(),
        None if redacted.chars().count() > QUOTED_LEN_MAX => {
            let start: String = redacted.chars().take(QUOTED_LEN_MAX).collect();
            format!("`{start}…`")
        }
        None => format!("`{redacted}`"),
    };
    let is_safe = wrong.subject.is_some() || redacted == text;
    let hint = wrong.hint.filter(|_| is_safe);
    let message = format!("{subject} {}", wrong.problem);
    (report.mistake(&span, message, wrong.expected)).maybe_hint(hint);
}

/// Most characters of a text that a message repeats.
const QUOTED_LEN_MAX: usize = 60;
