//! The host that a request asks for.
//!
//! An absolute target's authority wins over the Host field (RFC 9112 section 3.2.2), but the field
//! must be good all the same. Hosts are compared in lower case, without port and last dot. A name
//! has only letters, digits, `-`, `_`, `~` and dots, so no escape or list is another spelling of
//! it.

use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::ops::Deref;
use std::rc::Rc;

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Uri, Version};

/// A host in the spelling that hosts are compared in; empty if an HTTP/1.0 request names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(Rc<str>);

/// The Host field of a connection's latest request, and the host that it names: most requests of a
/// connection have the same.
#[derive(Debug, Default)]
pub struct LatestHost(Option<(Box<[u8]>, Host)>);

impl Deref for Host {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Why a request's host is refused with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    /// Neither the target nor a Host field names one.
    #[error("the request has no host")]
    Missing,
    /// There are several Host fields, or an HTTP/2 request's differs from its authority.
    #[error("the request has several hosts")]
    Several,
    /// The target is an authority alone, which only CONNECT may have.
    #[error("the target is only an authority")]
    AuthorityAlone,
    /// A user or password stands before the host.
    #[error("the host has a user")]
    User,
    /// It is not a host.
    #[error("the host is not a name or address")]
    Name,
    /// It is longer than a name can be.
    #[error("the host is too long")]
    Length,
    /// What follows the colon is not a port.
    #[error("the port is not a number up to 65535")]
    Port,
}

/// Reads the host of a request, from its target if that has one.
///
/// # Errors
/// A host that is missing (before HTTP/1.1 it may be), is given twice, or is not a host: answer
/// 400.
pub fn host(target: &Uri, headers: &HeaderMap, version: Version) -> Result<Host, BadHost> {
    LatestHost::default().host(target, headers, version)
}

impl LatestHost {
    /// Does what [`host`] does, but does not read the field again that it remembers.
    pub fn host(
        &mut self,
        target: &Uri,
        headers: &HeaderMap,
        version: Version,
    ) -> Result<Host, BadHost> {
        let mut lines = headers.get_all(HOST).iter();
        let field = lines.next();
        if lines.next().is_some() {
            return Err(BadHost::Several);
        }
        let field = field.map(|field| self.read(field)).transpose()?;
        let authority = target.authority();
        if authority.is_some() && target.scheme().is_none() && version <= Version::HTTP_11 {
            return Err(BadHost::AuthorityAlone);
        }
        let authority = authority
            .map(|authority| read(authority.as_str()).map(Host::of))
            .transpose()?;
        match (authority, field) {
            (Some(authority), Some(field)) if version > Version::HTTP_11 && authority != field => {
                Err(BadHost::Several)
            }
            (_, None) if version == Version::HTTP_11 => Err(BadHost::Missing),
            (Some(host), _) | (None, Some(host)) => Ok(host),
            (None, None) if version < Version::HTTP_11 => Ok(Host::of(Cow::Borrowed(""))),
            (None, None) => Err(BadHost::Missing),
        }
    }

    fn read(&mut self, field: &HeaderValue) -> Result<Host, BadHost> {
        if let Some((latest, host)) = &self.0
            && **latest == *field.as_bytes()
        {
            return Ok(host.clone());
        }
        // No host has bytes that are not visible ASCII.
        let host = Host::of(read(field.to_str().map_err(|_| BadHost::Name)?)?);
        self.0 = Some((field.as_bytes().into(), host.clone()));
        Ok(host)
    }
}

impl Host {
    fn of(spelling: Cow<'_, str>) -> Self {
        Self(spelling.into())
    }
}

/// Reads `host [ ":" port ]`.
fn read(text: &str) -> Result<Cow<'_, str>, BadHost> {
    let name_end = match text.strip_prefix('[') {
        Some(rest) => rest.find(']').ok_or(BadHost::Name)? + "[]".len(),
        // A host is a few bytes: a loop beats the set-up of a searcher.
        None => (text.bytes().position(|byte| byte == b':')).unwrap_or(text.len()),
    };
    let (name, port) = text.split_at(name_end);
    let has_user = || text.contains('@');
    let name = canonical_host(name).map_err(|bad| if has_user() { BadHost::User } else { bad })?;
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(name),
        // RFC 3986 section 3.2.3 lets the number be empty.
        Some("") => Ok(name),
        Some(number) if is_port(number) => Ok(name),
        _ if has_user() => Err(BadHost::User),
        None => Err(BadHost::Name),
        Some(_) => Err(BadHost::Port),
    }
}

/// Says whether `text` is a port's number.
pub(super) fn is_port(text: &str) -> bool {
    let mut number = 0;
    for byte in text.bytes() {
        if !byte.is_ascii_digit() {
            return false;
        }
        number = 10 * number + u32::from(byte - b'0');
        if number > u32::from(u16::MAX) {
            return false;
        }
    }
    !text.is_empty()
}

