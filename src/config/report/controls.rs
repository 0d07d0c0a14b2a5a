//! Characters of a file that a terminal obeys.

use std::borrow::Cow;

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
