//! Keeps the secrets of a file out of messages about it.
//!
//! Reports go to terminals and journals. The value of a variable never gets that far; this is for files that contain
//! passwords themselves. A value is [`redacted`] before it becomes part of a sentence, a variable is shown
//! [`without_defaults`], and a line that may hold a secret is [`overwritten`] before it is shown with a mistake.
//! Patterns of overrides may be clients' keys, and are shortened to what logs show of these.

mod defaults;
mod keys;
mod patterns;
mod urls;

use std::borrow::Cow;
use std::ops::Range;

use self::defaults::is_variable;
pub(super) use self::defaults::without_defaults;
use self::keys::{is_of_key, secret_value};
pub(super) use self::patterns::{behind_shown, may_be_key, quoted, secret_parts};
use self::urls::credentials;

/// Returns a value in which `***` replaces the passwords of URLs.
pub(super) fn redacted(value: &str) -> Cow<'_, str> {
    let mut redacted = Cow::Borrowed(value);
    for place in credentials(value).into_iter().rev() {
        if is_secret(value, &place) {
            redacted.to_mut().replace_range(place, "***");
        }
    }
    redacted
}

/// Returns a file's text in which a line that may hold a secret is overwritten after its first `=`, byte for byte, so
/// that places stay the same. Lines of overrides are overwritten whole.
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

/// What the lines so far say about the next one.
#[derive(Default)]
struct SecretLines {
    /// End of a secret of several lines that has begun, if one has.
    open: Option<&'static str>,
    /// Whether the next line may be part of overrides.
    in_overrides: bool,
}

impl SecretLines {
    /// Returns the offset from which the next line may hold a secret, if it may. The line need not be TOML.
    fn secret_from(&mut self, line: &str) -> Option<usize> {
        if let Some(close) = self.open {
            self.open = (!line.contains(close)).then_some(close);
            return Some(0);
        }
        let is_header = line.trim_start_matches(is_lead).starts_with('[');
        let was_in_overrides = self.in_overrides && !is_header;
        if let Some(behind) = behind_overrides(line) {
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
        let password = credentials(line)
            .into_iter()
            .find(|place| is_secret(line, place));
        let of_url = password.map(|password| equals.unwrap_or(0).min(password.start));
        let of_key =
            secret_value(line).map(|value| equals.map_or(value, |equals| equals.min(value)));
        let of_file = line.find(PEM.0);
        let from = of_url.into_iter().chain(of_key).chain(of_file).min()?;
        self.open = SPANS.into_iter().find_map(|(open, close)| {
            let (opened, closed) = (line.matches(open).count(), line.matches(close).count());
            let is_open = if open == close {
                opened == 1
            } else {
                opened > closed
            };
            is_open.then_some(close)
        });
        Some(from)
    }
}

/// Beginning and end of the text of a key or a certificate.
const PEM: (&str, &str) = ("-----BEGIN", "-----END");
/// Delimiters that may enclose a secret of several lines.
const SPANS: [(&str, &str); 5] = [
    ("\"\"\"", "\"\"\""),
    ("'''", "'''"),
    PEM,
    ("[", "]"),
    ("{", "}"),
];

/// Whether a character may precede the header of a table: a blank, or the mark that some editors begin a file with.
pub(super) fn is_lead(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// Returns the end of the first word that is `overrides`, possibly misspelled.
fn behind_overrides(line: &str) -> Option<usize> {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches(|c| !is_of_key(c));
        let behind = rest.trim_start_matches(is_of_key);
        let word = &rest[..rest.len() - behind.len()];
        if word.is_empty() {
            return None;
        }
        let is_long_enough = word.len().abs_diff(OVERRIDES.len()) <= OVERRIDES_EDITS;
        if is_long_enough && strsim::osa_distance(word, OVERRIDES) <= OVERRIDES_EDITS {
            return Some(line.len() - behind.len());
        }
        rest = behind;
    }
}

const OVERRIDES: &str = "overrides";
/// How many letters of `overrides` may be wrong.
const OVERRIDES_EDITS: usize = 2;

/// Whether the text at `place` is a secret. A variable is not, and its name may be the mistake.
fn is_secret(text: &str, place: &Range<usize>) -> bool {
    !place.is_empty() && !is_variable(&text[place.clone()])
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
            ("password := 'a'\n“pw” = 'a'", "password :=****\n“pw” =****"),
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
            ("u = 'redis://:a'", "u =*************"),
            ("u = ['name:a@h:80']", "u =****************"),
            ("u = '//n:a@h', 'http:/:a@h'", "u =************************"),
            ("password = '${A:-a}'", "password =**********"),
            (
                "a = '''\n-----BEGIN KEY\nb\n-----END KEY\nc",
                "a = '''\n**************\n*\n************\nc",
            ),
            ("password = [\n'a'\n]\nb", "password =**\n***\n*\nb"),
        ] {
            assert_eq!(overwritten(text), shown);
        }
    }

    #[test]
    fn a_line_of_overrides_is_overwritten_whole() {
        for (text, shown) in [
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
            (
                "[policies.a]\noverides = { live_x = 1 }\npartition = 1",
                "[policies.a]\noverides*****************\npartition = 1",
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
            ("a:b@h, c@h, /d:e@h", "a:***@h, c@h, /d:***@h"),
            ("redis://:a", "redis://:***"),
            ("http://:8080", "http://:8080"),
            ("n:a@h http://u:a b:c@h", "n:***@h http://u:***@h"),
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
            "a = ['http://auth:9000', 'token:80']\npath = '/{token:[0-9]+}'\n'unix:/run/a@b'",
            "overrides_file = 'x'\noverrides_by = 'y'\nb = 1",
        ] {
            assert_eq!(overwritten(text), text);
        }
    }
}
