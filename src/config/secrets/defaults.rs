//! Hides the defaults of variables: `${PASSWORD:-default}` has a secret in the file itself.

use std::borrow::Cow;

use crate::config::pieces::only_variable;

/// Returns a text in which only the names of variables are left: `${PASSWORD…}`. Paths of files are kept.
pub(in crate::config) fn without_defaults(text: &str) -> Cow<'_, str> {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(START) {
        let name = start + START.len();
        let name_end = name + name_len(&rest[name..]);
        shown.push_str(&rest[..name_end]);
        rest = &rest[name_end..];
        let is_path = rest.starts_with(':') && shown.ends_with("${file");
        if !rest.is_empty() && !rest.starts_with('}') && !is_path {
            shown.push('…');
            rest = &rest[rest.find('}').unwrap_or(rest.len())..];
        }
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(shown + rest)
}

/// Whether a text is a single variable, without a default.
pub(super) fn is_variable(text: &str) -> bool {
    only_variable(text).is_some() && without_defaults(text) == text
}

fn name_len(text: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// How a variable begins.
const START: &str = "${";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_not_shown() {
        for (text, shown) in [
            ("a", "a"),
            ("${A}", "${A}"),
            ("${A:-secret}", "${A…}"),
            ("x${A:?secret}y${B}", "x${A…}y${B}"),
            ("${A secret", "${A…"),
            ("${A", "${A"),
            ("${A:-${B:-secret}}", "${A…}}"),
            ("${file:/run/a}", "${file:/run/a}"),
            ("${file:/run/${A:-secret}/x}", "${file:/run/${A…}/x}"),
            ("$${A:-secret}", "$${A…}"),
        ] {
            assert_eq!(without_defaults(text), shown);
        }
        assert!(is_variable("${A}") && is_variable("${file:/run/${A}}"));
        assert!(!is_variable("${A:-secret}") && !is_variable("${A}${B}"));
    }
}
