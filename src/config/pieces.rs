//! Finds the variables in a string of the file: `${NAME}`, and `${file:PATH}`, whose path may contain variables.
//!
//! Their values are the business of `read`.

/// A piece of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplatePiece<'t> {
    /// Literal text.
    Text(&'t str),
    /// A variable, with `${` and `}`.
    Variable(&'t str),
    /// A variable whose `}` is missing.
    Unclosed(&'t str),
}

/// Cuts a string into its pieces; `$${` stands for `${`.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = TemplatePiece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = match rest.find("${") {
            _ if rest.is_empty() => return None,
            None => (TemplatePiece::Text(rest), ""),
            Some(0) => match variable_len(rest) {
                None => (TemplatePiece::Unclosed(rest), ""),
                Some(len) => (TemplatePiece::Variable(&rest[..len]), &rest[len..]),
            },
            // The first `$` of `$${` is dropped, and the rest of it is text.
            Some(at) if rest[..at].ends_with('$') => match at {
                1 => (TemplatePiece::Text("${"), &rest[3..]),
                _ => (TemplatePiece::Text(&rest[..at - 1]), &rest[at - 1..]),
            },
            Some(at) => (TemplatePiece::Text(&rest[..at]), &rest[at..]),
        };
        rest = after;
        Some(piece)
    })
}

/// Returns the variable of a string, with `${` and `}`, if the string consists of it alone.
pub(super) fn only_variable(text: &str) -> Option<&str> {
    let mut pieces = pieces(text);
    match (pieces.next()?, pieces.next()) {
        (TemplatePiece::Variable(variable), None) => Some(variable),
        _ => None,
    }
}

/// Returns the path of a `${file:PATH}`, which may contain variables, or `None` for another variable.
pub(super) fn file_path(variable: &str) -> Option<&str> {
    variable.strip_prefix(FILE)?.strip_suffix('}')
}

/// Returns the length of the variable that a text begins with, including variables in the path of a file, or `None`
/// if its `}` is missing.
fn variable_len(text: &str) -> Option<usize> {
    let Some(path) = text.strip_prefix(FILE) else {
        return Some(text.find('}')? + 1);
    };
    let mut at = 0;
    loop {
        let rest = &path[at..];
        let close = rest.find('}')?;
        match rest.find("${").filter(|open| *open < close) {
            Some(_) => at += close + 1,
            None => return Some(FILE.len() + at + close + 1),
        }
    }
}

/// Beginning of a variable that stands for the content of a file.
const FILE: &str = "${file:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_have_variables_of_its_own() {
        for (text, variable, path) in [
            ("${A}", Some("${A}"), None),
            ("${file:/a}", Some("${file:/a}"), Some("/a")),
            ("${file:${A}/b}", Some("${file:${A}/b}"), Some("${A}/b")),
            (
                "${file:/${A}/${B:-c}}",
                Some("${file:/${A}/${B:-c}}"),
                Some("/${A}/${B:-c}"),
            ),
            ("${file:${A}/b", None, None),
            ("${file:${A/b}", None, None),
            ("${A}b", None, None),
            ("$${A}", None, None),
            ("a", None, None),
            ("", None, None),
        ] {
            assert_eq!(only_variable(text), variable, "{text}");
            assert_eq!(variable.and_then(file_path), path, "{text}");
        }
    }
}
