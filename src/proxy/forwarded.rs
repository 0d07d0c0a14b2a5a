//! Tells an origin whose request it is (`X-Forwarded-For`, `-Proto`, `-Host` and Forwarded, RFC 7239), that it
//! came through a gateway (CDN-Loop), and what was stripped from its path (`X-Forwarded-Prefix`).
//!
//! These fields are set after [`strip_request`](crate::request::hop_by_hop::strip_request), so that no
//! client can have them removed.
//!
//! A peer without an address (it came by a Unix socket) is not written as a hop: the chain that it sends stays as it
//! is. If no address is known at all, there is no `X-Forwarded-For`, and Forwarded says `for=unknown`.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::rc::Rc;

use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use crate::proxy::wire::request_head::CommonFields;
use crate::request::cdn_loop::{self, CDN_LOOP};
use crate::request::target::PathChange;
use crate::request::{AddressSource, claims, hop_by_hop};

/// Who sent a request, and how far the sender is trusted in what it says of earlier hops.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// The connection's other end, if it has an address.
    pub peer: Option<IpAddr>,
    /// Address of the request's client: the peer, or the client that a trusted peer names.
    pub client: Option<IpAddr>,
    /// Where a trusted peer says whose request it forwards; none if the peer is not trusted.
    pub believed: Option<&'a AddressSource>,
    /// How the request came: `http` or `https`.
    pub scheme: &'static str,
}

/// The fields that origins were last sent for an untrusted peer, kept for its next request to the
/// same host: they are the same for every request on a kept-alive connection.
#[derive(Debug, Default)]
pub struct LatestFields(Option<SentFields>);

#[derive(Debug)]
struct SentFields {
    sender: (Option<IpAddr>, Option<IpAddr>),
    host: Option<HeaderValue>,
    fields: Rc<CommonFields>,
}

/// Returns the forwarding fields that requests of one client to one host can share; none if the peer is
/// trusted, or says in CDN-Loop where the request has been.
///
/// `latest` belongs to the connection.
pub fn common(
    headers: &HeaderMap,
    sender: &Sender<'_>,
    latest: &mut LatestFields,
) -> Option<Rc<CommonFields>> {
    let is_own = sender.believed.is_some() || headers.contains_key(&CDN_LOOP);
    (!is_own).then(|| latest.fields(headers, sender))
}

/// Sets the forwarding fields of a request, except for `X-Forwarded-Prefix`.
pub fn annotate(headers: &mut HeaderMap, sender: &Sender<'_>) {
    if !sender.is_believed(headers, &X_FORWARDED_HOST) {
        headers.remove(&X_FORWARDED_HOST);
    }
    let fields = fields(headers, sender, headers.get(HOST).cloned());
    if sender.peer.is_none() {
        headers.remove(&X_FORWARDED_FOR);
    }
    // One growth instead of two.
    headers.reserve(fields.len());
    for (name, value) in fields {
        if name == CDN_LOOP {
            headers.append(name, value);
        } else {
            headers.insert(name, value);
        }
    }
}

/// Sets `X-Forwarded-Proto` to `http` or `https`, so that routes can match it; [`annotate`] does not change it.
pub fn set_scheme(headers: &mut HeaderMap, sender: &Sender<'_>) {
    let is_believed = sender.is_believed(headers, &X_FORWARDED_PROTO);
    let first = is_believed.then(|| first_scheme(headers)).flatten();
    let scheme = HeaderValue::from_static(first.unwrap_or(sender.scheme));
    headers.insert(&X_FORWARDED_PROTO, scheme);
}

/// Tells the origin which prefix the route has stripped, if any: it needs that for its own links and redirects.
pub fn set_prefix(headers: &mut HeaderMap, change: &PathChange) {
    if let PathChange::Strip(prefix) = change {
        headers.insert(&X_FORWARDED_PREFIX, prefix.value());
    }
}

/// Whether the client came over TLS, to the gateway or to the first of the proxies before it: as
/// `X-Forwarded-Proto` says, or otherwise as the connection is.
pub fn is_over_tls(headers: &HeaderMap, is_connection: bool) -> bool {
    first_scheme(headers).map_or(is_connection, |scheme| scheme == "https")
}

/// Returns the first scheme in `X-Forwarded-Proto`, if it is `http` or `https`.
fn first_scheme(headers: &HeaderMap) -> Option<&'static str> {
    let schemes = headers.get(&X_FORWARDED_PROTO)?;
    let first = hop_by_hop::tokens(schemes).next()?;
    ["http", "https"]
        .into_iter()
        .find(|scheme| first.eq_ignore_ascii_case(scheme))
}

impl Sender<'_> {
    /// Whether the sender has sent this field and is trusted in it. A proxy that is trusted in Forwarded,
    /// or in a header of its own, may have passed this one on unread.
    fn is_believed(&self, headers: &HeaderMap, name: &HeaderName) -> bool {
        self.believed == Some(&AddressSource::XForwardedFor) && headers.contains_key(name)
    }
}

