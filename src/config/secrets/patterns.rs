//! The patterns of overrides, which may be clients' keys.
//!
//! They are sought in the file's text, as its lines are also shown where it is no TOML.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;

use super::quotes::closing;
use crate::config::value::{BLOCKED, UNLIMITED, part_choice};
use crate::request::Part;

/// Returns a pattern as messages quote it: what may be a client's key by its first characters.
pub(in crate::config) fn quoted(pattern: &str) -> String {
    let mut quoted = pattern.to_owned();
    for secret in secret_parts(pattern).into_iter().rev() {
        quoted.replace_range(secret, "…");
    }
    quoted
}

/// Returns which bytes of a pattern are not to be shown: of each value what follows its first characters.
///
/// Globs and networks name no client, and addresses are shown of clients, too. Values have commas and `=`
/// of their own, so a part begins only where the name of one does.
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

/// Returns how long the name of a part is that a text begins with, and its `=`.
fn name_len(text: &str) -> Option<usize> {
    let (name, _) = text.split_once('=')?;
    let is_one = part_choice(name.trim()).is_ok_and(|choice| choice.0.len() == 1);
    is_one.then_some(name.len() + "=".len())
}

/// Whether what should be a quota may be a client's key: patterns and quotas can be swapped.
pub(in crate::config) fn may_be_key(grant: &str) -> bool {
    !(grant.contains(" per ") || [UNLIMITED, BLOCKED].contains(&grant))
}

/// Whether a value is an address or a network, or should be one of IPv4.
fn is_address(value: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == '/';
    let is_nearly = value.contains('.') && value.chars().all(is_part);
    is_nearly || value.parse::<IpAddr>().is_ok() || value.parse::<IpNet>().is_ok()
}

/// Finds what of the patterns in a file's text is not to be shown: of each key below one that is
/// `overrides`, however the file spells its tables, and of values that are no quota. Tiers are in clear.
///
/// Each line is also read by itself, so that a brace that is not closed hides no key behind it.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut with_tiers) = (Vec::new(), HashSet::new());
    let (mut table, mut start) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let at = start + line.len() - line.trim_start().len();
        start += line.len();
        let statement = &text[at..start];
        if statement.is_empty() {
            continue;
        }
        let is_header = statement.starts_with('[');
        let (from, end) = if is_header {
            table.clear();
            (start - statement.trim_start_matches('[').len(), start)
        } else {
            (at, statement_end(text, at))
        };
        let mut path = table.clone();
        words(&text[from..end], &mut path, |path, word| {
            let place = from + word.place.start..from + word.place.end;
            let name = &text[place.clone()];
            if let [policy @ .., "overrides_by"] = path
                && word.role == TokenRole::Value
                && names_claims(name)
            {
                with_tiers.insert(policy.to_vec());
            }
            let is_public = match word.role {
                TokenRole::Value => {
                    !may_be_key(name) || path.ends_with(&["burst"]) || path.ends_with(&["queue"])
                }
                TokenRole::Key if word.is_nested => {
                    policy_of(path).is_some_and(|policy| path.len() > policy.len() + 1)
                }
                TokenRole::Key | TokenRole::Comment => KEYS.contains(&name),
            };
            if let Some(policy) = policy_of(path)
                && !is_public
            {
                let secrets = secret_parts(name).into_iter();
                let secrets =
                    secrets.map(|secret| place.start + secret.start..place.start + secret.end);
                found.extend(secrets.map(|secret| (policy.to_vec(), secret)));
            }
        });
        if is_header {
            table = path;
        }
    }
    found.retain(|(policy, _)| !with_tiers.contains(policy));
    found.into_iter().map(|(_, secret)| secret).collect()
}

/// Whether what chooses an override is a verified claim, whose values are tiers and no clients' keys.
fn names_claims(by: &str) -> bool {
    let is_claim = |part: &Part| matches!(part, Part::Claim(_));
    part_choice(by).is_ok_and(|choice| choice.0.iter().all(is_claim))
}

/// Returns the policy whose `overrides` a path of keys leads into. A policy may have that name, too.
fn policy_of<'p, 't>(path: &'p [&'t str]) -> Option<&'p [&'t str]> {
    let is_name = |at: usize| at == 1 && path[0] == "policies";
    let at = (0..path.len()).find(|at| path[*at] == "overrides" && !is_name(*at))?;
    Some(&path[..at])
}

