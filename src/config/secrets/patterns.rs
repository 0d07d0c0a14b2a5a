//! Hides clients' keys in the patterns of overrides.

use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;

use crate::config::value::{BLOCKED, UNLIMITED, part_choice};

/// Returns a pattern as messages quote it: with only the first characters of what may be a client's key.
pub(in crate::config) fn quoted(pattern: &str) -> String {
    let mut quoted = pattern.to_owned();
    for secret in secret_parts(pattern).into_iter().rev() {
        quoted.replace_range(secret, "…");
    }
    quoted
}

/// Returns the bytes of a pattern that must not be shown: of each value, those after its first characters.
///
/// Globs and networks do not name a client, and addresses of clients may be shown. Values may contain commas and `=`,
/// so a part begins only where the name of a part does.
pub(in crate::config) fn secret_parts(pattern: &str) -> Vec<Range<usize>> {
    let commas = pattern.match_indices(',').map(|(comma, _)| comma + 1);
    let starts = std::iter::once(0).chain(commas);
    let named = starts.filter_map(|start| Some((start, start + name_len(&pattern[start..])?)));
    let mut parts: Vec<(usize, usize)> = named.collect();
    if parts.first().is_none_or(|(start, _)| *start > 0) {
        parts.insert(0, (0, 0));
    }
    let starts = parts.iter().skip(1).map(|(start, _)| start - ",".len());
    let ends = starts.chain([pattern.len()]);
    let secrets = parts.iter().zip(ends).map(|((_, begin), end)| {
        let value = &pattern[*begin..end];
        if is_address(value.trim()) || value.trim_end().ends_with('*') {
            return None;
        }
        let shown = value.char_indices().nth(CHARACTERS_SHOWN)?.0;
        Some(begin + shown..end)
    });
    secrets.flatten().collect()
}

/// Returns the length of the name of a part that a text begins with, including its `=`.
fn name_len(text: &str) -> Option<usize> {
    let (name, _) = text.split_once('=')?;
    let is_one = part_choice(name.trim()).is_ok_and(|choice| choice.0.len() == 1);
    is_one.then_some(name.len() + "=".len())
}

/// Whether a text may be a client's key instead of a quota: the columns may be swapped, or two rows joined.
pub(in crate::config) fn may_be_key(grant: &str) -> bool {
    let is_number = |word: &str| {
        word.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let is_plain = |word: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == ',';
        word.len() <= WORD_LEN_MAX && word.chars().all(is_part)
    };
    let mut words = grant.split_whitespace();
    let is_quota = grant.contains(" per ") && words.all(|word| is_number(word) || is_plain(word));
    !(is_quota || [UNLIMITED, BLOCKED].contains(&grant))
}

/// Whether a value is an address or a network, or probably a mistyped one of IPv4.
fn is_address(value: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == '/';
    let is_nearly = value.contains('.') && value.chars().all(is_part);
    is_nearly || value.parse::<IpAddr>().is_ok() || value.parse::<IpNet>().is_ok()
}

/// Returns the bytes that must not be shown of a text that may be anything: those after its first characters.
pub(in crate::config) fn behind_shown(text: &str) -> Range<usize> {
    let shown = text.char_indices().nth(CHARACTERS_SHOWN);
    shown.map_or(text.len(), |(at, _)| at)..text.len()
}

/// Number of characters of a client's key that are shown, as in logs.
const CHARACTERS_SHOWN: usize = 4;
/// Longest word of a mistyped quota that is shown, in bytes.
const WORD_LEN_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_quota_may_be_a_key() {
        for quota in [
            "100 per minit",
            "1_000 per 2s",
            "5 tokens per 1h30m",
            "blocked",
        ] {
            assert!(!may_be_key(quota), "{quota}");
        }
        for key in [
            "live_secret",
            "5 per minutelive_secret",
            "5 per minute;secret",
            "secret: 5 per minute",
            "5 per minute\rsecretsecretsecret",
            "5 per secretsecretsecret",
        ] {
            assert!(may_be_key(key), "{key}");
        }
    }

    #[test]
    fn a_pattern_is_quoted_without_what_may_be_a_clients_key() {
        for (pattern, shown) in [
            ("live_secret", "live…"),
            ("live", "live"),
            ("live_secret*", "live_secret*"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("203.0.113.9", "203.0.113.9"),
            (
                "ip=10.0.0.0/8, header:x-api-key=live_secret",
                "ip=10.0.0.0/8, header:x-api-key=live…",
            ),
            (
                "header:x-api-key=live_secret, route=/items*",
                "header:x-api-key=live…, route=/items*",
            ),
            ("é€é€secret", "é€é€…"),
            ("a, secret", "a, s…"),
            ("c2VjcmV0c2VjcmV0==", "c2Vj…"),
            (
                "header:x=c2VjcmV0==,ip=10.0.0.1",
                "header:x=c2Vj…,ip=10.0.0.1",
            ),
            ("cookie:sid=a, b=secret", "cookie:sid=a, b…"),
            ("user|ip=secret", "user…"),
        ] {
            assert_eq!(quoted(pattern), shown);
        }
    }
}
