//! Paths: what is matched is what every origin sees.

use http::Uri;
use http::uri::PathAndQuery;
use tollgate::request::path::{Normalised, normalise};

use super::units;

/// The input is the path; as a request's target it is forwarded with its query.
pub fn holds(data: &[u8]) {
    target(data);
    let Ok(path) = str::from_utf8(data) else {
        return;
    };
    let normal = normalise(path);
    let expected = reference(path);
    let found = normal.as_ref().map(Normalised::as_str);
    assert_eq!(found.ok(), expected.as_deref(), "{path:?}: {normal:?}");
    let Ok(normal) = normal else { return };
    let text = normal.as_str();

    assert!(text.is_ascii() && text.starts_with('/') && !text.contains("//"));
    assert!(text.split('/').all(|segment| !is_dots(segment)));
    assert!(text.len() <= 3 * path.len());
    for (byte, escaped) in units(text).expect("a normal path has whole escapes") {
        assert_ne!(byte, 0);
        let stands = byte == b'/' && !escaped || stands_for_itself(byte, escaped);
        assert_eq!(!escaped, stands, "{text}");
    }
    let escapes = text.match_indices('%').map(|(at, _)| &text[at + 1..at + 3]);
    let mut digits = escapes.flat_map(str::bytes);
    assert!(digits.all(|digit| !digit.is_ascii_lowercase()), "{text}");

    let again = normalise(text).expect("a normal path is good");
    assert_eq!(again.as_str(), text);
    assert_eq!(again.has_encoded_slash(), holds_slash(text));
    assert_eq!(normal.has_encoded_slash(), holds_slash(path));
    let is_borrowed = std::ptr::eq(text.as_ptr(), path.as_ptr());
    assert_eq!(is_borrowed, text == path, "borrowed iff unchanged");

    // This is an origin that decodes everything once, takes `\` for `/`, and cuts off parameters.
    let bytes = units(text).into_iter().flatten().map(|(byte, _)| byte);
    let decoded: Vec<u8> = bytes.collect();
    let upwards = decoded
        .split(|byte| matches!(byte, b'/' | b'\\'))
        .map(|segment| segment.split(|&byte| byte == b';').next())
        .any(|name| matches!(name, Some(b"." | b"..")));
    assert!(!upwards, "{text}");
}

/// Asserts that the matched path and the query that came make up a target that can be forwarded.
fn target(data: &[u8]) {
    let Ok(target) = Uri::try_from(data) else {
        return;
    };
    let Ok(path) = normalise(target.path()) else {
        return;
    };
    let query = target.query().map(|query| format!("?{query}"));
    let text = format!("{}{}", path.as_str(), query.unwrap_or_default());
    let sent = PathAndQuery::try_from(text).expect("a target");
    assert_eq!((sent.path(), sent.query()), (path.as_str(), target.query()));
}

fn holds_slash(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    lower.contains("%2f") || lower.contains("%5c")
}

/// Returns the normal form, made segment by segment; `None` if the path is refused.
fn reference(path: &str) -> Option<String> {
    let is_refused = |c: char| c <= ' ' || matches!(c, '\x7f' | '?' | '#' | '\\');
    if path.contains(is_refused) {
        return None;
    }
    let mut kept: Vec<String> = Vec::new();
    let mut ends_in_name = false;
    for segment in path.strip_prefix('/')?.split('/') {
        let units = units(segment)?;
        if units.contains(&(0, true)) {
            return None;
        }
        let spelled: String = units.iter().copied().map(spell).collect();
        ends_in_name = false;
        match spelled.as_str() {
            "." => {}
            ".." => drop(kept.pop()),
            // `..` may still remove an empty segment; only those that are left over are merged.
            "" => kept.push(spelled),
            _ if is_disguised(&units) => return None,
            _ => {
                kept.push(spelled);
                ends_in_name = true;
            }
        }
    }
    kept.retain(|segment| !segment.is_empty());
    let last = if ends_in_name || kept.is_empty() {
        ""
    } else {
        "/"
    };
    Some(format!("/{}{last}", kept.join("/")))
}

fn spell((byte, escaped): (u8, bool)) -> String {
    if stands_for_itself(byte, escaped) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

/// RFC 3986: `unreserved` always stands for itself, the rest of `pchar` only if it did not come as an escape.
fn stands_for_itself(byte: u8, escaped: bool) -> bool {
    let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    is_unreserved || (!escaped && b"!$&'()*+,;=:@".contains(&byte))
}

/// Whether an encoded slash or a parameter hides a dot segment.
fn is_disguised(units: &[(u8, bool)]) -> bool {
    let is_slash = |unit: &(u8, bool)| matches!(unit, (b'/' | b'\\', true));
    units.split(is_slash).any(|piece| {
        let name = piece.split(|(byte, _)| *byte == b';').next();
        let name: String = name.into_iter().flatten().copied().map(spell).collect();
        is_dots(&name)
    })
}

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}
