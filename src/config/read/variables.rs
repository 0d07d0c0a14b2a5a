//! Variables in the strings of a file: `${NAME}`, `${NAME:-default}`, `${file:/run/secrets/x}`.
//!
//! Parsed strings are expanded, not the file's text: what a variable holds can neither move the
//! place of a mistake nor become keys of its own. What it stands for is not expanded again.

use std::borrow::Cow;
use std::fs;
use std::io::Read as _;

/// Looks a variable of the environment up.
pub type Env<'e> = dyn Fn(&str) -> Option<String> + 'e;

/// A variable that stands for nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Undefined {
    /// As in the file: `${NAME}`.
    pub(super) written: String,
    pub(super) message: String,
    pub(super) expected: &'static str,
    pub(super) hint: Option<String>,
}

/// Replaces the variables of `text`; `$${` stands for `${`. Borrowed if there are none.
pub(super) fn expand<'t>(text: &'t str, env: &Env<'_>) -> Result<Cow<'t, str>, Vec<Undefined>> {
    if !text.contains("${") {
        return Ok(Cow::Borrowed(text));
    }
    let (mut out, mut undefined) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            out += before;
            out += "${";
            rest = &rest[at + 2..];
            continue;
        }
        out += &rest[..at];
        let Some(end) = rest[at..].find('}') else {
            undefined.push(unclosed(&rest[at..]));
            rest = "";
            break;
        };
        let written = &rest[at..=at + end];
        match resolve(&written[2..end], written, env) {
            Ok(value) => out += &value,
            Err(fault) => undefined.push(fault),
        }
        rest = &rest[at + end + 1..];
    }
    out += rest;
    if undefined.is_empty() {
        Ok(Cow::Owned(out))
    } else {
        Err(undefined)
    }
}

fn resolve(inner: &str, written: &str, env: &Env<'_>) -> Result<String, Undefined> {
    let undefined = |message: String, expected, hint| Undefined {
        written: written.to_owned(),
        message,
        expected,
        hint,
    };
    if let Some(path) = inner.strip_prefix("file:") {
        return secret(path).map_err(|why| {
            let message = format!("file `{path}` cannot be read: {why}");
            undefined(message, "a file with the value", None)
        });
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    if !is_name(name) {
        return Err(undefined(
            format!("`{written}` is not a variable"),
            "`${NAME}`, `${NAME:-default}` or `${file:/path}`",
            Some("for a plain `${` write `$${`".to_owned()),
        ));
    }
    match (env(name), default) {
        // As in a shell, `:-` also stands in for an empty variable.
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(undefined(
            format!("variable `{name}` is not defined"),
            "a variable of the environment",
            Some(format!("set it, or give a default: `${{{name}:-…}}`")),
        )),
    }
}

fn unclosed(written: &str) -> Undefined {
    Undefined {
        written: written.to_owned(),
        message: "this variable is not closed".to_owned(),
        expected: "`}` after its name",
        hint: Some("for a plain `${` write `$${`".to_owned()),
    }
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Reads a secret; a newline at its end is the editor's.
fn secret(path: &str) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|error| error.kind().to_string())?;
    let mut text = String::new();
    let read = file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text);
    if read.map_err(|error| error.kind().to_string())? as u64 > SECRET_BYTES_MAX {
        return Err(format!("it is larger than {SECRET_BYTES_MAX} bytes"));
    }
    let end = text
        .strip_suffix('\n')
        .map(|text| text.strip_suffix('\r').unwrap_or(text));
    Ok(end.unwrap_or(&text).to_owned())
}

/// Largest file that a variable can stand for.
const SECRET_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "A" => Some("1${B}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_once() {
        for (text, expected) in [
            ("plain $A {A}", "plain $A {A}"),
            ("<${A}${EMPTY}>", "<1${B}>"),
            ("${NO:-x y}${EMPTY:-z}", "x yz"),
            ("${NO:-}", ""),
            ("$${A} $$${A}", "${A} $${A}"),
        ] {
            assert_eq!(expand(text, &env).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_file_loses_its_last_newline() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        for (content, expected) in [("a\nb\n\n", "a\nb\n"), ("a\r\n", "a"), ("a", "a")] {
            fs::write(&path, content).expect("a file");
            let text = format!("${{file:{}}}", path.display());
            assert_eq!(expand(&text, &env).as_deref(), Ok(expected));
        }
        fs::write(&path, "a".repeat(65_537)).expect("a file");
        let text = format!("${{file:{}}}", path.display());
        let undefined = expand(&text, &env).expect_err("too large");
        assert!(
            undefined[0]
                .message
                .ends_with("it is larger than 65536 bytes")
        );
    }

    #[test]
    fn every_undefined_variable_is_said() {
        let undefined =
            expand("${NO} ${A} ${1x} ${file:/nonexistent} ${A", &env).expect_err("four");
        let said: Vec<_> = undefined
            .iter()
            .map(|u| (u.written.as_str(), u.message.as_str()))
            .collect();
        assert_eq!(
            said,
            [
                ("${NO}", "variable `NO` is not defined"),
                ("${1x}", "`${1x}` is not a variable"),
                (
                    "${file:/nonexistent}",
                    "file `/nonexistent` cannot be read: entity not found"
                ),
                ("${A", "this variable is not closed"),
            ]
        );
    }
}
