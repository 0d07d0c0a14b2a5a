//! What a request may not say of itself: fields that only a proxy, or only the gateway, may set.
//!
//! They are removed with the hop-by-hop fields ([`strip_request`](super::hop_by_hop::strip_request)), before anything is
//! read, so routes and limits go by what the origin sees. A name spelled with `_` counts as the one with `-`, because
//! some origins (CGI, WSGI) read it so.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::AddressSource;
use super::client_address::ADDRESS_CLAIMS;
use super::name_filter::{NameFilter, named};

/// Tells the origin which certificate the client has. What the client says of certificates is removed,
/// whoever it is.
pub fn set_client_cert(headers: &mut HeaderMap, certificate: &HeaderValue) {
    remove(headers, |name| reads_as_any(name, &CERTIFICATES));
    headers.insert(CERTIFICATES[0], certificate.clone());
}

/// Whether only a trusted peer may send a field: it says whose request it is, which certificate the client has, how and
/// for which host it first came, or a target other than the one that is matched. If `source` is a header of the
/// listener's own that names the client, that is one too, and so is `request_id`, the field in which the gateway gives
/// requests their id.
pub fn needs_trust(
    name: &HeaderName,
    source: &AddressSource,
    request_id: Option<&HeaderName>,
) -> bool {
    let is_one = |real: &HeaderName| reads_as(name.as_str(), real.as_str());
    let is_own = match source {
        AddressSource::Header(own) => is_one(own),
        AddressSource::XForwardedFor | AddressSource::Forwarded | AddressSource::Peer => false,
    };
    is_own || request_id.is_some_and(is_one) || is_claim(name)
}

/// Removes from a request's trailers the fields that routes and partitions look at: an origin that
/// merges trailers with fields must not read a value other than the one that decided the request.
pub fn strip_decisive(trailers: &mut HeaderMap, decisive: &[HeaderName]) {
    remove(trailers, |name| {
        let reads_as = |real: &HeaderName| reads_as(name.as_str(), real.as_str());
        decisive.iter().any(reads_as)
    });
}

/// Removes the fields that an origin takes for `real` because it reads `_` as `-`.
pub fn strip_disguises(headers: &mut HeaderMap, real: &HeaderName) {
    remove(headers, |name| is_disguise(name, real));
}

/// Whether an origin takes a name for `real` because it reads `_` as `-`.
pub(super) fn is_disguise(name: &HeaderName, real: &HeaderName) -> bool {
    reads_as(name.as_str(), real.as_str()) && name != real
}

/// Whether only a proxy may say this to an origin.
pub(super) fn is_claim(name: &HeaderName) -> bool {
    CLAIM_FILTER.may_have(name) && CLAIMS.iter().any(|names| reads_as_any(name, names))
}

/// Whether only the gateway may say this to an origin, whoever it is that says it.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    let name = name.as_str();
    let prefix = name.get(..RESERVED.len());
    prefix.is_some_and(|prefix| reads_as(prefix, RESERVED)) || reads_as(name, X_FORWARDED_PREFIX)
}

/// Whether a name has a `_` and reads as one that matters here.
pub(super) fn is_disguised(name: &HeaderName) -> bool {
    let name = name.as_str();
    (DISGUISED.iter()).any(|real| reads_as(name, real) && name != *real)
}

/// Whether some origins take what it says for the method.
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

/// What a route has stripped from the path. Only the gateway knows that, so nobody else's is kept.
pub const X_FORWARDED_PREFIX: &str = "x-forwarded-prefix";

const X_FORWARDED: [&str; 3] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

/// Fields that matter in the spelling with `_` too, beside those that only a proxy may say.
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

/// All that only a proxy may say.
pub(super) const CLAIMS: [&[&str]; 4] = [&ADDRESS_CLAIMS, &X_FORWARDED, &REWRITES, &CERTIFICATES];

static CLAIM_FILTER: NameFilter = NameFilter::NONE.with_all(&CLAIMS);

/// The prefix of the other fields that only the gateway sets.
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
            let forbids = |name: &HeaderName| needs_trust(name, &AddressSource::Peer, request_id);
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
        let forbids = |name: &HeaderName| needs_trust(name, &AddressSource::Peer, None);
        strip_request(&mut headers, &SeenNames::filter([].iter()), forbids);
        assert_eq!(headers, fields(&[("client-certificate", "a")]));
        let mut headers = fields(&lie);
        set_client_cert(&mut headers, &HeaderValue::from_static(":Yw==:"));
        let truth = [("client-certificate", "a"), ("client-cert", ":Yw==:")];
        assert_eq!(headers, fields(&truth));
    }
}
