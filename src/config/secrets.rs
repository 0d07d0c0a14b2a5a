//! Keeps the secrets of a file out of what is said of it.
//!
//! Reports go to terminals and journals. What a variable stands for never gets that far; this is for
//! files that hold their passwords themselves. A value is [`redacted`] before it becomes part of a
//! sentence, and a line that may hold a secret is [`overwritten`] before it is shown beside one. Clients' keys,
//! which the patterns of overrides may be, are shortened to what logs show of them.

mod keys;
mod patterns;

use std::borrow::Cow;
use std::ops::Range;

use self::keys::secret_value;
pub(super) use self::patterns::{may_be_key, quoted, secret_parts};
use super::pieces::only_variable;

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

/// Returns a file's text in which a line that may hold a secret is overwritten behind its first `=`, byte for
/// byte, so that places stay where they are. Lines of overrides are overwritten whole.
pub(super) fn overwritten(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut lines = SecretLines::default();
    for line in text.split_inclusive('\n') {
        let from = lines.secret_from(line).unwrap_or(line.len());
        shown.push_str(&line[..from]);
        shown.extend(line[from..].chars().flat_map(|c| match c {
            '\r' | '\n' => std::iter::repeat_n(c, 1),
            _ => std::iter::repeat_n('*', c.len_utf8()),
        }));
    }
    shown
}

/// What the lines of a file that came so far say of the next one.
#[derive(Default)]
struct SecretLines {
    /// The quotes that end a secret of several lines.
    open: Option<&'static str>,
    /// Whether the next line may be one of overrides.
    in_overrides: bool,
}

impl SecretLines {
    /// Returns from where on the next line may hold a secret. It may be no TOML.
    fn secret_from(&mut self, line: &str) -> Option<usize> {
        if let Some(quotes) = self.open {
            self.open = (!line.contains(quotes)).then_some(quotes);
            return Some(0);
        }
        let is_header = line.trim_start_matches(is_lead).starts_with('[');
        let was_in_overrides = self.in_overrides && !is_header;
        if let Some(behind) = behind_word(line, "overrides") {
            let rest = &line[behind..];
            let is_open = rest.matches('{').count() > rest.matches('}').count();
            self.in_overrides = is_header || was_in_overrides || is_open;
            let is_bare = rest
                .trim_matches(['"', '\'', ']', ' ', '\t', '\r', '\n'])
                .is_empty();
            let from = if was_in_overrides { 0 } else { behind };
            return (was_in_overrides || !is_bare).then_some(from);
        }
        self.in_overrides = was_in_overrides && !line.trim_start().starts_with('}');
        if was_in_overrides {
            return Some(0);
        }
        let equals = line.find('=').map(|equals| equals + 1);
        let password = credentials(line).find(|place| is_secret(line, place));
        let of_url = password.map(|password| equals.unwrap_or(0).min(password.start));
        let of_key =
            secret_value(line).map(|value| equals.map_or(value, |equals| equals.min(value)));
        let from = of_url.into_iter().chain(of_key).min()?;
        let mut quotes = ["\"\"\"", "'''"].into_iter();
        self.open = quotes.find(|quotes| line.matches(quotes).count() == 1);
        Some(from)
    }
}

/// Whether this may stand before the header of a table: blanks, and the mark that some editors begin a file with.
pub(super) fn is_lead(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// Returns where the first word ends that is this one.
fn behind_word(line: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || "_-".contains(c);
    let mut found = line.match_indices(word);
    found.find_map(|(at, word)| {
        let behind = at + word.len();
        let is_whole = !line[..at].ends_with(is_part) && !line[behind..].starts_with(is_part);
        is_whole.then_some(behind)
    })
}

/// A variable's name is no secret, and may be the mistake.
fn is_secret(text: &str, place: &Range<usize>) -> bool {
    !place.is_empty() && !is_variable(&text[place.clone()])
}

/// Whether all of it is one variable.
fn is_variable(text: &str) -> bool {
    only_variable(text).is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_may_hold_a_secret_is_overwritten_in_place() {
        for (text, shown) in [
            (
                "url = 'redis://:hü@h'\nb = 1",
                "url =*****************\nb = 1",
            ),
            ("['http://token@a']\n", "******************\n"),
            ("\"token\"='a\\' # x", "\"token\"=********"),
            (
                "a = { key_secret = '''a\nb''' }\nc",
                "a =********************\n******\nc",
            ),
            (
                "sentinel_password = \"not closed\nb",
                "sentinel_password =************\nb",
            ),
            ("Token = 5\r\n", "Token =**\r\n"),
            ("pasword = \"a\"\nb = 1", "pasword =****\nb = 1"),
            (
                "store.sentinel-passwrd = \"a\"",
                "store.sentinel-passwrd =****",
            ),
            ("a = { tokn = 1, b = 1 }", "a =********************"),
            (
                "api_key = 1\nmy_tokens = ['1']",
                "api_key =**\nmy_tokens =******",
            ),
            ("requirepass a\n  b", "requirepass**\n  b"),
            ("  \"password\": \"a=b\",", "  \"password\":*******"),
            ("password = [\"a\"]", "password =******"),
            ("password = \"${A}b\"", "password =********"),
            ("'redis://:${A}b@h'", "******************"),
            ("redis://:a@h", "************"),
            (
                "[policies.a]\noverrides = { live_x = 1 } # y\npartition = 1",
                "[policies.a]\noverrides*********************\npartition = 1",
            ),
            (
                "[policies.a.overrides]\nlive_x = 1\n[b]\nc = 1",
                "[policies.a.overrides]\n**********\n[b]\nc = 1",
            ),
            (
                "\u{feff}[policies.a.overrides]\nlive_x = 1\n[b]\nc = 1",
                "\u{feff}[policies.a.overrides]\n**********\n[b]\nc = 1",
            ),
            (
                "[policies.a.'overrides'.'live_x']\nquota = 1\n[[routes]]\nd = 1",
                "[policies.a.'overrides***********\n*********\n[[routes]]\nd = 1",
            ),
            (
                "policies.a.overrides = {\n  live_x = 1,\n}\nb = 1",
                "policies.a.overrides****\n*************\n*\nb = 1",
            ),
            (
                "a.overrides.live_x = 1\nb = 1",
                "a.overrides***********\nb = 1",
            ),
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
            "max_tokens = 10\ncost = { tokens = 5 }\ntoken\ntoken = # x",
            "'header:x-api-key || ip'\ntake = 1\nset = 'a:b'",
            "overrides_file = 'x'\noverrides_by = 'y'\nb = 1",
        ] {
            assert_eq!(overwritten(text), text);
        }
    }
}
