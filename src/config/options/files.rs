//! Values that come from files of their own: secrets, passwords, certificates and keys.

use std::fs;

use super::kind::{SECRET, ValueSpec, scalar, shape};
use crate::config::file::Pem;
use crate::config::read::{Form, Scalar, Template};
use crate::config::value::{self, ValueError};
use crate::store::settings::{Password, Secret};

/// A string that is never shown.
pub(super) fn secret(example: &'static str) -> ValueSpec<Option<Secret>> {
    scalar(Form::Secret(example), value::secret, |_| SECRET.to_owned()).or_none("none")
}

/// A token that clients send in a header field; it is never shown.
pub(super) fn admin_token(example: &'static str) -> ValueSpec<Option<Secret>> {
    let form = Form::Secret(example);
    scalar(form, value::admin_token, |_| SECRET.to_owned()).or_none("none")
}

/// A password, which is never shown.
pub(super) fn password(example: &'static str) -> ValueSpec<Option<Password>> {
    let form = Form::Secret(example);
    let of_files = |password: Password, files: Template| {
        let written = files.written().to_owned();
        Password::from_source(&password.text(), &written, move || {
            let password =
                value::password(&files.read()?).map_err(|wrong| wrong.problem.to_owned());
            Ok(password?.text().as_ref().into())
        })
    };
    with_files(form, value::password, of_files, |_| SECRET.to_owned()).or_none("none")
}

/// A string that `parse` parses; if it has `${file:…}` variables, `remember` adds to the value how to read them again.
pub(super) fn with_files<V: PartialEq + 'static>(
    form: Form,
    parse: impl Fn(&str) -> Result<V, ValueError> + Send + Sync + 'static,
    remember: impl Fn(V, Template) -> V + Send + Sync + 'static,
    spell: impl Fn(&V) -> String + Send + Sync + 'static,
) -> ValueSpec<V> {
    let (example, shape) = (form.example(), shape(&form));
    let read = move |scalar: Scalar<'_, '_>| scalar.read_with_files(&form, &parse, &remember);
    ValueSpec::new(&example, shape, read, spell)
}

/// The path of a file of certificates or of a key, whose content is read at once.
pub(super) fn key_file(example: &'static str) -> ValueSpec<Pem> {
    scalar(Form::File(example), read_key_file, |pem: &Pem| {
        pem.path.display().to_string()
    })
}

fn read_key_file(path: &str) -> Result<Pem, ValueError> {
    let content = content(path, KEY_FILE_BYTES_MAX, "a PEM file")?;
    let path = path.into();
    Ok(Pem { path, content })
}

/// Reads the file that a value names, of at most `most` bytes; `expected` says what it should be.
pub(super) fn content(path: &str, most: u64, expected: &str) -> Result<Vec<u8>, ValueError> {
    let wrong = |problem| ValueError::new(problem, expected).unquoted("this file");
    // A key that was pasted in place of the path of its file must not be listed as a missing file.
    if path.contains('\n') {
        let mend = "save this text as a file, and write the path of that file here";
        return Err(wrong("has a name of several lines").hint(mend));
    }
    // Opening a pipe would wait for a writer.
    if fs::metadata(path).is_ok_and(|file| !file.is_file()) {
        return Err(wrong("is not a regular file"));
    }
    value::file(path, most).map_err(|unread| wrong("cannot be read").unread(unread))
}

/// Largest file of keys or certificates, in bytes; the CA certificates of a whole system take a quarter of that.
const KEY_FILE_BYTES_MAX: u64 = 1 << 20;
