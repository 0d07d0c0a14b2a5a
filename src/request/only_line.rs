//! Fields that may have one line only: of several lines, origins may read the first or the last.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Returns the value of a field if it has exactly one line.
pub fn only_line<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    lines.next().filter(|_| lines.next().is_none())
}
