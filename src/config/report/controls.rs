//! Characters of a file that a terminal obeys.

use std::borrow::Cow;

use annotate_snippets::normalize_untrusted_str;

/// Replaces what is left of controls in a file's text by characters of the same length, so that
/// places stay.
pub(super) fn showable(text: &str) -> Cow<'_, str> {
    if text.contains(is_c1) {
        Cow::Owned(text.replace(is_c1, "·"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The controls beyond ASCII, which the renderer lets pass and terminals obey: U+009B begins an
/// escape sequence as ESC and `[` do.
pub(super) fn is_c1(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}')
}

/// Shows control characters as their pictures, the end of a line among them: what a file has in
/// a string can then neither begin a line of the log nor look like another mistake.
pub(super) fn printable(text: &str) -> String {
    let text = normalize_untrusted_str(text).replace('\n', "␊");
    text.replace(is_terminal_control, "\u{fffd}")
}

/// Those and the separators that some take for the end of a line.
fn is_terminal_control(c: char) -> bool {
    is_c1(c) || matches!(c, '\u{2028}' | '\u{2029}')
}
