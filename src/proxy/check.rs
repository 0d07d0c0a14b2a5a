//! What is refused before a route is looked for: messages that others may read differently, and
//! requests that this gateway does not serve whatever the file says.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Version};

use super::connection_facts::ConnectionFacts;
use super::journey_state::Journey;
use super::refusal::Refusal;
use crate::request::{self, SeenNames, cdn_loop, hop_by_hop};

/// Refuses requests for which no route is looked up. Returns what the names of the fields tell, if the request is not
/// refused.
#[expect(
    clippy::inline_always,
    reason = "one busy caller, and each request comes here"
)]
#[inline(always)]
pub(super) fn check(sent_by: &ConnectionFacts<'_>, head: &Parts) -> Result<SeenNames, Refusal> {
    let (headers, filter) = (&head.headers, &sent_by.snapshot.head_filter);
    let decisive = &sent_by.snapshot.decisive_headers;
    let seen = SeenNames::of(headers, filter, decisive, sent_by.forbids());
    if seen.has_suspicious {
        let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
        if let Some(coding) = codings.next()
            && (!coding.as_bytes().eq_ignore_ascii_case(b"chunked") || codings.next().is_some())
        {
            // hyper goes by the last coding alone, and the forwarded request would lack the others.
            return Err(Refusal::bad_framing());
        }
        if cdn_loop::passes(&head.headers) >= cdn_loop::PASSES_MAX {
            return Err(Refusal::request_loop());
        }
    }
    if head.version == Version::HTTP_2 {
        check_http2(head)?;
    }
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(Refusal::method_unsupported());
    }
    if seen.has_suspicious {
        let mut expectations = head.headers.get_all(EXPECT).iter();
        if expectations.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
            return Err(Refusal::expectation_failed());
        }
    }
    Ok(seen)
}

impl Journey<'_> {
    /// Refuses a request for a host that has another certificate than the client was shown, and one whose
    /// client has a certificate that is no longer accepted: a session can be resumed, and a connection
    /// kept, for longer than what was verified in the handshake stays valid.
    #[expect(
        clippy::inline_always,
        reason = "one busy caller, and each request comes here"
    )]
    #[inline(always)]
    pub(super) fn check_tls(&self, host: &str) -> Result<(), Refusal> {
        let (client, request) = (self.client, self.exchange.request());
        if client.is_certificate_expired() {
            request.end_connection();
            return Err(Refusal::client_certificate_expired());
        }
        if client.accepted_by.client_ca() != self.listener.client_ca() {
            request.end_connection();
            let tls = self.listener.tls.as_ref();
            if tls.is_some_and(|tls| !tls.lets_in(client.certificate())) {
                return Err(Refusal::client_certificate_untrusted());
            }
        }
        if (client.tls.as_ref()).is_some_and(|tls| tls.is_misdirected(host)) {
            return Err(Refusal::misdirected());
        }
        Ok(())
    }
}

/// Refuses what HTTP/2 does not allow (RFC 9113, sections 8.2.1, 8.3.1 and 8.1.1) but its parser lets
/// through.
fn check_http2(head: &Parts) -> Result<(), Refusal> {
    let target = head.uri.path_and_query().map(PathAndQuery::as_str);
    if target.is_some_and(|target| target.starts_with('?')) {
        return Err(Refusal::bad_path());
    }
    let is_number = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
    };
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    let is_bad_length = lengths.next().is_some_and(|length| !is_number(length));
    if is_bad_length
        || lengths.next().is_some()
        || head.headers.values().any(has_outer_white_space)
        || !request::are_tokens(&head.headers)
    {
        return Err(Refusal::bad_framing());
    }
    Ok(())
}

/// Whether a value begins or ends with white space, which HTTP/1.1 would strip (RFC 9113, section
/// 8.2.1).
fn has_outer_white_space(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    let is_white = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_white(bytes.first()) || is_white(bytes.last())
}

/// Whether the client says that an HTTP/1 request is the last on its connection.
pub(super) fn is_last(head: &Parts) -> bool {
    let mut options = (head.headers.get_all(CONNECTION).iter()).flat_map(hop_by_hop::tokens);
    match head.version {
        Version::HTTP_10 => !options.any(|option| option.eq_ignore_ascii_case("keep-alive")),
        _ => options.any(|option| option.eq_ignore_ascii_case("close")),
    }
}
