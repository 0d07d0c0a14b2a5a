//! What cookies and query parameters have in common: a name that must mean the same to every origin.
//!
//! Origins differ in how they read a name, so a spelling that some of them take for the name is [`Spelling::Alike`],
//! and a request that has it is [`Ambiguous`] if the name matters:
//!
//! | spelling of `key` | origins that read it as `key` |
//! | --- | --- |
//! | `k%65y` | those that decode names |
//! | `a.b`, `a b`, `a+b`, `a[b` for `a_b` | PHP, which has `_` for these in names |
//! | `key[]`, `key[x]` | PHP, Rails and Express, which make a list or a table of it |
//! | surrounding white space, control characters or bytes beyond ASCII | those that trim names, or end them at a NUL |
//! | `key%3D1` | those that decode before splitting |
//!
//! Case is not folded: names that differ in case are two names.

use std::borrow::Cow;
use std::iter;

/// A request names its client in a way that origins could read differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request names its client ambiguously: origins could read it differently")]
pub struct Ambiguous;

/// How a name in a request relates to the one that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// It is the name, byte for byte once percent-decoded.
    Same,
    /// It is another name, but some origins take it for the name.
    Alike,
    /// It is another name.
    Other,
}

/// Compares a name as the request spells it with the `name` that is looked for.
pub(super) fn spelling(written: &[u8], name: &str) -> Spelling {
    let name = name.as_bytes();
    if written.len() < name.len() {
        return Spelling::Other;
    }
    // A shortcut: most names differ in a byte that is not escaped, and a hostile request can have thousands of names.
    for (at, (&byte, &wanted)) in written.iter().zip(name).enumerate() {
        if byte == b'%' || (at == 0 && is_blank(byte)) {
            break;
        }
        if fold(byte) != fold(wanted) {
            return Spelling::Other;
        }
    }
    if decoded(written).eq(name.iter().copied()) {
        return Spelling::Same;
    }
    let mut read = decoded(written).skip_while(|byte| is_blank(*byte));
    let is_alike =
        (name.iter()).all(|&byte| read.next().is_some_and(|read| fold(read) == fold(byte)));
    match read.next() {
        None | Some(b'[' | b'=') if is_alike => Spelling::Alike,
        Some(byte) if is_alike && is_blank(byte) => Spelling::Alike,
        _ => Spelling::Other,
    }
}

/// Decodes the value of the parameter that names the client: it is percent-decoded once, and `+` is a plus.
///
/// # Errors
/// If the value has a NUL: some origins end it there.
pub(super) fn value(written: &[u8]) -> Result<Cow<'_, [u8]>, Ambiguous> {
    let value = if written.contains(&b'%') {
        Cow::Owned(decoded(written).collect())
    } else {
        Cow::Borrowed(written)
    };
    if value.contains(&0) {
        return Err(Ambiguous);
    }
    Ok(value)
}

/// Splits a text at the first `=` into a name and a value; without one, the value is empty.
pub(super) fn pair(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'=', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

/// Percent-decodes once; a `%` without two hex digits stays as it is.
fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    iter::from_fn(move || {
        let (byte, length) = match rest {
            [] => return None,
            [b'%', high, low, ..] => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (b'%', 1),
            },
            [byte, ..] => (*byte, 1),
        };
        rest = &rest[length..];
        Some(byte)
    })
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

/// Whether a byte may surround a name without being part of it; `+` is how forms encode a space.
fn is_blank(byte: u8) -> bool {
    byte == b'+' || !byte.is_ascii_graphic()
}

/// Maps the characters that PHP replaces with `_` to `_`.
fn fold(byte: u8) -> u8 {
    match byte {
        b'.' | b' ' | b'+' | b'[' => b'_',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_some_origin_takes_for_the_name_are_alike() {
        use Spelling::{Alike, Other, Same};
        for (written, name, expected) in [
            ("key", "key", Same),
            ("k%65y", "key", Same),
            ("a.b", "a.b", Same),
            ("user%5Bid%5D", "user[id]", Same),
            ("Key", "key", Other),
            ("ke", "key", Other),
            ("keys", "key", Other),
            ("my_key", "key", Other),
            ("", "key", Other),
            ("k%2565y", "key", Other),
            ("k%zzey", "key", Other),
            ("a.b", "a_b", Alike),
            ("a b", "a_b", Alike),
            ("a+b", "a_b", Alike),
            ("a%20b", "a_b", Alike),
            ("a[b", "a_b", Alike),
            ("a_b", "a.b", Alike),
            ("a-b", "a_b", Other),
            ("key[]", "key", Alike),
            ("key%5B0%5D", "key", Alike),
            ("key%3D1", "key", Alike),
            ("+key", "key", Alike),
            ("%20%09key", "key", Alike),
            ("\u{a0}key", "key", Alike),
            ("key%00x", "key", Alike),
            ("key%C2%A0", "key", Alike),
            ("key.x", "key", Other),
        ] {
            assert_eq!(spelling(written.as_bytes(), name), expected, "{written}");
        }
    }

    #[test]
    fn values_are_decoded_once_and_plus_is_a_plus() {
        for (written, expected) in [
            ("", Ok("")),
            ("a+b", Ok("a+b")),
            ("a%20b%2B", Ok("a b+")),
            ("%2541", Ok("%41")),
            ("%zz%4", Ok("%zz%4")),
            ("a%00b", Err(Ambiguous)),
        ] {
            let expected = expected.map(|text| Cow::Borrowed(text.as_bytes()));
            assert_eq!(value(written.as_bytes()), expected, "{written}");
        }
        assert!(matches!(value(b"plain"), Ok(Cow::Borrowed(_))));
    }
}
