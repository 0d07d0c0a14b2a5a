//! A token as it is written (RFC 7515, section 7.1): three parts, the first of which says how it is signed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::SigningAlgorithm;
use super::json::{JsonMembers, string};
use crate::request::credential;

/// A token whose signature is still to be checked.
pub(super) struct UnverifiedToken<'t> {
    /// The text that is signed: the first two parts.
    pub(super) message: &'t str,
    pub(super) signature: &'t str,
    /// The claims, still encoded.
    payload: &'t str,
    pub(super) algorithm: SigningAlgorithm,
    /// The id of the key that signed it, if it names one.
    pub(super) key_id: Option<Box<str>>,
}

impl<'t> UnverifiedToken<'t> {
    /// Reads a token; none if it is malformed or of a kind that is not accepted.
    pub(super) fn read(token: &'t str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        let header = decoded(header)?;
        let header = JsonMembers::read(&header)?;
        // `crit` lists extensions that must be understood, and none are (RFC 7515, section 4.1.11).
        if payload.contains('.') || header.value("crit").is_some() {
            return None;
        }
        // The payload of a nested token is another token, not claims (RFC 7519, section 5.2).
        let content = header.value("cty").map(string);
        if content
            .is_some_and(|content| content.is_none_or(|value| value.eq_ignore_ascii_case("jwt")))
        {
            return None;
        }
        let key_id = match header.value("kid") {
            Some(id) => Some(string(id)?),
            None => None,
        };
        Some(Self {
            message,
            signature,
            payload,
            algorithm: SigningAlgorithm::named(&string(header.value("alg")?)?)?,
            key_id,
        })
    }

    /// Decodes the claims, which are JSON.
    pub(super) fn payload(&self) -> Option<String> {
        decoded(self.payload)
    }
}

/// Returns the token in a header's value, after `Bearer` in any case if that is there; none if it is too long.
pub(super) fn of_header(value: &[u8]) -> Option<&str> {
    let text = str::from_utf8(value).ok()?.trim_ascii();
    let token = match credential::split(text.as_bytes()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            str::from_utf8(token).ok()?
        }
        _ => text,
    };
    (token.len() <= TOKEN_BYTES_MAX).then_some(token)
}

fn decoded(part: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

const SCHEME: &[u8] = b"bearer";
/// Longer tokens do not verify.
pub(super) const TOKEN_BYTES_MAX: usize = 16 << 10;
