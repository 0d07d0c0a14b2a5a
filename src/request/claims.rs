//! Fields that a client must not set: only a trusted proxy may, or only the gateway.
//!
//! These fields are removed with the hop-by-hop fields ([`strip_request`](super::hop_by_hop::strip_request)), before
//! anything is read, so routes and limits go by what the origin sees. A name spelled with `_` counts as the one with
//! `-`, because some origins (CGI, WSGI) read it like that.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::AddressSource;
use super::client_address::ADDRESS_CLAIMS;
use super::name_filter::{NameFilter, named};

/// Tells the origin which certificate the client has. Fields about certificates that came with the request are removed,
/// even from a trusted peer.
pub fn set_client_cert(headers: &mut HeaderMap, certificate: &HeaderValue) {
    remove(headers, |name| reads_as_any(name, &CERTIFICATES));
    headers.insert(CERTIFICATES[0], certificate.clone());
}

/// Whether only a trusted peer may send a field: one that names the client or its certificate, the scheme or the host
/// that the request first came with, or a target other than the one that is matched. The listener's own header that
/// names clients, if `source` is one, counts too, and so does `request_id`, the field that carries the id of a request.
pub fn requires_trusted_peer(
    name: &HeaderName,
    source: &AddressSource,
    request_id: Option<&HeaderName>,
) -> bool {
    let is_one = |real: &HeaderName| reads_as(name.as_str(), real.as_str());
    let is_own = match source {
        AddressSource::Header(own) => is_one(own),
        AddressSource::XForwardedFor | AddressSource::Forwarded | AddressSource::Peer => false,
    };
    is_own || request_id.is_some_and(is_one) || is_proxy_field(name)
}

/// Removes from a request's trailers the fields that routes and policies go by: an origin that merges trailers with
/// fields must not read a value other than the one that decided the request.
pub fn strip_decisive(trailers: &mut HeaderMap, decisive: &[HeaderName]) {
    remove(trailers, |name| {
        let reads_as = |real: &HeaderName| reads_as(name.as_str(), real.as_str());
        decisive.iter().any(reads_as)
    });
}

/// Removes the fields that an origin takes for `real` because it reads `_` as `-`.
pub fn remove_lookalikes(headers: &mut HeaderMap, real: &HeaderName) {
    remove(headers, |name| is_disguise(name, real));
}

/// Whether an origin takes a name for `real` because it reads `_` as `-`.
pub(super) fn is_disguise(name: &HeaderName, real: &HeaderName) -> bool {
    reads_as(name.as_str(), real.as_str()) && name != real
}

/// Whether only a trusted proxy may send this field to an origin.
pub(super) fn is_proxy_field(name: &HeaderName) -> bool {
    PROXY_FIELD_FILTER.may_have(name) && PROXY_FIELDS.iter().any(|names| reads_as_any(name, names))
}

/// Whether only the gateway may send this field to an origin: even a trusted peer's is removed.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    let name = name.as_str();
    let prefix = name.get(..RESERVED.len());
    prefix.is_some_and(|prefix| reads_as(prefix, RESERVED)) || reads_as(name, X_FORWARDED_PREFIX)
}

/// Whether a name reads as one of [`DISGUISED`] because it has a `_`.
pub(super) fn is_disguised(name: &HeaderName) -> bool {
    let name = name.as_str();
    (DISGUISED.iter()).any(|real| reads_as(name, real) && name != *real)
}

/// Whether some origins take the field's value for the method.
pub(super) fn is_method_override(name: &HeaderName) -> bool {
    reads_as_any(name, &METHOD_OVERRIDES)
}

fn remove(headers: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    for name in named(headers, unwanted) {
        headers.remove(name);
    }
}

/// Whether two names are the same to an origin that does not tell `_` from `-`.
#[inline]
fn reads_as(name: &str, real: &str) -> bool {
    name.len() == real.len() && is_same_but_for_dashes(name, real)
}

#[inline(never)]
fn is_same_but_for_dashes(name: &str, real: &str) -> bool {
    let is_dash = |byte: u8| matches!(byte, b'-' | b'_');
    let same = |(a, b): (u8, u8)| a == b || (is_dash(a) && is_dash(b));
    name.bytes().zip(real.bytes()).all(same)
}

fn reads_as_any(name: &HeaderName, real: &[&str]) -> bool {
    real.iter().any(|real| reads_as(name.as_str(), real))
}

/// The field for the prefix that a route has stripped from the path. Only the gateway knows it, so a field that came
/// with the request is removed.
pub const X_FORWARDED_PREFIX: &str = "x-forwarded-prefix";

const X_FORWARDED: [&str; 3] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

/// Fields that are also removed when spelled with `_`, in addition to those of [`PROXY_FIELDS`].
pub(super) const DISGUISED: [&str; 5] = [
    X_FORWARDED[0],
    X_FORWARDED[1],
    X_FORWARDED[2],
    "content-length",
    "transfer-encoding",
];

/// Fields that say which certificate a client has (RFC 9440).
const CERTIFICATES: [&str; 2] = ["client-cert", "client-cert-chain"];

/// Fields that some origins take for the target.
const REWRITES: [&str; 2] = ["x-original-url", "x-rewrite-url"];

/// Fields that some origins take for the method.
const METHOD_OVERRIDES: [&str; 3] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// All fields that only a trusted proxy may send.
pub(super) const PROXY_FIELDS: [&[&str]; 4] =
    [&ADDRESS_CLAIMS, &X_FORWARDED, &REWRITES, &CERTIFICATES];

static PROXY_FIELD_FILTER: NameFilter = NameFilter::NONE.with_all(&PROXY_FIELDS);

/// The prefix of the other fields that only the gateway may set.
pub(super) const RESERVED: &str = "tollgate-";

#[cfg(test)]
mod tests {
    use super::super::SeenNames;
    use super::super::hop_by_hop::strip_request;
    use super::super::hop_by_hop::tests::fields;
    use super::*;

    #[test]
    fn an_id_of_a_request_goes_in_every_spelling() {
        let id = HeaderName::from_static("x-request-id");
        let lie = [
            ("x-request-id", "1"),
            ("x_request-id", "2"),
            ("x-request", "3"),
        ];
        let left = |request_id| {
            let mut headers = fields(&lie);
            let forbids =
                |name: &HeaderName| requires_trusted_peer(name, &AddressSource::Peer, request_id);
            let filter = SeenNames::filter(request_id.into_iter());
            strip_request(&mut headers, &filter, forbids);
            headers
        };
        assert_eq!(left(Some(&id)), fields(&[("x-request", "3")]));
        assert_eq!(left(None), fields(&lie));
    }

    #[test]
    fn nobody_but_the_gateway_says_which_certificate_a_client_has() {
        let lie = [
            ("client-cert", ":YQ==:"),
            ("client-cert", ":Yg==:"),
            ("client_cert", ":YQ==:"),
            ("client_cert-chain", ":YQ==:"),
            ("client-cert-chain", ":YQ==:"),
            ("client-certificate", "a"),
        ];
        let mut headers = fields(&lie);
        let forbids = |name: &HeaderName| requires_trusted_peer(name, &AddressSource::Peer, None);
        strip_request(&mut headers, &SeenNames::filter([].iter()), forbids);
        assert_eq!(headers, fields(&[("client-certificate", "a")]));
        let mut headers = fields(&lie);
        set_client_cert(&mut headers, &HeaderValue::from_static(":Yw==:"));
        let truth = [("client-certificate", "a"), ("client-cert", ":Yw==:")];
        assert_eq!(headers, fields(&truth));
    }
}
