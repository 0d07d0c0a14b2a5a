//! Field names that must not pass: those that are not tokens (RFC 9110, section 5.6.2).

use http::HeaderMap;

/// Whether every name is a token.
///
/// Names that come over HTTP/1.1 have been checked already. In names over HTTP/2, the `http` crate accepts one more
/// byte, the double quote, which an HTTP/1.1 origin need not take for a part of a name.
pub fn are_tokens(headers: &HeaderMap) -> bool {
    headers
        .keys()
        .all(|name| !name.as_str().as_bytes().contains(&b'"'))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// This fails if the `http` crate starts to accept further bytes.
    #[test]
    fn only_names_that_are_tokens_pass() {
        for byte in 0..=u8::MAX {
            let is_token =
                matches!(byte, b'0'..=b'9' | b'a'..=b'z') || b"!#$%&'*+-.^_`|~".contains(&byte);
            // The crate parses short and long names by different code.
            for length in [3, 100] {
                let mut name = vec![b'x'; length];
                name[1] = byte;
                let Ok(name) = HeaderName::from_lowercase(&name) else {
                    assert!(!is_token, "{byte:#x}");
                    continue;
                };
                let headers = HeaderMap::from_iter([(name, HeaderValue::from_static("1"))]);
                assert_eq!(are_tokens(&headers), is_token, "{byte:#x}");
            }
        }
    }
}
