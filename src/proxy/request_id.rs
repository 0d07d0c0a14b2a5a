//! Gives every request an id, by which its lines in the origin's log and in the gateway's can be matched.
//!
//! The id of a trusted peer is kept, so that it stays the same along a chain of proxies. Any other id
//! is replaced, because it could be another request's. The trace that a request is part of (W3C Trace
//! Context) is only read, and passed on as it came.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::wire::unindexed;
use crate::chance;
use crate::request::only_line;

/// Returns the id of a request: a trusted peer's, or a new one.
pub(super) fn of(headers: &HeaderMap, name: &HeaderName, is_trusted: bool) -> HeaderValue {
    if is_trusted && let Some(id) = only_line(headers, name).filter(|id| is_plausible(id)) {
        return unindexed(id.clone());
    }
    // One allocation for all copies.
    let id = Bytes::from_owner(chance::hex_digits());
    unindexed(HeaderValue::from_maybe_shared(id).expect("hex digits make a value"))
}

/// Returns the id of the trace that a request is part of: 32 hex digits.
pub(super) fn trace_id(headers: &HeaderMap) -> Option<&[u8]> {
    let value = only_line(headers, &TRACEPARENT)?.as_bytes();
    let (head, rest) = value.split_at_checked(TRACEPARENT_LEN)?;
    let fields: [&[u8]; 4] = [&head[..2], &head[3..35], &head[36..52], &head[53..]];
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_zero = |field: &[u8]| field.iter().all(|&byte| byte == b'0');
    let [version, trace, parent, _] = fields;
    let has_dashes = [2, 35, 52].iter().all(|&at| head[at] == b'-');
    // A later version may have further fields.
    let is_whole = rest.is_empty() || (version != b"00" && rest[0] == b'-');
    let is_valid = has_dashes
        && is_whole
        && fields.iter().all(|field| field.iter().all(is_hex))
        && version != b"ff"
        && !is_zero(trace)
        && !is_zero(parent);
    is_valid.then_some(trace)
}

/// Whether a value can be an id, and is fit for a log.
fn is_plausible(id: &HeaderValue) -> bool {
    let id = id.as_bytes();
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// Longest id of a trusted peer that is kept.
const ID_BYTES_MAX: usize = 128;
/// Length of `00-TRACE-PARENT-FLAGS`.
const TRACEPARENT_LEN: usize = 55;
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::hop_by_hop::tests::fields;

    static NAME: HeaderName = HeaderName::from_static("x-request-id");

    fn id_of(lines: &[(&str, &str)], is_trusted: bool) -> String {
        let id = of(&fields(lines), &NAME, is_trusted);
        assert!(id.is_sensitive(), "no other message has it");
        id.to_str().expect("an id is ASCII").to_owned()
    }

    #[test]
    fn an_id_is_kept_if_a_trusted_peer_gave_a_plausible_one() {
        let longest = "a".repeat(ID_BYTES_MAX);
        let too_long = format!("{longest}a");
        for (lines, is_trusted, is_kept) in [
            (&[("x-request-id", "7f-a/b=\"")][..], true, true),
            (&[("x-request-id", &*longest)], true, true),
            (&[("x-request-id", "7f")], false, false),
            (&[("x-request-id", &*too_long)], true, false),
            (&[("x-request-id", "")], true, false),
            (&[("x-request-id", "a b")], true, false),
            (&[("x-request-id", "é")], true, false),
            (&[("x-request-id", "a"), ("x-request-id", "b")], true, false),
            (&[], true, false),
        ] {
            let id = id_of(lines, is_trusted);
            let given = lines.first().map(|(_, given)| *given);
            assert_eq!(given == Some(&*id), is_kept, "{lines:?}");
            let is_hex = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_kept || is_hex, "{id}");
        }
        assert_ne!(id_of(&[], false), id_of(&[], false));
    }

    #[test]
    fn a_trace_is_read_as_the_recommendation_says() {
        const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
        let traced = |value: &str| {
            let headers = fields(&[("traceparent", value)]);
            trace_id(&headers).map(<[u8]>::to_vec)
        };
        for (value, is_valid) in [
            (format!("00-{TRACE}-b7ad6b7169203331-01"), true),
            (format!("01-{TRACE}-b7ad6b7169203331-01"), true),
            (format!("cc-{TRACE}-b7ad6b7169203331-01-what"), true),
            (format!("00-{TRACE}-b7ad6b7169203331-01-what"), false),
            (format!("cc-{TRACE}-b7ad6b7169203331-01what"), false),
            (format!("ff-{TRACE}-b7ad6b7169203331-01"), false),
            (format!("00-{TRACE}-0000000000000000-01"), false),
            (format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)), false),
            (
                format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
                false,
            ),
            (format!("00-{TRACE}-b7ad6b7169203331-0g"), false),
            (format!("00_{TRACE}-b7ad6b7169203331-01"), false),
            (format!("00-{TRACE}-b7ad6b7169203331-0"), false),
            (String::new(), false),
        ] {
            let expected = is_valid.then(|| TRACE.as_bytes().to_vec());
            assert_eq!(traced(&value), expected, "{value}");
        }
        let line = format!("00-{TRACE}-b7ad6b7169203331-01");
        let twice = fields(&[("traceparent", &line), ("traceparent", &line)]);
        assert_eq!(trace_id(&twice), None);
    }
}
