//! The spelling in which values of Authorization are compared: those that origins take for the same
//! credential become one.
//!
//! The text before the first space or tab is the scheme (RFC 9110, section 11.1), whose case does not matter. Several
//! blanks after it count as one, and those at the end are dropped. What follows is compared byte by byte; for Basic it
//! must be canonical base64, whose padding may be missing (RFC 4648, section 4), because decoders take other texts for
//! the same password. A value without a blank is compared as it is.

use std::borrow::Cow;

use super::parameter::Ambiguous;

/// Returns the spelling in which a credential is compared: `Bearer abc`, `Basic YTpi`. The usual ones
/// are borrowed.
///
/// # Errors
/// If it has a password that origins could decode differently.
pub fn credential(value: &[u8]) -> Result<Cow<'_, [u8]>, Ambiguous> {
    let value = value.trim_ascii();
    let Some((scheme, rest)) = split(value) else {
        return Ok(value.into());
    };
    let mut padding = 0;
    if scheme.eq_ignore_ascii_case(BASIC) {
        padding = missing_padding(rest).ok_or(Ambiguous)?;
    }
    let is_canonical = value[scheme.len()] == b' '
        && value.len() == scheme.len() + 1 + rest.len()
        && padding == 0
        && is_capitalised(scheme);
    if is_canonical {
        return Ok(value.into());
    }
    let mut canonical = capitalised(scheme);
    canonical.push(b' ');
    canonical.extend_from_slice(rest);
    canonical.extend(std::iter::repeat_n(b'=', padding));
    Ok(canonical.into())
}

/// Returns the spelling in which the beginning of a credential is compared; none if no credential
/// can begin like that.
pub(super) fn beginning(text: &str) -> Option<Cow<'_, str>> {
    let Some((scheme, rest)) = split(text.as_bytes()) else {
        // A well-known scheme must be followed by a blank.
        let schemes = ["basic", "bearer"];
        let is_scheme = schemes
            .iter()
            .any(|scheme| text.eq_ignore_ascii_case(scheme));
        return (!is_scheme).then_some(text.into());
    };
    if scheme.eq_ignore_ascii_case(BASIC) && rest.iter().any(|byte| sextet(*byte).is_none()) {
        return None;
    }
    let mut canonical = capitalised(scheme);
    canonical.push(b' ');
    canonical.extend_from_slice(rest);
    String::from_utf8(canonical).ok().map(Cow::Owned)
}

/// Splits a value at the blanks after its scheme; none if it has no blank.
pub(super) fn split(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank = value.iter().position(|byte| is_blank(*byte))?;
    let (scheme, rest) = value.split_at(blank);
    let begin = rest.iter().position(|byte| !is_blank(*byte));
    Some((scheme, &rest[begin.unwrap_or(rest.len())..]))
}

/// Whether a credential, in the spelling in which it is compared, is a user name and a password.
pub(super) fn is_basic(credential: &[u8]) -> bool {
    split(credential).is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case(BASIC))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Whether a scheme is capitalised. Most are, and then nothing has to be copied.
fn is_capitalised(scheme: &[u8]) -> bool {
    let mut bytes = scheme.iter();
    bytes.next().is_none_or(|first| !first.is_ascii_lowercase())
        && bytes.all(|byte| !byte.is_ascii_uppercase())
}

fn capitalised(scheme: &[u8]) -> Vec<u8> {
    let mut scheme = scheme.to_ascii_lowercase();
    if let Some(first) = scheme.first_mut() {
        first.make_ascii_uppercase();
    }
    scheme
}

/// Returns how many `=` are missing at the end of canonical base64; none if the text is not canonical.
fn missing_padding(text: &[u8]) -> Option<usize> {
    let data = text.iter().position(|byte| *byte == b'=');
    let (data, padding) = text.split_at(data.unwrap_or(text.len()));
    let wanted = (4 - data.len() % 4) % 4;
    // The last character's bits that belong to no byte must be zero.
    let unused = match wanted {
        0 => 0,
        1 => 0b11,
        2 => 0b1111,
        _ => return None,
    };
    let is_padded = padding.is_empty() || padding == &b"=="[..wanted];
    let mut last = 0;
    for byte in data {
        last = sextet(*byte)?;
    }
    (is_padded && last & unused == 0).then(|| wanted - padding.len())
}

/// Returns the six bits that a character of base64 stands for.
fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

const BASIC: &[u8] = b"basic";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_credential_are_one() {
        for (value, expected) in [
            ("Bearer k1", Some("Bearer k1")),
            ("bearer k1", Some("Bearer k1")),
            ("BEARER \t k1", Some("Bearer k1")),
            (" Bearer\tk1\t ", Some("Bearer k1")),
            ("Bearer K1", Some("Bearer K1")),
            ("Bearer k1  k2", Some("Bearer k1  k2")),
            (
                "AWS4-HMAC-SHA256 a=b, c=d",
                Some("Aws4-hmac-sha256 a=b, c=d"),
            ),
            ("k1", Some("k1")),
            ("K1", Some("K1")),
            ("Bearer", Some("Bearer")),
            ("bearer", Some("bearer")),
            ("", Some("")),
            ("Basic YTpi", Some("Basic YTpi")),
            ("basic  YTpi", Some("Basic YTpi")),
            ("Basic YTpiYw==", Some("Basic YTpiYw==")),
            ("Basic YTpiYw", Some("Basic YTpiYw==")),
            ("Basic YTpiY2Q", Some("Basic YTpiY2Q=")),
            ("Basic YTpiYx==", None),
            ("Basic YTpiYw=", None),
            ("Basic YTpiYw===", None),
            ("Basic YTpi====", None),
            ("Basic YTpiY", None),
            ("Basic YTpi YTpi", None),
            ("Basic YTp-", None),
            ("Basic a:b", None),
            ("Basic =", None),
        ] {
            let expected = expected.map(|expected| Cow::Borrowed(expected.as_bytes()));
            assert_eq!(credential(value.as_bytes()).ok(), expected, "{value:?}");
        }
    }

    #[test]
    fn padding_is_that_of_the_decoder() {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        for length in 0..40_u8 {
            let padded = STANDARD.encode(
                (0..length)
                    .map(|length| length.wrapping_mul(37))
                    .collect::<Vec<u8>>(),
            );
            let bare = padded.trim_end_matches('=');
            assert_eq!(missing_padding(padded.as_bytes()), Some(0), "{padded}");
            let missing = padded.len() - bare.len();
            assert_eq!(missing_padding(bare.as_bytes()), Some(missing), "{bare}");
        }
    }
}
