//! Requests for another protocol on the same connection (RFC 9110, section 7.8).

use http::header::{CONNECTION, HeaderMap, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Version};

use super::hop_by_hop::tokens;
use super::only_line::only_line;

/// Whether a value of Upgrade asks for another protocol than HTTP/2 (`h2c`), which is never granted.
pub fn switches_protocol(value: &[u8]) -> bool {
    !value.trim_ascii().eq_ignore_ascii_case(b"h2c")
}

/// Whether `asked`, a protocol as named in Upgrade, is `allowed`: a name without a version allows
/// all versions. Case does not matter.
pub fn is_allowed(asked: &[u8], allowed: &str) -> bool {
    let name = asked.split(|&byte| byte == b'/').next();
    let compared = name.filter(|_| !allowed.contains('/')).unwrap_or(asked);
    compared.eq_ignore_ascii_case(allowed.as_bytes())
}

/// Returns the protocol that a request asks to switch to, if it asks properly. A request with a
/// body does not, because the body would be the other protocol's first bytes.
///
/// Over HTTP/2, only an extended CONNECT has the field, and its body is the tunnel.
pub fn asked(head: &Parts, has_body: bool) -> Option<HeaderValue> {
    let asked = only_line(&head.headers, &UPGRADE)?;
    let is_proper = match head.version {
        Version::HTTP_11 => !has_body && is_option(&head.headers),
        Version::HTTP_2 => true,
        _ => false,
    };
    (is_proper && switches_protocol(asked.as_bytes())).then(|| asked.clone())
}

/// Whether Connection names Upgrade.
fn is_option(headers: &HeaderMap) -> bool {
    let mut options = headers.get_all(CONNECTION).iter().flat_map(tokens);
    options.any(|name| name.eq_ignore_ascii_case("upgrade"))
}