/// Returns where the statement ends that begins at `at`: with its line, or with the braces that open on it.
fn statement_end(text: &str, at: usize) -> usize {
    let (mut depth, mut rest) = (0_usize, at);
    while let Some(next) = text[rest..].find(['\n', '{', '}', '"', '\'', '#']) {
        let found = rest + next;
        rest = found + 1;
        match text.as_bytes()[found] {
            b'\n' if depth == 0 => return found,
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b'"' => rest += closing(&text[rest..], "\"") + 1,
            b'\'' => rest += closing(&text[rest..], "'") + 1,
            b'#' => rest += text[rest..].find('\n').unwrap_or(0),
            _ => {}
        }
        rest = rest.min(text.len());
    }
    text.len()
}

/// What stands in a statement.
struct Word {
    /// Without quotes.
    place: Range<usize>,
    role: TokenRole,
    /// Whether it begins a statement of its table: no dot stands before it, and no list is open.
    is_nested: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum TokenRole {
    /// All that is no value, so that a key is found although its statement is no TOML.
    Key,
    Value,
    /// May have been a key.
    Comment,
}

/// Finds the words of a statement and of the tables in it, each with the `path` of keys that leads to it.
fn words<'t>(statement: &'t str, path: &mut Vec<&'t str>, mut each: impl FnMut(&[&'t str], &Word)) {
    let (mut rest, mut lists, mut comment_end) = (0, 0_usize, 0);
    let mut open = vec![path.len()];
    while let Some(next) = statement[rest..].find(|c: char| !is_separator(c)) {
        let start = rest + next;
        let before = &statement[rest.max(comment_end).min(start)..start];
        for separator in before.chars() {
            match separator {
                '[' => lists += 1,
                ']' => lists = lists.saturating_sub(1),
                '{' => open.push(path.len()),
                '}' if open.len() > 1 => path.truncate(open.pop().unwrap_or_default()),
                ',' if lists == 0 => path.truncate(open.last().copied().unwrap_or_default()),
                _ => {}
            }
        }
        if start >= comment_end && statement[start..].starts_with('#') {
            let len = statement[start..].find('\n');
            comment_end = start + len.unwrap_or(statement.len() - start);
        }
        let quote = ["\"", "'"]
            .into_iter()
            .find(|quote| statement[start..].starts_with(quote));
        let place = if let Some(quote) = quote {
            let inner = start + quote.len();
            inner..inner + closing(&statement[inner..], quote)
        } else {
            let len = statement[start..].find(is_separator);
            start..start + len.unwrap_or(statement.len() - start)
        };
        rest = (place.end + quote.map_or(0, str::len)).min(statement.len());
        let (name, is_comment) = (&statement[place.clone()], start < comment_end);
        let has_value = statement[rest..].trim_start().starts_with('=');
        let is_value = statement[..start].trim_end().ends_with('=') || (lists > 0 && !has_value);
        let role = match is_value {
            _ if is_comment => TokenRole::Comment,
            true => TokenRole::Value,
            false => TokenRole::Key,
        };
        let is_nested = lists == 0 && open.last() == Some(&path.len());
        each(
            path,
            &Word {
                place,
                role,
                is_nested,
            },
        );
        if role == TokenRole::Key {
            path.push(name);
        }
    }
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || "{}[],.=".contains(c)
}

