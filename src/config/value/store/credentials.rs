//! Users and passwords for Redis, by themselves or in a URL, and the gateway's own secrets.

use super::wrong::{ESCAPES, wrong};
use crate::config::value::ValueError;
use crate::store::settings::{Password, Secret};

/// Checks a user's name.
pub fn username(text: &str) -> Result<Box<str>, ValueError> {
    if is_username(text) {
        return Ok(text.into());
    }
    Err(ValueError::new(
        "cannot be a user of Redis",
        "a name without spaces and control characters",
    )
    .unquoted("this name"))
}

/// Checks `key_secret`, the key of the digests that are partition ids.
pub fn secret(text: &str) -> Result<Secret, ValueError> {
    not_empty(text).map(|text| Secret(text.into()))
}

/// Checks the admin port's token, which must fit into `Authorization: Bearer TOKEN`.
pub fn admin_token(text: &str) -> Result<Secret, ValueError> {
    let wrong = |problem| {
        let expected = format!("{ADMIN_TOKEN_BYTES} or more visible ASCII characters");
        ValueError::new(problem, expected).unquoted("this token")
    };
    let hint = "`openssl rand -hex 32` makes one";
    match not_empty(text)? {
        text if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(wrong("has characters that a header field cannot carry").hint(hint))
        }
        text if text.len() < ADMIN_TOKEN_BYTES => Err(wrong("is too short").hint(hint)),
        text => Ok(Secret(text.into())),
    }
}

/// Checks a password.
pub fn password(text: &str) -> Result<Password, ValueError> {
    not_empty(text).map(Password::new)
}

fn not_empty(text: &str) -> Result<&str, ValueError> {
    if text.is_empty() {
        return Err(ValueError::new("is empty", "a secret")
            .unquoted("this secret")
            .hint("leave the key out if there is none"));
    }
    Ok(text)
}

/// A user and a password.
type Credentials = (Option<Box<str>>, Option<Password>);

/// Reads `USER`, `USER:PASSWORD` or `:PASSWORD`.
pub(super) fn credentials(text: &str) -> Result<Credentials, ValueError> {
    if text.contains('@') {
        return Err(wrong("has more than one `@`").hint(ESCAPES));
    }
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    let user = decoded(user)?;
    if user.is_empty() && password.is_none() {
        return Err(wrong("has nothing before its `@`"));
    }
    if !user.is_empty() && !is_username(&user) {
        return Err(wrong("has a user that Redis does not allow"));
    }
    let password = password.map(decoded).transpose()?;
    if password.as_ref().is_some_and(String::is_empty) {
        return Err(wrong("has an empty password").hint("leave `:` out if there is none"));
    }
    let user = (!user.is_empty()).then(|| user.into());
    Ok((user, password.map(|password| Password::new(&password))))
}

fn is_username(text: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    (1..=USERNAME_LEN_MAX).contains(&text.len()) && !text.contains(is_odd)
}

/// Decodes percent-encoding such as `%40`.
fn decoded(text: &str) -> Result<String, ValueError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let hex = part
            .get(..2)
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let byte = byte.ok_or_else(|| wrong("has a `%` that is not an escape").hint(ESCAPES))?;
        bytes.push(byte);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| wrong("has escapes that are not UTF-8"))
}

/// Longest name of a user, in bytes.
const USERNAME_LEN_MAX: usize = 256;

/// Shortest token of the admin port, in bytes: shorter ones can be found by trying.
const ADMIN_TOKEN_BYTES: usize = 16;
