//! Replaces control characters, which a terminal would obey.

use std::borrow::Cow;

use annotate_snippets::normalize_untrusted_str;

/// Replaces those controls in a file's text that the renderer lets pass. The replacements have the same length, so that
/// places stay the same.
pub(super) fn showable(text: &str) -> Cow<'_, str> {
    if text.contains(is_c1) {
        Cow::Owned(text.replace(is_c1, "·"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Whether a character is a control beyond ASCII, which the renderer lets pass and terminals obey: U+009B begins an
/// escape sequence as ESC and `[` do.
pub(super) fn is_c1(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}')
}

/// Replaces control characters, including line ends, by visible ones, so that a string in a file can neither begin a
/// line of the log nor look like another mistake.
pub(super) fn printable(text: &str) -> String {
    let text = normalize_untrusted_str(text).replace('\n', "␊");
    text.replace(is_terminal_control, "\u{fffd}")
}

/// Whether a character is a control beyond ASCII, or a separator that some programs take for a line end.
fn is_terminal_control(c: char) -> bool {
    is_c1(c) || matches!(c, '\u{2028}' | '\u{2029}')
}
