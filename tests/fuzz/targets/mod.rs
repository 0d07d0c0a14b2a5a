//! One target for each reader of strangers' bytes. A target takes any bytes, and panics if a law of
//! its module does not hold. A law is a slow reading of the same input, written here from the
//! documents and not from the code.

pub mod client;
pub mod config;
pub mod cost;
pub mod fields;
pub mod host;
pub mod log_line;
pub mod named_values;
pub mod partition;
pub mod partition_id;
pub mod path;
pub mod proxy_header;
pub mod response;
pub mod route;
pub mod scalar;
pub mod token;

use http::{HeaderMap, HeaderName, HeaderValue};

/// Reads lines of `name: value` as a request's fields; lines that cannot be fields are left out.
fn header_map<'l>(lines: impl Iterator<Item = &'l [u8]>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.take(FIELDS_MAX) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        // The parser of requests trims values, too.
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// The lines of an input.
fn lines(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|&byte| byte == b'\n')
}

/// Returns the next line, if it is text.
fn text<'l>(lines: &mut impl Iterator<Item = &'l [u8]>) -> Option<&'l str> {
    str::from_utf8(lines.next()?).ok()
}

/// Returns the bytes of a text with escapes, each with whether it came as an escape; `None` if a
/// `%` begins no escape.
fn units(text: &str) -> Option<Vec<(u8, bool)>> {
    let mut units = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            units.push((byte, false));
            rest = after;
            continue;
        }
        let digits = after.get(..2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let digits = str::from_utf8(digits).expect("hex digits");
        units.push((u8::from_str_radix(digits, 16).expect("hex digits"), true));
        rest = &after[2..];
    }
    Some(units)
}

/// Most fields that the parsers of requests and of responses accept.
const FIELDS_MAX: usize = 100;

/// Decodes the escapes of those characters that most origins read alike in either form.
fn compared(path: &str) -> String {
    let units = units(path).expect("a normal path has whole escapes");
    let spell = |(byte, escaped): (u8, bool)| {
        if escaped && !b"!$&'()*+,;=:@".contains(&byte) {
            format!("%{byte:02X}")
        } else {
            char::from(byte).to_string()
        }
    };
    units.into_iter().map(spell).collect()
}
