//! The Forwarded field (RFC 7239), read from the right.
//!
//! The trusted proxy's own element is the rightmost, and it is well-formed; a forger may have
//! written anything to the left of it. When the line is read from the right, a quote that a forger
//! left open cannot swallow the proxy's element.

/// Splits a line at the commas outside of quotes, from right to left; elements are trimmed.
pub(super) fn elements_from_right(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let comma = last_comma(text);
        rest = comma.map(|at| &text[..at]);
        Some(text[comma.map_or(0, |at| at + 1)..].trim_ascii())
    })
}

fn last_comma(text: &[u8]) -> Option<usize> {
    let mut quoted = false;
    (0..text.len()).rev().find(|&at| {
        if text[at] == b'"' && !is_escaped(text, at) {
            quoted = !quoted;
        }
        text[at] == b',' && !quoted
    })
}

/// Whether an odd number of backslashes precedes `at`.
fn is_escaped(text: &[u8], at: usize) -> bool {
    let backslashes = text[..at].iter().rev().take_while(|&&byte| byte == b'\\');
    backslashes.count() % 2 == 1
}

/// Returns the value of an element's one `for`, without quotes; none if there is no `for`, if there
/// are two, or if the element cannot be read.
pub(super) fn node(element: &[u8]) -> Option<&[u8]> {
    let mut node = None;
    let mut rest = element;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(b";") {
            rest = after.trim_ascii_start();
            continue;
        }
        let equals = rest.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (&rest[..equals], &rest[equals + 1..]);
        // A stray quote in a name would move the ends of elements for a reader that joins the lines.
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return None;
        }
        let (value, after) = split_value(value)?;
        rest = after;
        if name.eq_ignore_ascii_case(b"for") && node.replace(value).is_some() {
            return None;
        }
    }
    node
}

/// Whether a byte may be in a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Splits a token or quoted string from the rest, which is empty or begins with `;`.
fn split_value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let is_end = |&at: &usize| quoted[at] == b'"' && !is_escaped(quoted, at);
        let end = (0..quoted.len()).find(is_end)?;
        let after = quoted[end + 1..].trim_ascii_start();
        return matches!(after, [] | [b';', ..]).then_some((&quoted[..end], after));
    }
    let end = (text.iter().position(|&byte| byte == b';')).unwrap_or(text.len());
    let value = text[..end].trim_ascii_end();
    (!value.is_empty() && !value.contains(&b'"')).then_some((value, &text[end..]))
}
