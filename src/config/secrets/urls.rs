//! Finds the passwords of URLs.

use std::ops::Range;

use super::keys::is_of_key;

/// Returns the places of the passwords of URLs, or of the whole text before `@` if it has no colon, in order.
pub(super) fn credentials(text: &str) -> Vec<Range<usize>> {
    let of_urls = text.match_indices("://").filter_map(|(at, mark)| {
        let start = at + mark.len();
        let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
        let before = text[..at].trim_end_matches(is_of_scheme);
        let quote = before.chars().next_back().filter(|c| "\"'".contains(*c));
        let ends = |c: char| c == '\n' || quote.map_or("\"'".contains(c), |quote| c == quote);
        let url = text[start..].split(ends).next()?;
        let authority = url.split('/').next()?;
        let user = match authority.rsplit_once('@') {
            Some((user, _)) => user,
            // A password with a slash in it is a mistake, but is hidden as well.
            None if authority.contains(':') && url.contains('@') => url.rsplit_once('@')?.0,
            // The host is missing, and the text after the colon is not a port.
            None if is_password(authority.strip_prefix(':')?) => authority,
            None => return None,
        };
        let password = user.find(':').map_or(0, |colon| colon + 1);
        Some(start + password..start + user.len())
    });
    let mut found: Vec<_> = of_urls.chain(credentials_without_scheme(text)).collect();
    found.sort_unstable_by_key(|place| place.start);
    found.dedup_by(|next, last| {
        let is_part = next.start < last.end;
        if is_part {
            last.end = last.end.max(next.end);
        }
        is_part
    });
    found
}

/// Whether a text after a colon may be a password: a port, as in `:8080`, is none.
fn is_password(text: &str) -> bool {
    text.parse::<u16>().is_err()
}

/// Returns the places of the passwords in `user:password@host` with no scheme, or with a part of one.
fn credentials_without_scheme(text: &str) -> impl Iterator<Item = Range<usize>> {
    let ends_word = |c: char| c.is_whitespace() || "\"'".contains(c);
    let words = text.split_inclusive(ends_word).scan(0, |end, word| {
        *end += word.len();
        Some((*end - word.len(), word))
    });
    words.filter_map(|(start, word)| {
        let (user, _) = word.rsplit_once('@')?;
        let name = user.rfind('/').map_or(0, |slash| slash + 1);
        let colon = name + user[name..].find(':')?;
        let is_one = !user.contains("://") && user[name..colon].chars().all(is_of_key);
        is_one.then_some(start + colon + 1..start + user.len())
    })
}
