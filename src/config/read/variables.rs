//! Variables in the strings of a file: `${NAME}`, `${NAME:-default}`, `${file:/run/secrets/x}`.
//!
//! Parsed strings are expanded, not the file's text: what a variable holds can neither move the
//! place of a mistake nor become keys of its own. What it stands for is not expanded again.

use std::borrow::Cow;

use crate::config::value::{Wrong, file};

/// Looks a variable of the environment up.
pub type Env<'e> = dyn Fn(&str) -> Option<String> + 'e;

/// A variable that stands for nothing, as the file writes it, and why.
pub(super) type Undefined<'t> = (&'t str, Wrong);

/// Replaces the variables of `text`; `$${` stands for `${`. Borrowed if there are none.
pub(super) fn expand<'t>(text: &'t str, env: &Env<'_>) -> Result<Cow<'t, str>, Vec<Undefined<'t>>> {
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
            let wrong = Wrong::new("is not closed", "`}` after its name").hint(PLAIN);
            undefined.push((&rest[at..], wrong));
            rest = "";
            break;
        };
        let written = &rest[at..=at + end];
        match resolve(&written[2..end], env) {
            Ok(value) => out += &value,
            Err(wrong) => undefined.push((written, wrong)),
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

fn resolve(inner: &str, env: &Env<'_>) -> Result<String, Wrong> {
    if let Some(path) = inner.strip_prefix("file:") {
        let wrong = Wrong::new("cannot be read", "a file with the value");
        return secret(path).map_err(|why| wrong.hint(why));
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    if !is_name(name) {
        let expected = "`${NAME}`, `${NAME:-default}` or `${file:/path}`";
        return Err(Wrong::new("is not a variable", expected).hint(PLAIN));
    }
    match (env(name), default) {
        // As in a shell, `:-` also stands in for an empty variable.
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(
            Wrong::new("is not defined", "a variable of the environment")
                .hint(format!("set it, or give a default: `${{{name}:-…}}`")),
        ),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|c: char| !c.is_ascii_digit()) && name.bytes().all(is_part)
}

/// Reads a secret; a newline at its end is the editor's.
fn secret(path: &str) -> Result<String, String> {
    let text = String::from_utf8(file(path, SECRET_BYTES_MAX)?);
    let mut text = text.map_err(|_| "it is not UTF-8".to_owned())?;
    if text.ends_with('\n') {
        text.truncate(text.len() - 1);
        text.truncate(text.strip_suffix('\r').unwrap_or(&text).len());
    }
    Ok(text)
}

const PLAIN: &str = "for a plain `${` write `$${`";
/// Largest file that a variable can stand for.
const SECRET_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use std::fs;

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
        let hint = undefined[0].1.hint.as_deref();
        assert_eq!(hint, Some("it is larger than 65536 bytes"));
    }

    #[test]
    fn every_undefined_variable_is_said() {
        let undefined =
            expand("${NO} ${A} ${1x} ${file:/nonexistent} ${A", &env).expect_err("four");
        let said = undefined
            .iter()
            .map(|(written, wrong)| (*written, wrong.problem));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                ("${NO}", "is not defined"),
                ("${1x}", "is not a variable"),
                ("${file:/nonexistent}", "cannot be read"),
                ("${A", "is not closed"),
            ]
        );
        let hint = undefined[2].1.hint.as_deref();
        assert_eq!(hint, Some("the system says: entity not found"));
    }
}
