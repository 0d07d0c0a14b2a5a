//! Which keys have secrets for values: also those that are misspelled, or that other products have.

use crate::config::pieces::only_variable;

/// Returns where the secret begins that a key of this line has for a value. The line may be no TOML.
pub(super) fn secret_value(line: &str) -> Option<usize> {
    let assigned = line
        .match_indices(['=', ':'])
        .map(|(at, mark)| (at, at + mark.len()));
    let first_word = first_word_end(line).map(|end| (end, end));
    assigned.chain(first_word).find_map(|(key_end, value)| {
        let key = last_key(&line[..key_end]);
        (is_secret_key(key) && !is_public(key, &line[value..])).then_some(value)
    })
}

/// Returns the key that a text ends with, as `a.key = ` does.
fn last_key(text: &str) -> &str {
    let text = text.trim_end_matches(['"', '\'', ' ', '\t']);
    &text[text.trim_end_matches(is_of_key).len()..]
}

/// Returns where the word ends that a line begins with, if a value may follow it at once: `requirepass VALUE`.
fn first_word_end(line: &str) -> Option<usize> {
    let word = line.trim_start();
    let behind = word.trim_start_matches(is_of_key);
    let is_assigned = behind.trim_start().starts_with(['=', ':']);
    (behind.starts_with([' ', '\t']) && !is_assigned).then_some(line.len() - behind.len())
}

fn is_of_key(c: char) -> bool {
    c.is_alphanumeric() || "_-".contains(c)
}

/// Whether a value is none, a variable's, or a number of tokens, as policies count them.
fn is_public(key: &str, value: &str) -> bool {
    let word = value.trim_start().split([' ', '#', '\r', '\n']).next();
    let word = word.unwrap_or_default();
    let is_count = key.ends_with("tokens") && word.starts_with(|c: char| c.is_ascii_digit());
    word.is_empty() || is_count || only_variable(word.trim_matches(['"', '\''])).is_some()
}

/// Whether the values of this key are secrets, if it is a key at all.
fn is_secret_key(key: &str) -> bool {
    if key.len() > KEY_LEN_MAX {
        return false;
    }
    let letters = key.chars().filter(|c| c.is_alphanumeric());
    let key: String = letters.flat_map(char::to_lowercase).collect();
    let is_near = |(name, edits): &(&str, usize)| {
        key.len().abs_diff(name.len()) <= *edits && strsim::osa_distance(&key, name) <= *edits
    };
    PARTS.iter().any(|part| key.contains(part)) || NAMES.iter().any(is_near)
}

/// What makes a key one of a secret wherever it stands in the key, without `_` and `-`.
const PARTS: [&str; 8] = [
    "apikey",
    "authorization",
    "masterauth",
    "passw",
    "pwd",
    "requirepass",
    "secret",
    "token",
];

/// Keys of secrets, and how many letters may be wrong in them.
const NAMES: [(&str, usize); 6] = [
    ("auth", 0),
    ("keysecret", 2),
    ("pass", 0),
    ("password", 2),
    ("secret", 1),
    ("token", 1),
];

/// Longest key that is looked at, in bytes.
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
