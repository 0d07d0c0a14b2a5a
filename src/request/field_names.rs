//! Names of fields that must not pass: those that are no tokens (RFC 9110, section 5.6.2).

use http::HeaderMap;

/// Whether every name is a token.
///
/// Names that come in HTTP/1.1 have been read as tokens already. In HTTP/2, the `http` crate takes one byte
/// more, a double quote, which no origin of HTTP/1.1 has to read as a part of a name.
pub fn are_tokens(headers: &HeaderMap) -> bool {
    headers
        .keys()
        .all(|name| !name.as_str().as_bytes().contains(&b'"'))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// If the `http` crate takes still more one day, this finds it.
    #[test]
    fn only_names_that_are_tokens_pass() {
        for byte in 0..=u8::MAX {
            let is_token =
                matches!(byte, b'0'..=b'9' | b'a'..=b'z') || b"!#$%&'*+-.^_`|~".contains(&byte);
            // Short names and long ones are read in two ways.
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
