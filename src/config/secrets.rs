//! Overwrites what reads as a secret in a file's lines before they are shown beside a mistake.
//!
//! Those lines go to terminals and journals. What a variable stands for never gets that far; this is
//! for files that hold their passwords themselves.

use std::ops::Range;

/// Keys whose values are secrets.
const KEYS: [&str; 4] = ["password", "sentinel_password", "key_secret", "token"];

/// Returns the text with its secrets overwritten byte for byte, so that places stay where they are.
pub(super) fn overwritten(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let values = KEYS.iter().flat_map(|key| values_of(text, key));
    for secret in credentials(text).chain(values) {
        // A variable's name is no secret, and may be the mistake.
        if !text[secret.clone()].starts_with("${") {
            bytes[secret].fill(b'*');
        }
    }
    String::from_utf8(bytes).expect("whole characters were overwritten")
}

/// Finds the passwords of URLs, or whatever else stands alone before `@`.
fn credentials(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(|(at, mark)| {
        let start = at + mark.len();
        let authority = text[start..].split(['/', '"', '\'', '\n']).next()?;
        let (user, _) = authority.rsplit_once('@')?;
        let password = user.find(':').map_or(0, |colon| colon + 1);
        Some(start + password..start + user.len())
    })
}

/// Finds the quoted values of a key.
fn values_of(text: &str, key: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices(key).filter_map(|(at, key)| {
        let is_whole = !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_-".contains(c));
        let after = &text[at + key.len()..];
        let value = after.trim_start_matches(['"', '\'', ' ', '\t']);
        let value = value.strip_prefix('=')?.trim_start_matches([' ', '\t']);
        let quote = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| value.starts_with(quote))?;
        let start = text.len() - value.len() + quote.len();
        let length = closing(&text[start..], quote);
        is_whole.then_some(start..start + length)
    })
}

/// Returns how long a quoted text is: to its closing quote, or to the end of what it may span.
fn closing(text: &str, quote: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        let ends = text[at..].starts_with(quote) || (quote.len() == 1 && character == '\n');
        if ends && !is_escaped {
            return at;
        }
        is_escaped = character == '\\' && !is_escaped && quote.starts_with('"');
    }
    text.len()
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
        ] {
            assert_eq!(overwritten(text), shown);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "url = 'redis://:${PASSWORD}@h:1'",
            "password = \"${PASSWORD}\"",
            "endpoints = ['http://a/x@y', 'http://b:80']",
            "no_token = 'x'\ntokens = 'x'\npassword = 5\ntoken",
        ] {
            assert_eq!(overwritten(text), text);
        }
    }
}
