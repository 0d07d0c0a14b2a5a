//! The header of the PROXY protocol, in which a proxy says for which client it made a connection.
//!
//! Versions 1 (a line) and 2 (binary), as HAProxy's `doc/proxy-protocol.txt` specifies them. The bytes
//! after a header belong to another protocol, so [`read`] never asks for more bytes than the header must
//! still have. A header names no client if it is about the proxy itself (LOCAL), a client without an address
//! (UNKNOWN, UNSPEC), or one that is not on TCP.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use memchr::memmem;

/// How far a header has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderProgress {
    /// At least this many more bytes are part of the header.
    More(usize),
    /// The header is complete; the client's address, if it names one.
    Done(Option<SocketAddr>),
}

/// Why bytes are not a PROXY header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadProxyHeader {
    /// The bytes are something else.
    #[error("it does not begin with a PROXY header")]
    Missing,
    /// The bytes begin like a header, but break its rules.
    #[error("its PROXY header is malformed")]
    Malformed,
    /// The header would be longer than [`LINE_BYTES_MAX`] or [`HEADER_BYTES_MAX`].
    #[error("its PROXY header is too long")]
    TooLong,
    /// The bytes are not those that the proxy has sent.
    #[error("the checksum of its PROXY header is wrong")]
    Checksum,
}

use BadProxyHeader::{Checksum, Malformed, Missing, TooLong};

/// Reads a header from its first bytes.
///
/// # Errors
/// As soon as the bytes cannot be the beginning of a header; then the connection is to be closed.
pub fn read(bytes: &[u8]) -> Result<HeaderProgress, BadProxyHeader> {
    if bytes.starts_with(SIGNATURE_1) {
        return read_line(bytes);
    }
    if bytes.starts_with(SIGNATURE_2) {
        return read_binary(bytes);
    }
    if SIGNATURE_1.starts_with(bytes) || SIGNATURE_2.starts_with(bytes) {
        return Ok(HeaderProgress::More(SHORTEST_LINE.len() - bytes.len()));
    }
    Err(Missing)
}

/// Reads version 1: `PROXY TCP4 203.0.113.9 192.0.2.1 50000 443` and a line end.
fn read_line(bytes: &[u8]) -> Result<HeaderProgress, BadProxyHeader> {
    let Some(end) = memmem::find(bytes, b"\r\n") else {
        let after = &bytes[SIGNATURE_1.len()..];
        let shortest = match after.get(..5) {
            Some(b"TCP4 ") => "PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
            Some(b"TCP6 ") => "PROXY TCP6 :: :: 1 2\r\n",
            _ => SHORTEST_LINE,
        };
        let line_end = if bytes.ends_with(b"\r") { 1 } else { 2 };
        let more = shortest.len().saturating_sub(bytes.len()).max(line_end);
        return if bytes.len() + more > LINE_BYTES_MAX {
            Err(TooLong)
        } else {
            Ok(HeaderProgress::More(more))
        };
    };
    if end + 2 != bytes.len() {
        return Err(Malformed);
    }
    let line = str::from_utf8(&bytes[SIGNATURE_1.len()..end]).map_err(|_| Malformed)?;
    let mut fields = line.split(' ');
    let family = fields.next();
    if family == Some("UNKNOWN") {
        return Ok(HeaderProgress::Done(None));
    }
    let rest: Vec<&str> = fields.take(5).collect();
    let &[source, destination, source_port, destination_port] = &rest[..] else {
        return Err(Malformed);
    };
    let port = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.parse::<u16>().ok().filter(|_| is_number);
        port.ok_or(Malformed)
    };
    port(destination_port)?;
    let port = port(source_port)?;
    let source = match family {
        Some("TCP4") => both::<Ipv4Addr>(source, destination).map(|both| (both, port).into()),
        Some("TCP6") => both::<Ipv6Addr>(source, destination).map(|both| (both, port).into()),
        _ => None,
    };
    source
        .map(|source| HeaderProgress::Done(Some(source)))
        .ok_or(Malformed)
}

/// Returns the source, if both are addresses of this family.
fn both<A: std::str::FromStr>(source: &str, destination: &str) -> Option<A> {
    destination.parse::<A>().ok()?;
    source.parse().ok()
}

