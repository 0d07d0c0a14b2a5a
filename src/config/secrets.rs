//! Overwrites what reads as a secret in a file's lines before they are shown beside a mistake.
//!
//! Those lines go to terminals and journals. What a variable stands for never gets that far; this is
//! for files that hold their passwords themselves.

use std::ops::Range;

/// Keys whose values are secrets.
const KEYS: [&str; 4] = ["password", "sentinel_password", "key_secret", "token"];

/// Where the secrets of a file are.
pub(super) struct Secrets<'t> {
    text: &'t str,
    /// In order, none within another.
    places: Vec<Range<usize>>,
}

impl<'t> Secrets<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let lower = text.to_ascii_lowercase();
        let values = KEYS.iter().flat_map(|key| values_of(&lower, key));
        // A variable's name is no secret, and may be the mistake.
        let is_secret =
            |place: &Range<usize>| !place.is_empty() && !is_variable(&text[place.clone()]);
        let mut found: Vec<_> = credentials(text).chain(values).filter(is_secret).collect();
        found.sort_unstable_by_key(|place| place.start);
        let mut places: Vec<Range<usize>> = Vec::new();
        for place in found {
            match places.last_mut().filter(|last| place.start < last.end) {
                Some(last) => last.end = last.end.max(place.end),
                None => places.push(place),
            }
        }
        Self { text, places }
    }

    /// Returns the text with its secrets overwritten byte for byte, so that places stay where they are.
    pub(super) fn overwritten(&self) -> String {
        let mut bytes = self.text.as_bytes().to_vec();
        for place in &self.places {
            bytes[place.clone()].fill(b'*');
        }
        String::from_utf8(bytes).expect("whole characters were overwritten")
    }

    /// Returns what is said of `span` without the secrets there; none if it has none of them.
    pub(super) fn left_out(&self, said: &str, span: &Range<usize>) -> Option<String> {
        let first = self.places.partition_point(|place| place.end <= span.start);
        let places = self.places[first..].iter();
        let there = places.take_while(|place| place.start < span.end);
        let mut left = said.to_owned();
        for secret in there.map(|place| &self.text[place.clone()]) {
            left = left.replace(secret, "***");
            // A long text may be cut within it.
            let cut = (secret.char_indices().skip(1))
                .filter_map(|(end, _)| left.find(&format!("{}…", &secret[..end])))
                .min();
            if let Some(cut) = cut {
                let end = left[cut..].find('…').map_or(left.len(), |end| cut + end);
                left.replace_range(cut..end, "***");
            }
        }
        (left != said).then_some(left)
    }
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
            ("password = a b#x\nc", "password = *****\nc"),
            ("Token = 5\r\n", "Token = *\r\n"),
            ("password = [\"a\"]", "password = *****"),
            ("password = \"${A}b\"", "password = \"*****\""),
            ("'redis://:${A}b@h'", "'redis://:*****@h'"),
            ("'redis://:a/b@h'", "'redis://:***@h'"),
            ("'redis://:a\"b@h'", "'redis://:***@h'"),
            ("redis://:a@h", "redis://:*@h"),
        ] {
            assert_eq!(Secrets::of(text).overwritten(), shown);
        }
    }

    #[test]
    fn what_is_said_of_a_secret_leaves_it_out() {
        let text = "a = 'http://u:secret@h'\nb = 'secret'";
        let secrets = Secrets::of(text);
        let left_out = |said, span| secrets.left_out(said, &span);
        for (said, left) in [
            ("`http://u:secret@h` is bad", "`http://u:***@h` is bad"),
            ("`http://u:sec…` is bad", "`http://u:***…` is bad"),
        ] {
            assert_eq!(left_out(said, 4..23).as_deref(), Some(left));
        }
        assert_eq!(left_out("it is bad", 4..23), None);
        assert_eq!(left_out("`secret` is bad", 28..36), None);
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "url = 'redis://:${PASSWORD}@h:1'",
            "password = \"${PASSWORD}\"",
            "endpoints = ['http://a/x@y', 'http://b:80']",
            "no_token = 'x'\ntokens = 'x'\ntoken\ntoken = # x",
        ] {
            assert_eq!(Secrets::of(text).overwritten(), text);
        }
    }
}
