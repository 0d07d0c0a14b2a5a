//! Cookies and query parameters: if one value is found, every kind of origin reads that value.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue};
use tollgate::request::{Ambiguous, cookie_value, query_value};

use super::{lines, text};

/// Returns all values that one kind of origin reads under a name.
type Reader = fn(&[u8], &str) -> Vec<Vec<u8>>;

/// The input: a name, a query, and any number of lines of cookies.
pub fn holds(data: &[u8]) {
    let mut lines = lines(data);
    let (Some(name), Some(query)) = (text(&mut lines), text(&mut lines)) else {
        return;
    };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_part) {
        return;
    }
    let found = query_value(query, name).map(|query_value| query_value.map(Into::into));
    check(name, query.as_bytes(), found, '&', QUERY_READERS);

    let mut headers = HeaderMap::new();
    for line in lines.take(LINES_MAX) {
        if let Ok(line) = HeaderValue::from_bytes(line) {
            headers.append(COOKIE, line);
        }
    }
    let values = headers.get_all(COOKIE).iter();
    let cookies = values.map(HeaderValue::as_bytes).collect::<Vec<_>>();
    let found = cookie_value(&headers, name).map(|cookie_value| cookie_value.map(Into::into));
    check(name, &cookies.join(&b"; "[..]), found, ';', COOKIE_READERS);
}

fn check(
    name: &str,
    text: &[u8],
    found: Result<Option<Vec<u8>>, Ambiguous>,
    plain: char,
    readers: &[Reader],
) {
    let Ok(found) = found else {
        // Texts of plain names and values are ambiguous only if the name comes twice.
        let closed_up = String::from_utf8_lossy(text).replace("; ", ";");
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "=-".contains(char);
        let is_plain = closed_up
            .chars()
            .all(|char| is_plain(char) || char == plain);
        let is_twice = readers[0](text, name).len() > 1;
        assert!(is_twice || !is_plain, "{}", text.escape_ascii());
        return;
    };
    for (index, read) in readers.iter().enumerate() {
        let expected: Vec<_> = found.iter().cloned().collect();
        let shown = text.escape_ascii();
        assert_eq!(read(text, name), expected, "reader {index} of {shown}");
    }
}

const QUERY_READERS: &[Reader] = &[
    // As the documents say.
    |query, name| values(query, b"&", |pair| named(&split(pair), name, decode)),
    // Semicolons separate as well.
    |query, name| values(query, b"&;", |pair| named(&split(pair), name, decode)),
    // PHP.
    |query, name| values(query, b"&", |pair| named(&split(pair), &folded(name), php)),
    // Brackets in names make lists and tables.
    |query, name| {
        values(query, b"&", |pair| {
            named(&split(pair), name, before_bracket)
        })
    },
    // Pairs are decoded before they are split, and end at a NUL.
    |query, name| {
        let decoded = |pair: &[u8]| {
            let (left, right) = split(&decode(pair));
            let end = right
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(right.len());
            (left == name.as_bytes()).then(|| right[..end].to_vec())
        };
        values(query, b"&", decoded)
    },
];

const COOKIE_READERS: &[Reader] = &[
    // RFC 6265, section 5.2, without white space and quotes.
    |cookies, name| {
        values(cookies, b";", |pair| {
            named(&trimmed(pair), name, <[u8]>::to_vec)
        })
    },
    // Commas separate as well.
    |cookies, name| {
        values(cookies, b";,", |pair| {
            named(&trimmed(pair), name, <[u8]>::to_vec)
        })
    },
    // Names are decoded.
    |cookies, name| values(cookies, b";", |pair| named(&trimmed(pair), name, decode)),
    // PHP.
    |cookies, name| {
        values(cookies, b";", |pair| {
            named(&trimmed(pair), &folded(name), php)
        })
    },
    // Semicolons within quotes are part of the value.
    |cookies, name| {
        let mut found = Vec::new();
        let mut rest = cookies;
        while !rest.is_empty() {
            let end = end_of_quoted(rest);
            found.extend(named(&trimmed(&rest[..end]), name, <[u8]>::to_vec));
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        found
    },
];

fn values(text: &[u8], separators: &[u8], read: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
    let pairs = text.split(|byte| separators.contains(byte));
    pairs.filter_map(read).collect()
}

/// Returns the decoded value if the pair's name, as `read` reads it, is `name`.
fn named(pair: &(Vec<u8>, Vec<u8>), name: &str, read: fn(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    (read(&pair.0) == name.as_bytes()).then(|| decode(&pair.1))
}

fn split(pair: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut halves = pair.splitn(2, |byte| *byte == b'=').map(<[u8]>::to_vec);
    let left = halves.next().unwrap_or_default();
    (left, halves.next().unwrap_or_default())
}

fn trimmed(pair: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (left, right) = split(pair);
    let mut value = right.trim_ascii();
    if value.len() > 1 && value.starts_with(b"\"") && value.ends_with(b"\"") {
        value = &value[1..value.len() - 1];
    }
    (left.trim_ascii().to_vec(), value.to_vec())
}

fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits = text
            .get(at + 1..at + 3)
            .and_then(|text| str::from_utf8(text).ok());
        let is_hex = |text: &&str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match digits.filter(is_hex) {
            Some(digits) if text[at] == b'%' => {
                out.push(u8::from_str_radix(digits, 16).expect("hex digits"));
                at += 3;
            }
            _ => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}

/// Returns a name as PHP registers it: for an element of a list, the name of the list.
fn php(name: &[u8]) -> Vec<u8> {
    let name: Vec<u8> = name
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    let name = decode(&name);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let start = name
        .iter()
        .position(|byte| *byte != b' ')
        .unwrap_or(name.len());
    let name = &name[start..];
    let (open, close) = [b'[', b']']
        .map(|value| name.iter().position(|byte| *byte == value))
        .into();
    let end = match (open, close) {
        (Some(open), Some(close)) if open < close => open,
        _ => name.len(),
    };
    let fold = |byte: &u8| if b". [".contains(byte) { b'_' } else { *byte };
    name[..end].iter().map(fold).collect()
}

fn folded(name: &str) -> String {
    name.replace('.', "_")
}

fn before_bracket(name: &[u8]) -> Vec<u8> {
    let name = decode(name);
    name.split(|byte| *byte == b'[')
        .next()
        .unwrap_or_default()
        .to_vec()
}

/// Returns where a cookie ends if semicolons in a quoted value do not end it.
fn end_of_quoted(text: &[u8]) -> usize {
    let end = |from: usize| {
        let semicolon = text[from..].iter().position(|byte| *byte == b';');
        semicolon.map_or(text.len(), |at| from + at)
    };
    let plain = end(0);
    let Some(equals) = text[..plain].iter().position(|byte| *byte == b'=') else {
        return plain;
    };
    let blanks = text[equals + 1..].len() - text[equals + 1..].trim_ascii_start().len();
    let start = equals + 1 + blanks;
    if text.get(start) != Some(&b'"') {
        return plain;
    }
    let close = text[start + 1..].iter().position(|byte| *byte == b'"');
    close.map_or(plain, |at| end(start + 1 + at))
}

/// Lines of cookies that are read, which are more than a client sends.
const LINES_MAX: usize = 8;