/// Reads version 2: a signature, command, family and length, addresses, and further values.
fn read_binary(bytes: &[u8]) -> Result<HeaderProgress, BadProxyHeader> {
    let Some((&[.., command, family, high, low], rest)) = bytes.split_first_chunk::<HEAD_BYTES>()
    else {
        return Ok(HeaderProgress::More(HEAD_BYTES - bytes.len()));
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if HEAD_BYTES + length > HEADER_BYTES_MAX {
        return Err(TooLong);
    }
    if !matches!(command, LOCAL | PROXY) {
        return Err(Malformed);
    }
    if rest.len() < length {
        return Ok(HeaderProgress::More(length - rest.len()));
    }
    if rest.len() > length {
        return Err(Malformed);
    }
    if command == LOCAL {
        return Ok(HeaderProgress::Done(None));
    }
    let (addresses, source): (usize, Option<SocketAddr>) = match family {
        // The format of what follows is not known.
        UNSPEC => return Ok(HeaderProgress::Done(None)),
        TCP4 => (12, source::<4, 8>(rest)),
        TCP6 => (36, source::<16, 32>(rest)),
        UDP4 => (12, None),
        UDP6 => (36, None),
        UNIX_STREAM | UNIX_DATAGRAM => (216, None),
        _ => return Err(Malformed),
    };
    let values = rest.get(addresses..).ok_or(Malformed)?;
    check_values(bytes, values)?;
    Ok(HeaderProgress::Done(source))
}

/// Reads the address that the connection came from, of `N` bytes, and its port, which comes after `PORT`
/// bytes of addresses.
fn source<const N: usize, const PORT: usize>(rest: &[u8]) -> Option<SocketAddr>
where
    std::net::IpAddr: From<[u8; N]>,
{
    let address: [u8; N] = *rest.first_chunk()?;
    let port = rest.get(PORT..)?.first_chunk()?;
    Some((std::net::IpAddr::from(address), u16::from_be_bytes(*port)).into())
}

/// Goes through the values after the addresses (type, length, content), and verifies the checksum if
/// there is one.
fn check_values(header: &[u8], mut values: &[u8]) -> Result<(), BadProxyHeader> {
    while !values.is_empty() {
        let Some((&[kind, high, low], rest)) = values.split_first_chunk::<3>() else {
            return Err(Malformed);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (content, after) = rest.split_at_checked(length).ok_or(Malformed)?;
        if kind == TYPE_CRC32C {
            let said = content.try_into().map_err(|_| Malformed)?;
            let at = header.len() - rest.len();
            let parts = [&header[..at], &[0; 4], &header[at + 4..]];
            if crc32c(&parts.concat()) != u32::from_be_bytes(said) {
                return Err(Checksum);
            }
        }
        values = after;
    }
    Ok(())
}

/// Returns the CRC-32C of some bytes (RFC 9260, appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (CASTAGNOLI & 0_u32.wrapping_sub(crc & 1));
    let add = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    !bytes.iter().fold(u32::MAX, add)
}

/// Longest header of version 2 that is read; one for TCP over IPv6 needs 52 bytes, the rest is for values.
pub const HEADER_BYTES_MAX: usize = 4096;
/// Longest line of version 1, its end included (section 2.1).
pub const LINE_BYTES_MAX: usize = 107;

const SIGNATURE_1: &[u8] = b"PROXY ";
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The shortest header of either version.
const SHORTEST_LINE: &str = "PROXY UNKNOWN\r\n";
/// What comes before the addresses of version 2.
const HEAD_BYTES: usize = 16;
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNSPEC: u8 = 0x00;
const TCP4: u8 = 0x11;
const UDP4: u8 = 0x12;
const TCP6: u8 = 0x21;
const UDP6: u8 = 0x22;
const UNIX_STREAM: u8 = 0x31;
const UNIX_DATAGRAM: u8 = 0x32;
const TYPE_CRC32C: u8 = 0x03;
/// The polynomial of CRC-32C, its bits reversed.
const CASTAGNOLI: u32 = 0x82f6_3b78;

#[cfg(test)]
mod tests;
