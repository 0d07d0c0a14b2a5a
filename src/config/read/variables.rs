//! Expands the variables in strings of a file: `${NAME}`, `${NAME:-default}`, `${file:/run/secrets/x}`, and
//! `${file:${NAME}/x}`.
//!
//! Parsed strings are expanded, not the file's text, so the value of a variable can neither shift the places of
//! mistakes nor become keys of its own. Values are not expanded again.

use std::borrow::Cow;
use std::fs;

use crate::config::pieces::{TemplatePiece, file_path, pieces};
use crate::config::value::{UnreadFile, ValueError, file};

/// Looks up a variable of the environment.
pub type Env<'e> = dyn Fn(&str) -> Option<String> + 'e;

/// A variable that cannot be expanded, as written in the file, and the reason.
pub(super) type Undefined<'t> = (&'t str, ValueError);

/// A string of the file whose `${file:…}` variables can be read again; other variables cannot change
/// while the process runs.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    written: Box<str>,
    parts: Vec<TemplatePart>,
}

#[derive(Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// Content of the file at this path.
    File(String),
}

impl Template {
    /// Returns the template of a string, or `None` if it has no `${file:…}`, or if one of its variables is wrong.
    pub(super) fn of(written: &str, env: &Env<'_>) -> Option<Self> {
        let parts = pieces(written).map(|piece| match piece {
            TemplatePiece::Text(text) => Some(TemplatePart::Text(text.to_owned())),
            TemplatePiece::Variable(variable) => match file_path(variable) {
                Some(path) => Some(TemplatePart::File(expanded_path(path, env).ok()?)),
                None => named(variable, env).ok().map(TemplatePart::Text),
            },
            TemplatePiece::Unclosed(_) => None,
        });
        let parts: Vec<TemplatePart> = parts.collect::<Option<_>>()?;
        let is_file = |part: &TemplatePart| matches!(part, TemplatePart::File(_));
        parts.iter().any(is_file).then(|| Self {
            written: written.into(),
            parts,
        })
    }

    /// Returns the string as written in the file.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Reads the files again, and returns the expanded string.
    ///
    /// # Errors
    /// Returns the reason why a file cannot be read. Only regular files are read, because opening a pipe would wait for
    /// a writer.
    pub fn read(&self) -> Result<String, String> {
        let parts = self.parts.iter().map(|part| match part {
            TemplatePart::Text(text) => Ok(text.clone()),
            TemplatePart::File(path) if fs::metadata(path).is_ok_and(|file| !file.is_file()) => {
                Err("it is not a regular file".to_owned())
            }
            TemplatePart::File(path) => secret(path).map_err(|unread| unread.why),
        });
        parts.collect()
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Template")
    }
}

/// Replaces the variables of `text`; `$${` stands for `${`. Returns `text` itself if it contains no `${`. Adds to
/// `padded` the variables whose values begin or end with white space.
pub(super) fn expand<'t>(
    text: &'t str,
    env: &Env<'_>,
    padded: &mut Vec<&'t str>,
) -> Result<Cow<'t, str>, Vec<Undefined<'t>>> {
    if !text.contains("${") {
        return Ok(Cow::Borrowed(text));
    }
    let (mut out, mut undefined) = (String::new(), Vec::new());
    for piece in pieces(text) {
        match piece {
            TemplatePiece::Text(text) => out += text,
            TemplatePiece::Variable(variable) => match resolve(variable, env) {
                Ok(value) => {
                    if value.trim() != value {
                        padded.push(variable);
                    }
                    out += &value;
                }
                Err(wrong) => undefined.extend(wrong),
            },
            TemplatePiece::Unclosed(variable) => undefined.push(unclosed(variable)),
        }
    }
    if undefined.is_empty() {
        Ok(Cow::Owned(out))
    } else {
        Err(undefined)
    }
}

fn unclosed(variable: &str) -> Undefined<'_> {
    let wrong = ValueError::new("is not closed", "`}` after its name").hint(PLAIN);
    // The text may be a password that contains `${`, so it is not quoted.
    (variable, wrong.unquoted("this variable"))
}

fn resolve<'t>(variable: &'t str, env: &Env<'_>) -> Result<String, Vec<Undefined<'t>>> {
    let Some(path) = file_path(variable) else {
        return named(variable, env).map_err(|wrong| vec![(variable, wrong)]);
    };
    secret(&expanded_path(path, env)?).map_err(|unread| {
        let wrong = ValueError::new("cannot be read", "a file with the value");
        vec![(variable, wrong.unread(unread))]
    })
}

/// Returns the paths of a string's `${file:…}` variables, whether the files can be read or not.
pub(super) fn secret_files(text: &str, env: &Env<'_>) -> Vec<String> {
    let paths = pieces(text).filter_map(|piece| match piece {
        TemplatePiece::Variable(variable) => expanded_path(file_path(variable)?, env).ok(),
        _ => None,
    });
    paths.collect()
}

/// Replaces the variables in the path of a file, which must all be variables of the environment.
fn expanded_path<'t>(path: &'t str, env: &Env<'_>) -> Result<String, Vec<Undefined<'t>>> {
    let (mut out, mut undefined) = (String::new(), Vec::new());
    for piece in pieces(path) {
        match piece {
            TemplatePiece::Text(text) => out += text,
            TemplatePiece::Variable(variable) => match named(variable, env) {
                Ok(value) => out += &value,
                Err(wrong) => undefined.push((variable, wrong)),
            },
            TemplatePiece::Unclosed(variable) => undefined.push(unclosed(variable)),
        }
    }
    if undefined.is_empty() {
        Ok(out)
    } else {
        Err(undefined)
    }
}

