//! The host that a request asks for.
//!
//! An absolute target's authority wins over the Host field (RFC 9112 section 3.2.2), but the field must be valid all
//! the same. Hosts are compared in lower case, without port and final dot. A name has only letters, digits, `-`, `_`,
//! `~` and dots, so neither an escape nor a list can be another spelling of it.

use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::ops::Deref;
use std::rc::Rc;

use http::header::HOST;
use http::{HeaderMap, Uri, Version};

/// A host in the spelling that hosts are compared in; empty if an HTTP/1.0 request names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(Rc<str>);

/// The text of the Host field, or of the target's authority, that was read last on a connection, and the host that it
/// names. Most requests of a connection have the same one.
#[derive(Debug, Default)]
pub struct LatestHost(Option<(Box<[u8]>, Host)>);

impl Deref for Host {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A request's host is missing, is malformed, or is given twice, for example by a Host field that differs from an
/// HTTP/2 authority. The answer is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host is missing or malformed")]
pub struct BadHost;

/// Reads the host of a request, from its target if that has one.
///
/// # Errors
/// If the host is missing (before HTTP/1.1 it may be), is given twice, or is malformed: answer 400.
pub fn host(target: &Uri, headers: &HeaderMap, version: Version) -> Result<Host, BadHost> {
    LatestHost::default().host(target, headers, version)
}

impl LatestHost {
    /// Does what [`host`] does, but does not parse a text again that it remembers.
    pub fn host(
        &mut self,
        target: &Uri,
        headers: &HeaderMap,
        version: Version,
    ) -> Result<Host, BadHost> {
        let mut lines = headers.get_all(HOST).iter();
        let field = lines.next();
        if lines.next().is_some() {
            return Err(BadHost);
        }
        let field = field.map(|field| self.read(field.as_bytes())).transpose()?;
        let authority = target.authority();
        // Only CONNECT may have an authority without a scheme.
        if authority.is_some() && target.scheme().is_none() && version <= Version::HTTP_11 {
            return Err(BadHost);
        }
        let authority = authority.map(|authority| self.read(authority.as_str().as_bytes()));
        let authority = authority.transpose()?;
        match (authority, field) {
            (Some(authority), Some(field)) if version > Version::HTTP_11 && authority != field => {
                Err(BadHost)
            }
            (_, None) if version == Version::HTTP_11 => Err(BadHost),
            (Some(host), _) | (None, Some(host)) => Ok(host),
            (None, None) if version < Version::HTTP_11 => Ok(Host::of(Cow::Borrowed(""))),
            (None, None) => Err(BadHost),
        }
    }

    fn read(&mut self, text: &[u8]) -> Result<Host, BadHost> {
        if let Some((latest, host)) = &self.0
            && **latest == *text
        {
            return Ok(host.clone());
        }
        let host = Host::of(read(str::from_utf8(text).map_err(|_| BadHost)?)?);
        self.0 = Some((text.into(), host.clone()));
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
        Some(rest) => rest.find(']').ok_or(BadHost)? + "[]".len(),
        // A host is a few bytes, so a loop is faster than setting up a searcher.
        None => (text.bytes().position(|byte| byte == b':')).unwrap_or(text.len()),
    };
    let (name, port) = text.split_at(name_end);
    let name = canonical_host(name)?;
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(name),
        // RFC 3986 section 3.2.3 lets the port be empty.
        Some("") => Ok(name),
        Some(number) if is_port(number) => Ok(name),
        _ => Err(BadHost),
    }
}

/// Whether `text` is a port number.
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

/// Returns a host without port in the spelling that hosts are compared in.
pub(crate) fn canonical_host(name: &str) -> Result<Cow<'_, str>, BadHost> {
    if name.len() > HOST_BYTES_MAX {
        return Err(BadHost);
    }
    if let Some(address) = name.strip_prefix('[') {
        let address: Option<Ipv6Addr> = (address.strip_suffix(']')).and_then(|a| a.parse().ok());
        let address = address.ok_or(BadHost)?;
        return Ok(Cow::Owned(format!("[{address}]")));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let (mut label_is_empty, mut has_upper) = (true, false);
    for byte in name.bytes() {
        let kind = KINDS[usize::from(byte)];
        if kind == HostKind::Bad || (kind == HostKind::Dot && label_is_empty) {
            return Err(BadHost);
        }
        label_is_empty = kind == HostKind::Dot;
        has_upper |= kind == HostKind::Upper;
    }
    if label_is_empty {
        return Err(BadHost);
    }
    Ok(if has_upper {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    })
}

/// The role of a byte in a name.
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

/// Most bytes of a name (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_in_lower_case_is_not_copied() {
        assert!(matches!(canonical_host("a.com"), Ok(Cow::Borrowed(_))));
    }
}