/// Makes the fields that tell the request's origin about its client; `host` is the request's Host field.
///
/// If the peer is not trusted, nothing that it said in these fields is left
/// ([`strip_request`](crate::request::hop_by_hop::strip_request)). If it is trusted, the chain of
/// addresses that it is trusted in is continued, and scheme and host are kept if that chain is
/// `X-Forwarded-For`. The other chain, which the client may have invented, is made anew.
fn fields(headers: &HeaderMap, sender: &Sender<'_>, host: Option<HeaderValue>) -> Fields {
    let mut text = FieldText::default();
    text.chain(
        headers,
        &X_FORWARDED_FOR,
        sender,
        &AddressSource::XForwardedFor,
    );
    text.hop(sender, FieldText::address);
    let mut fields = Fields::new();
    if !text.0.is_empty() {
        fields.push((X_FORWARDED_FOR.clone(), text.take()));
    }

    text.chain(headers, &FORWARDED, sender, &AddressSource::Forwarded);
    if sender.peer.is_some() || text.0.is_empty() {
        text.hop(sender, FieldText::forwarded_for);
        if text.0.is_empty() {
            text.push(b"for=unknown");
        }
        if let Some(host) = &host {
            text.push(b";host=");
            text.quoted(host.as_bytes());
        }
        text.push(b";proto=");
        text.push(sender.scheme.as_bytes());
    }
    fields.push((FORWARDED, text.take()));

    if !sender.is_believed(headers, &X_FORWARDED_PROTO) {
        let scheme = HeaderValue::from_static(sender.scheme);
        fields.push((X_FORWARDED_PROTO.clone(), scheme));
    }
    fields.push((CDN_LOOP.clone(), cdn_loop::PASS));
    if let Some(host) = host
        && !sender.is_believed(headers, &X_FORWARDED_HOST)
    {
        fields.push((X_FORWARDED_HOST.clone(), host));
    }
    fields
}

impl LatestFields {
    fn fields(&mut self, headers: &HeaderMap, sender: &Sender<'_>) -> Rc<CommonFields> {
        let addresses = (sender.peer, sender.client);
        let host = headers.get(HOST);
        if let Some(latest) = &self.0
            && latest.sender == addresses
            && latest.host.as_ref() == host
        {
            return Rc::clone(&latest.fields);
        }
        // Copied, because the request's own value would keep alive the buffer that its head came in.
        let host = host.map(|host| {
            HeaderValue::from_bytes(host.as_bytes()).expect("it was a field value before")
        });
        let fields = fields(headers, sender, host.clone()).into_vec();
        let fields = Rc::new(CommonFields::new(fields));
        self.0 = Some(SentFields {
            sender: addresses,
            host,
            fields: Rc::clone(&fields),
        });
        fields
    }
}

/// Fields with their values: the chain of addresses in both forms, scheme, host, and CDN-Loop.
type Fields = SmallVec<[(HeaderName, HeaderValue); 5]>;

/// A field's value while it is written: it is allocated only once, when it is complete.
#[derive(Default)]
struct FieldText(SmallVec<[u8; 256]>);

impl FieldText {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes the earlier hops that the field names, if `source` is what the sender is trusted in.
    fn chain(
        &mut self,
        headers: &HeaderMap,
        name: &HeaderName,
        sender: &Sender<'_>,
        source: &AddressSource,
    ) {
        if sender.believed == Some(source) {
            for value in headers
                .get_all(name)
                .iter()
                .filter(|value| !value.is_empty())
            {
                self.separate();
                self.push(value.as_bytes());
            }
        }
    }

    /// Writes the last hop, and before it the client if the chain does not name it.
    fn hop(&mut self, sender: &Sender<'_>, write: impl Fn(&mut Self, IpAddr)) {
        if self.0.is_empty()
            && sender.client != sender.peer
            && let Some(client) = sender.client
        {
            write(self, client);
        }
        if let Some(peer) = sender.peer {
            self.separate();
            write(self, peer);
        }
    }

    /// Writes a comma after what has been written, if anything has.
    fn separate(&mut self) {
        if !self.0.is_empty() {
            self.push(b", ");
        }
    }

    /// Writes an address, an IPv4-mapped one as IPv4.
    fn address(&mut self, address: IpAddr) {
        write!(self, "{}", address.to_canonical()).expect("memory takes every byte");
    }

    /// Writes a `for` parameter (RFC 7239, section 6: IPv6 in brackets and quotes).
    fn forwarded_for(&mut self, address: IpAddr) {
        self.push(b"for=");
        match address.to_canonical() {
            IpAddr::V4(_) => self.address(address),
            IpAddr::V6(_) => {
                self.push(b"\"[");
                self.address(address);
                self.push(b"]\"");
            }
        }
    }

    /// Writes a quoted string (RFC 9110, section 5.6.4).
    fn quoted(&mut self, bytes: &[u8]) {
        self.push(b"\"");
        for &byte in bytes {
            if matches!(byte, b'"' | b'\\') {
                self.0.push(b'\\');
            }
            self.0.push(byte);
        }
        self.push(b"\"");
    }

    fn take(&mut self) -> HeaderValue {
        let value = HeaderValue::from_bytes(&self.0)
            .expect("what is made of field values and addresses is a field value");
        self.0.clear();
        value
    }
}

impl fmt::Write for FieldText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static(claims::X_FORWARDED_PREFIX);

#[cfg(test)]
mod tests;