/// Returns the value of a variable of the environment, or its default.
fn named(variable: &str, env: &Env<'_>) -> Result<String, ValueError> {
    let inner = &variable[2..variable.len() - 1];
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    if !is_name(name) {
        let expected = "`${NAME}`, `${NAME:-default}` or `${file:/path}`";
        let (name, rest) = name.split_at(name.find(['-', '=', '?', ':']).unwrap_or(name.len()));
        let hint = if variable.starts_with("${file:") {
            "the path of a file may contain only variables of the environment".to_owned()
        } else if is_name(name) && !rest.is_empty() {
            format!("a default is written `${{{name}:-default}}`")
        } else {
            PLAIN.to_owned()
        };
        return Err(ValueError::new("is not a variable", expected).hint(hint));
    }
    if default.is_some_and(|default| default.contains("${")) {
        let wrong = ValueError::new(
            "has a variable in its default",
            "a default without variables",
        );
        return Err(wrong);
    }
    match (env(name), default) {
        // As in a shell, `:-` also stands in for an empty variable.
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(
            ValueError::new("is not defined", "a variable of the environment")
                .hint(format!("set it, or give a default: `${{{name}:-…}}`"))
                .missing(),
        ),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|c: char| !c.is_ascii_digit()) && name.bytes().all(is_part)
}

/// Reads a secret from a file, without the line end that editors add at the end of the file.
fn secret(path: &str) -> Result<String, UnreadFile> {
    let text = String::from_utf8(file(path, SECRET_BYTES_MAX)?);
    let mut text = text.map_err(|_| UnreadFile::because("it is not UTF-8"))?;
    if text.ends_with('\n') {
        text.truncate(text.len() - 1);
        text.truncate(text.strip_suffix('\r').unwrap_or(&text).len());
    }
    Ok(text)
}

const PLAIN: &str = "for a plain `${` write `$${`";
/// Largest file that a variable can stand for, in bytes.
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

    fn replaced(text: &str) -> Result<Cow<'_, str>, Vec<Undefined<'_>>> {
        expand(text, &env, &mut Vec::new())
    }

    #[test]
    fn white_space_around_a_value_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let env = |name: &str| Some(name.replace("SPACE", " ").replace("LINE", "\n"));
        for (content, variables, is_padded) in [
            ("a b\n", ["A_SPACE_B", "B"], [false; 3]),
            ("a\r\n", ["SPACE", "LINE"], [true, true, false]),
            ("a\n\n", ["ASPACE", "B"], [true, false, true]),
            ("\ta", ["LINEA", "B"], [true, false, true]),
            (" ", ["A", "BLINE"], [false, true, true]),
            ("", ["A", "B"], [false; 3]),
        ] {
            let path = dir.path().join("secret");
            fs::write(&path, content).expect("a file");
            let file = format!("${{file:{}}}", path.display());
            let [one, two] = variables.map(|name| format!("${{{name}}}"));
            let text = format!(" {one} {two} {file} ");
            let mut padded = Vec::new();
            expand(&text, &env, &mut padded).expect("they are defined");
            let expected = [&one, &two, &file].into_iter().zip(is_padded);
            let expected =
                expected.filter_map(|(variable, is_padded)| is_padded.then_some(variable));
            assert_eq!(
                padded,
                expected.collect::<Vec<_>>(),
                "{content:?}, {variables:?}"
            );
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
            ("$$$${A}$${${A}", "$$${A}${1${B}"),
        ] {
            assert_eq!(replaced(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_file_loses_its_last_newline() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        for (content, expected) in [("a\nb\n\n", "a\nb\n"), ("a\r\n", "a"), ("a", "a")] {
            fs::write(&path, content).expect("a file");
            let text = format!("${{file:{}}}", path.display());
            assert_eq!(replaced(&text).as_deref(), Ok(expected));
        }
        fs::write(&path, "a".repeat(65_537)).expect("a file");
        let text = format!("${{file:{}}}", path.display());
        let undefined = replaced(&text).expect_err("too large");
        let hint = undefined[0].1.hint.as_deref();
        assert_eq!(hint, Some("it is larger than 65536 bytes"));
    }

    #[test]
    fn every_undefined_variable_is_said() {
        let undefined = replaced("${NO} ${A} ${1x} ${file:/nonexistent} ${A").expect_err("four");
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

    #[test]
    fn files_are_read_again_and_other_variables_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        let text = format!("$${{x}}${{A}}:${{file:{}}}!", path.display());
        fs::write(&path, "one\n").expect("a file");
        let template = Template::of(&text, &env).expect("it has a file");
        assert_eq!(template.read().as_deref(), Ok("${x}1${B}:one!"));
        fs::write(&path, "two").expect("a file");
        assert_eq!(template.read().as_deref(), Ok("${x}1${B}:two!"));
        let env = |name: &str| (name == "DIR").then(|| dir.path().display().to_string());
        let by_variable =
            Template::of("${file:${DIR}/${NO:-secret}}", &env).expect("it has a file");
        assert_eq!(by_variable.read().as_deref(), Ok("two"));
        fs::remove_file(&path).expect("a file");
        assert!(template.read().is_err());
        fs::create_dir(&path).expect("a directory");
        let refused = template.read().expect_err("a directory");
        assert_eq!(refused, "it is not a regular file");
        for text in ["plain", "${A}", "$${file:a}"] {
            assert_eq!(Template::of(text, &env), None, "{text}");
        }
    }
}
