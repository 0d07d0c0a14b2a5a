//! A cookie that names the client.
//!
//! Cookies are separated by `;`, on any number of lines. White space around a name and a value does not count, nor does
//! one pair of double quotes around a value; a value is percent-decoded once, because many origins do that, and all
//! spellings of one value must be one client. A request is [`Ambiguous`] if origins could read it differently: it has
//! the cookie twice, a spelling that some take for its name ([`parameter`](mod@super::parameter)), such a name after a
//! comma, at which some origins split, the cookie after a double quote that is not closed, or a value with bytes that
//! RFC 6265 (section 4.1.1) does not allow: white space, `,`, `"`, `\`, control characters and bytes beyond ASCII.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::COOKIE;

use super::parameter::{self, Ambiguous, Spelling, pair, spelling};

/// Returns the value of the cookie `name`, which may be empty; none if it is not there.
///
/// # Errors
/// If origins could read another value.
pub fn cookie_value<'r>(
    headers: &'r HeaderMap,
    name: &str,
) -> Result<Option<Cow<'r, [u8]>>, Ambiguous> {
    let (mut found, mut is_quoted) = (None, false);
    let lines = headers.get_all(COOKIE).iter();
    for cookie in lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';')) {
        if cookie.len() < name.len() && !cookie.contains(&b'"') {
            // It is too short to have the name. A hostile request can have thousands of these, so
            // they are skipped early.
            continue;
        }
        let (written_name, written) = pair(cookie);
        let value = written.trim_ascii();
        let is_named = if memchr::memchr(b',', cookie).is_some() {
            let mut pieces = cookie.split(|byte| *byte == b',');
            if pieces.any(|piece| reads_as(pair(piece).0, name)) {
                return Err(Ambiguous);
            }
            false
        } else {
            reads_as(written_name, name)
        };
        if !is_named {
            // Some origins read on past the semicolon until the quote is closed.
            is_quoted |= value.starts_with(b"\"") && (value.len() == 1 || !value.ends_with(b"\""));
            continue;
        }
        // Some origins do not recognise a name in another spelling.
        let is_plain = written_name.trim_ascii() == name.as_bytes();
        if !is_plain || is_quoted || found.replace(unquoted(value)?).is_some() {
            return Err(Ambiguous);
        }
    }
    found.map(parameter::value).transpose()
}

fn reads_as(written: &[u8], name: &str) -> bool {
    spelling(written.trim_ascii(), name) != Spelling::Other
}

/// Removes one pair of double quotes; the rest must be a value that RFC 6265 allows.
fn unquoted(value: &[u8]) -> Result<&[u8], Ambiguous> {
    let inner = value
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    let value = inner.unwrap_or(value);
    let is_allowed = |byte: &u8| byte.is_ascii_graphic() && !b"\",\\".contains(byte);
    value
        .iter()
        .all(is_allowed)
        .then_some(value)
        .ok_or(Ambiguous)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn lines(lines: &[&str]) -> HeaderMap {
        let value = |line: &&str| HeaderValue::from_bytes(line.as_bytes()).expect("good value");
        lines.iter().map(|line| (COOKIE, value(line))).collect()
    }

    #[test]
    fn a_cookie_has_one_value_or_none_or_is_ambiguous() {
        for (cookies, expected) in [
            (&[][..], Ok(None)),
            (&[""], Ok(None)),
            (&["a=1; b=2"], Ok(None)),
            (&["key=1"], Ok(Some("1"))),
            (&["a=1; key=2;b=3"], Ok(Some("2"))),
            (&["a=1", "key=2"], Ok(Some("2"))),
            (&[" key = 1 ; a"], Ok(Some("1"))),
            (&["key=\"1\""], Ok(Some("1"))),
            (&["key=\"\""], Ok(Some(""))),
            (&["key"], Ok(Some(""))),
            (&["key=a=b=="], Ok(Some("a=b=="))),
            (&["key=s%3Aa.b+c"], Ok(Some("s:a.b+c"))),
            (&["key=a%2Cb"], Ok(Some("a,b"))),
            (&["Key=1; KEY=2"], Ok(None)),
            (&["x=a, b; y={\"a\":1,\"key\":2}"], Ok(None)),
            (&["x=1&key=2"], Ok(None)),
            (&["x=\"1\"; key=2"], Ok(Some("2"))),
            (&["key=1; x=\"2"], Ok(Some("1"))),
            (&["x=\"1; key=2\""], Err(Ambiguous)),
            (&["x=\"", "key=2; y=\""], Err(Ambiguous)),
            (&["key=1; key=1"], Err(Ambiguous)),
            (&["key=1", "key=2"], Err(Ambiguous)),
            (&["key; key=2"], Err(Ambiguous)),
            (&["key=; key=2"], Err(Ambiguous)),
            (&["a=1, key=2"], Err(Ambiguous)),
            (&["a=1,key =2; key=3"], Err(Ambiguous)),
            (&["a=1, key"], Err(Ambiguous)),
            (&["key=1,2"], Err(Ambiguous)),
            (&["key,a=1"], Err(Ambiguous)),
            (&["k%65y=1"], Err(Ambiguous)),
            (&["key[]=1"], Err(Ambiguous)),
            (&["key[a]=1; key=2"], Err(Ambiguous)),
            (&["\u{a0}key=1"], Err(Ambiguous)),
            (&["key=\"1"], Err(Ambiguous)),
            (&["key=1\""], Err(Ambiguous)),
            (&["key=\"\"1\"\""], Err(Ambiguous)),
            (&["key=\"\\141\""], Err(Ambiguous)),
            (&["key=\"a;b\""], Err(Ambiguous)),
            (&["key=a b"], Err(Ambiguous)),
            (&["key=é"], Err(Ambiguous)),
            (&["key=a%00b"], Err(Ambiguous)),
        ] {
            let expected = expected.map(|text| text.map(|text| Cow::Borrowed(text.as_bytes())));
            assert_eq!(
                cookie_value(&lines(cookies), "key"),
                expected,
                "{cookies:?}"
            );
        }
        for cookie in ["a.b=1", "a b=1", "a[b=1", "a+b=1"] {
            assert_eq!(
                cookie_value(&lines(&[cookie]), "a_b"),
                Err(Ambiguous),
                "{cookie}"
            );
        }
    }
}
