//! Recognises keys whose values are secrets, including misspelled ones and those of other products.

use super::defaults::is_variable;

/// Returns the offset at which the secret value of a key on this line begins. The line need not be TOML.
pub(super) fn secret_value(line: &str) -> Option<usize> {
    let marks = line.match_indices(['=', ':']);
    let assigned = marks.map(|(at, mark)| (at, at + mark.len()));
    // Values contain addresses, too, whose colon assigns nothing: `"auth:443"`.
    let assigned = assigned.filter(|(at, value)| {
        line[*at..].starts_with('=') || line[*value..].chars().next().is_none_or(ends_key)
    });
    let first_word = first_word_end(line).map(|end| (end, end));
    assigned.chain(first_word).find_map(|(key_end, value)| {
        let key = last_key(&line[..key_end]);
        (is_secret_key(key) && !is_public(key, &line[value..])).then_some(value)
    })
}

/// Returns the key that a text ends with, as `a.key = ` does.
fn last_key(text: &str) -> &str {
    let text = text.trim_end_matches(|c| ends_key(c) || c == ':');
    &text[text.trim_end_matches(is_of_key).len()..]
}

/// Returns the end of the first word of a line, if a value may follow it directly: `requirepass VALUE`.
fn first_word_end(line: &str) -> Option<usize> {
    let word = line.trim_start();
    let behind = word.trim_start_matches(is_of_key);
    let is_assigned = behind.trim_start().starts_with(['=', ':']);
    (behind.starts_with(char::is_whitespace) && !is_assigned).then_some(line.len() - behind.len())
}

fn ends_key(c: char) -> bool {
    c.is_whitespace() || "\"'“”‘’".contains(c)
}

pub(super) fn is_of_key(c: char) -> bool {
    c.is_alphanumeric() || "_-".contains(c)
}

/// Whether a value is missing, a variable, or a number of tokens, and so not a secret.
fn is_public(key: &str, value: &str) -> bool {
    let value = value.trim_start();
    if !value.starts_with(['"', '\'', '$']) {
        return value.is_empty() || value.starts_with('#') || is_count(key, value);
    }
    let word = value.split([' ', '#', '\r', '\n']).next();
    let word = word.unwrap_or_default().trim_matches(['"', '\'']);
    is_variable(word)
}

/// Whether a value is a number of tokens, as policies count them.
fn is_count(key: &str, value: &str) -> bool {
    let behind = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let is_number = behind.len() < value.len() && !behind.starts_with(char::is_alphanumeric);
    is_number && key.contains("token") && !key.ends_with("token")
}

/// Whether the values of a key are secrets, if it is a key at all.
fn is_secret_key(key: &str) -> bool {
    if key.len() > KEY_LEN_MAX {
        return false;
    }
    let key = key.to_lowercase();
    let letters: String = key.chars().filter(|c| c.is_alphanumeric()).collect();
    let is_near = |word: &str| {
        WORDS.iter().any(|(known, edits)| {
            word.len().abs_diff(known.len()) <= *edits
                && strsim::osa_distance(word, known) <= *edits
        })
    };
    WHOLE.contains(&letters.as_str())
        || PARTS.iter().any(|part| letters.contains(part))
        || key.split(['_', '-']).chain([letters.as_str()]).any(is_near)
}

/// Names of keys with secret values, without `_` and `-`.
const WHOLE: [&str; 6] = ["auth", "creds", "pass", "pswd", "pw", "pwd"];

/// Parts of names that mark a key with secret values, without `_` and `-`.
const PARTS: [&str; 15] = [
    "apikey",
    "authorization",
    "authpass",
    "bearer",
    "credential",
    "encryptionkey",
    "hmackey",
    "masterauth",
    "passphrase",
    "passw",
    "privatekey",
    "requirepass",
    "secret",
    "signingkey",
    "token",
];

/// Words of names that mark a key with secret values, and how many letters of each may be wrong.
const WORDS: [(&str, usize); 4] = [
    ("keysecret", 2),
    ("password", 2),
    ("secret", 1),
    ("token", 1),
];

/// Longest key that is checked, in bytes.
const KEY_LEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::TABLES;

    #[test]
    fn of_the_keys_of_the_file_only_those_of_secrets_are_taken_for_such() {
        let keys = TABLES.iter().flat_map(|table| table.names());
        let mut secret: Vec<_> = keys.filter(|key| is_secret_key(key)).collect();
        secret.sort_unstable();
        secret.dedup();
        assert_eq!(
            secret,
            ["key_secret", "password", "sentinel_password", "token"]
        );
    }
}