/// The keys of an override that is a table.
const KEYS: [&str; 3] = ["quota", "burst", "queue"];
/// Characters of a client's key that are shown, as in logs.
const CHARACTERS_SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::secrets::overwritten;

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

    #[test]
    fn clients_keys_are_overwritten_wherever_overrides_can_stand() {
        for (text, shown) in [
            (
                "[policies.a]\noverrides = { live_secret = \"1 per 2s\", 'x\"yzsecret' = { quota = \"1 per s\", burst = 3 } } # x\npartition = 1",
                "[policies.a]\noverrides = { live~~~~~~~ = \"1 per 2s\", 'x\"yz~~~~~~' = { quota = \"1 per s\", burst = 3 } } # x\npartition = 1",
            ),
            (
                "[policies.a.overrides]\nlive_secret = unquoted\n\"live_*\" = 'unlimited'\n10.0.0.0/8 = 1\n[policies.bsecret]\nquota = 1\nmissing = 2",
                "[policies.a.overrides]\nlive~~~~~~~ = unqu~~~~\n\"live_*\" = 'unlimited'\n10.0.0.0/8 = 1\n[policies.bsecret]\nquota = 1\nmissing = 2",
            ),
            (
                "[policies.a]\noverrides = { 'live_secret' = { blocked = true } }\noverrides.live.secret = 1\n[policies.a.overrides.'live_x']\nblocked = true",
                "[policies.a]\noverrides = { 'live~~~~~~~' = { blocked = true } }\noverrides.live.secr~~ = 1\n[policies.a.overrides.'live~~']\nblocked = true",
            ),
            (
                "[policies.a]\noverrides_by = 'header:x-plan'\noverrides = { enterprise = 1 }",
                "[policies.a]\noverrides_by = 'header:x-plan'\noverrides = { ente~~~~~~ = 1 }",
            ),
            (
                "[policies.a.overrides]\n'1 per s' = 'live_x'\nb = ['1 per s', 'live_x']\nc = { quota = 'live_x', burst = 12345 }",
                "[policies.a.overrides]\n'1 pe~~~' = 'live~~'\nb = ['1 per s', 'live~~']\nc = { quota = 'live~~', burst = 12345 }",
            ),
            (
                "[policies.a.overrides.\"live_secret\"]\nquota = 1",
                "[policies.a.overrides.\"live~~~~~~~\"]\nquota = 1",
            ),
            (
                "[policies.a]\noverrides.'live_secret' = 1\noverrides_file = 'secret'",
                "[policies.a]\noverrides.'live~~~~~~~' = 1\noverrides_file = 'secret'",
            ),
            (
                "[policies.a]\noverrides = { 'live_secret",
                "[policies.a]\noverrides = { 'live~~~~~~~",
            ),
            (
                "[policies]\nper-key.overrides.\"live_x\" = 1\na = { quota = 'unlimited', overrides = { # }\nlive_y = 1 }, partition = 'secret' } # x",
                "[policies]\nper-key.overrides.\"live~~\" = 1\na = { quota = 'unlimited', overrides = { # }\nlive~~ = 1 }, partition = 'secret' } # x",
            ),
            (
                "policies.a.overrides.live_x = 1\npolicies.a.\"overrides\" = { live_y = 1 }\n[\"policies\".'a'.\"overrides\"] # overrides\nlive_z = 1\n[[policies.a]] # overrides\npartition = 1",
                "policies.a.overrides.live~~ = 1\npolicies.a.\"overrides\" = { live~~ = 1 }\n[\"policies\".'a'.\"overrides\"] # over~~~~~\nlive~~ = 1\n[[policies.a]] # overrides\npartition = 1",
            ),
            (
                "[policies.overrides]\npartition = 1\noverrides = { a = ['1 per s', live_x = 1, # live_y }\nlive_z = 1 }",
                "[policies.overrides]\npartition = 1\noverrides = { a = ['1 per s', live~~ = 1, # live~~ }\nlive~~ = 1 }",
            ),
            (
                "[policies]\na = {\n[policies.b.overrides]\nlive_x = 1 # overrides_by\nlive_y = 1",
                "[policies]\na = {\n[policies.b.overrides]\nlive~~ = 1 # over~~~~~~~~\nlive~~ = 1",
            ),
            (
                "[policies]\na = { overrides_by = 'jwt:plan', overrides = { enterprise = 1 } }\nb.overrides.enterprise = 1",
                "[policies]\na = { overrides_by = 'jwt:plan', overrides = { enterprise = 1 } }\nb.overrides.ente~~~~~~ = 1",
            ),
            (
                "[policies.a]\noverrides_by = 'jwt:plan'\n[policies.a.overrides]\nenterprise = 1\n[policies.b.overrides]\nenterprise = 1",
                "[policies.a]\noverrides_by = 'jwt:plan'\n[policies.a.overrides]\nenterprise = 1\n[policies.b.overrides]\nente~~~~~~ = 1",
            ),
        ] {
            assert_eq!(overwritten(text), shown);
        }
    }
}
