//! Where a quoted text of a file ends.

/// Returns how long a quoted text is: to its closing quote, or to the end of what it may span.
pub(super) fn closing(text: &str, quote: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        let ends = text[at..].starts_with(quote) || (quote.len() == 1 && character == '\n');
        if ends && !is_escaped {
            return at;
        }
        is_escaped = character == '\\' && !is_escaped && quote.starts_with('"');
    }
    text.len()
}