/// Puts a host without port into the spelling that hosts are compared in.
pub(crate) fn canonical_host(name: &str) -> Result<Cow<'_, str>, BadHost> {
    if name.len() > HOST_BYTES_MAX {
        return Err(BadHost::Length);
    }
    if let Some(address) = name.strip_prefix('[') {
        let address: Option<Ipv6Addr> = (address.strip_suffix(']')).and_then(|a| a.parse().ok());
        let address = address.ok_or(BadHost::Name)?;
        return Ok(Cow::Owned(format!("[{address}]")));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let (mut label_is_empty, mut has_upper) = (true, false);
    for byte in name.bytes() {
        let kind = KINDS[usize::from(byte)];
        if kind == HostKind::Bad || (kind == HostKind::Dot && label_is_empty) {
            return Err(BadHost::Name);
        }
        label_is_empty = kind == HostKind::Dot;
        has_upper |= kind == HostKind::Upper;
    }
    if label_is_empty {
        return Err(BadHost::Name);
    }
    Ok(if has_upper {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    })
}

/// What a byte is to a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HostKind {
    Bad,
    Upper,
    Other,
    Dot,
}

/// Every byte's kind: one look-up per byte of every request's host.
const KINDS: [HostKind; 256] = {
    let mut kinds = [HostKind::Bad; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        kinds[byte as usize] = match byte {
            b'.' => HostKind::Dot,
            b'A'..=b'Z' => HostKind::Upper,
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => HostKind::Other,
            _ => HostKind::Bad,
        };
        byte += 1;
    }
    kinds
};

/// Bytes of a name, as RFC 1035 section 2.3.4 bounds it.
const HOST_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling_or_is_refused() {
        let table: &[(&str, Result<&str, BadHost>)] = &[
            ("a.com", Ok("a.com")),
            ("A.com", Ok("a.com")),
            ("A.COM.", Ok("a.com")),
            ("a.com:80", Ok("a.com")),
            ("a.com.:80", Ok("a.com")),
            ("a:", Ok("a")),
            ("xn--bcher-kva.de", Ok("xn--bcher-kva.de")),
            ("127.0.0.1:8080", Ok("127.0.0.1")),
            ("[::1]", Ok("[::1]")),
            ("[0::0:1]:5", Ok("[::1]")),
            ("", Err(BadHost::Name)),
            (".", Err(BadHost::Name)),
            (".a", Err(BadHost::Name)),
            ("a..b", Err(BadHost::Name)),
            ("a..", Err(BadHost::Name)),
            ("a, b", Err(BadHost::Name)),
            ("a b", Err(BadHost::Name)),
            ("a/b", Err(BadHost::Name)),
            ("a?b", Err(BadHost::Name)),
            ("%61.com", Err(BadHost::Name)),
            ("bücher.de", Err(BadHost::Name)),
            ("a@b", Err(BadHost::User)),
            ("u:p@a", Err(BadHost::User)),
            ("a:99999", Err(BadHost::Port)),
            ("a:+1", Err(BadHost::Port)),
            ("a:80:80", Err(BadHost::Port)),
            ("[::1", Err(BadHost::Name)),
            ("[::1]x", Err(BadHost::Name)),
            ("[::1%eth0]", Err(BadHost::Name)),
            ("::1", Err(BadHost::Name)),
        ];
        let mut latest = LatestHost::default();
        for &(field, expected) in table {
            let value = HeaderValue::from_bytes(field.as_bytes()).expect(field);
            let headers = HeaderMap::from_iter([(HOST, value)]);
            let target = Uri::from_static("/");
            let found = host(&target, &headers, Version::HTTP_11);
            assert_eq!(found.as_deref(), expected.as_ref().copied(), "{field}");
            for _ in 0..2 {
                let again = latest.host(&target, &headers, Version::HTTP_11);
                assert_eq!(again, found, "{field} behind others");
            }
        }
        let long = "a".repeat(HOST_BYTES_MAX + 1);
        assert_eq!(canonical_host(&long), Err(BadHost::Length));
        assert!(matches!(canonical_host("a.com"), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn the_target_wins_over_a_host_field_that_must_be_good_too() {
        type Row<'t> = (&'t str, &'t [&'t str], Version, Result<&'t str, BadHost>);
        let (v1_0, v1_1, v2) = (Version::HTTP_10, Version::HTTP_11, Version::HTTP_2);
        let table: &[Row<'_>] = &[
            ("http://evil/", &["good"], v1_1, Ok("evil")),
            ("http://evil/", &["a b"], v1_1, Err(BadHost::Name)),
            ("http://evil/", &[], v1_1, Err(BadHost::Missing)),
            ("http://u:p@a/", &["a"], v1_1, Err(BadHost::User)),
            ("a:80", &["a"], v1_1, Err(BadHost::AuthorityAlone)),
            ("/", &[], v1_1, Err(BadHost::Missing)),
            ("/", &["a", "b"], v1_1, Err(BadHost::Several)),
            ("/", &["a", "a"], v1_1, Err(BadHost::Several)),
            ("/", &[], v1_0, Ok("")),
            ("/", &["a"], v1_0, Ok("a")),
            ("http://a/", &[], v2, Ok("a")),
            ("http://a/", &["A:80"], v2, Ok("a")),
            ("http://a/", &["b"], v2, Err(BadHost::Several)),
            ("/", &[], v2, Err(BadHost::Missing)),
        ];
        for &(target, fields, version, expected) in table {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(HOST, HeaderValue::from_static(field));
            }
            let uri: Uri = target.parse().expect(target);
            let found = host(&uri, &headers, version);
            let name = format!("{target} {fields:?} {version:?}");
            assert_eq!(found.as_deref(), expected.as_ref().copied(), "{name}");
        }
    }
}
