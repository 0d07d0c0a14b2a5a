//! Keeps the secrets of a file out of what is said of it.
//!
//! Reports go to terminals and journals. What a variable stands for never gets that far; this is for
//! files that hold their passwords themselves. A value is [`redacted`] before it becomes part of a
//! sentence, and the file's lines are [`overwritten`] before they are shown beside one. Clients' keys,
//! which the patterns of overrides may be, are shortened to what logs show of them.

mod patterns;
mod quotes;

use std::borrow::Cow;
use std::ops::Range;

pub(super) use self::patterns::{may_be_key, quoted, secret_parts};
use self::quotes::closing;

/// Keys whose values are secrets.
const KEYS: [&str; 4] = ["password", "sentinel_password", "key_secret", "token"];

/// Returns a value with `***` for the passwords of URLs in it.
pub(super) fn redacted(value: &str) -> Cow<'_, str> {
    let mut redacted = Cow::Borrowed(value);
    let found: Vec<_> = credentials(value)
        .filter(|place| is_secret(value, place))
        .collect();
    for place in found.into_iter().rev() {
        redacted.to_mut().replace_range(place, "***");
    }
    redacted
}

/// Returns a file's text with its secrets overwritten byte for byte, so that places stay where they are.
pub(super) fn overwritten(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let values = KEYS.iter().flat_map(|key| values_of(&lower, key));
    let mut bytes = text.as_bytes().to_vec();
    for place in credentials(text)
        .chain(values)
        .filter(|place| is_secret(text, place))
    {
        bytes[place].fill(b'*');
    }
    for place in patterns::find(text) {
        bytes[place].fill(b'~');
    }
    String::from_utf8(bytes).expect("whole characters were overwritten")
}

/// A variable's name is no secret, and may be the mistake.
fn is_secret(text: &str, place: &Range<usize>) -> bool {
    !place.is_empty() && !is_variable(&text[place.clone()])
}

/// Whether all of it is one variable.
fn is_variable(text: &str) -> bool {
    text.starts_with("${") && text.find('}') == Some(text.len() - 1)
}

/// Finds the passwords of URLs, or whatever else stands alone before `@`.
fn credentials(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(|(at, mark)| {
        let start = at + mark.len();
        let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
        let before = text[..at].trim_end_matches(is_of_scheme);
        let quote = before.chars().next_back().filter(|c| "\"'".contains(*c));
        let ends = |c: char| c == '\n' || quote.map_or("\"'".contains(c), |quote| c == quote);
        let url = text[start..].split(ends).next()?;
        let authority = url.split('/').next()?;
        // A password with a slash in it is a mistake, and is shown as one.
        let user = match authority.rsplit_once('@') {
            Some((user, _)) => user,
            None if authority.contains(':') => url.rsplit_once('@')?.0,
            None => return None,
        };
        let password = user.find(':').map_or(0, |colon| colon + 1);
        Some(start + password..start + user.len())
    })
}

/// Finds the values of a key, in quotes or, by mistake, in none.
fn values_of(text: &str, key: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices(key).filter_map(|(at, key)| {
        let is_whole = !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_-".contains(c));
        let after = &text[at + key.len()..];
        let value = after.trim_start_matches(['"', '\'', ' ', '\t']);
        let value = value.strip_prefix('=')?.trim_start_matches([' ', '\t']);
        let start = text.len() - value.len();
        let quote = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| value.starts_with(quote));
        let place = match quote {
            Some(quote) => {
                let start = start + quote.len();
                start..start + closing(&text[start..], quote)
            }
            None if value.starts_with('#') => return None,
            None => start..start + value.split('\n').next()?.trim_end().len(),
        };
        is_whole.then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_overwritten_in_place() {
        for (text, shown) in [
            (
                "url = 'redis://:hünter@h:1'",
                "url = 'redis://:*******@h:1'",
            ),
            ("url = \"redis://me:a:b@h\"", "url = \"redis://me:***@h\""),
            (
                "['http://token@a', 'http://b']",
                "['http://*****@a', 'http://b']",
            ),
            ("password = \"a\\\"b\" # x", "password = \"****\" # x"),
            ("\"token\"='a\\' # x", "\"token\"='**' # x"),
            ("{ key_secret = '''a\nb''' }", "{ key_secret = '''***''' }"),
            (
                "sentinel_password = \"not closed\nb",
                "sentinel_password = \"**********\nb",
            ),
            ("password = a b#x\nc", "password = *****\nc"),
            ("Token = 5\r\n", "Token = *\r\n"),
            ("password = [\"a\"]", "password = *****"),
            ("password = \"${A}b\"", "password = \"*****\""),
            ("'redis://:${A}b@h'", "'redis://:*****@h'"),
            ("'redis://:a/b@h'", "'redis://:***@h'"),
            ("'redis://:a\"b@h'", "'redis://:***@h'"),
            ("redis://:a@h", "redis://:*@h"),
        ] {
            assert_eq!(overwritten(text), shown);
        }
    }

    #[test]
    fn a_value_is_redacted_before_it_is_quoted() {
        for (value, shown) in [
            ("http://u:name@h", "http://u:***@h"),
            ("redis://:a@h/x", "redis://:***@h/x"),
            ("a://b@c d://:e@f", "a://***@c d://:***@f"),
            ("name", "name"),
            ("redis://:${A}@h", "redis://:${A}@h"),
        ] {
            assert_eq!(redacted(value), shown);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "url = 'redis://:${PASSWORD}@h:1'",
            "password = \"${PASSWORD}\"",
            "endpoints = ['http://a/x@y', 'http://b:80']",
            "no_token = 'x'\ntokens = 'x'\ntoken\ntoken = # x",
        ] {
            assert_eq!(overwritten(text), text);
        }
    }
}
