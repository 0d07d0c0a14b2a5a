//! Headers of both versions, and what only looks like one.

use super::*;

/// Reads a header as a connection does, which must not take a byte after it.
fn read_all(bytes: &[u8]) -> Result<Option<SocketAddr>, BadProxyHeader> {
    let mut have = 0;
    loop {
        match read(&bytes[..have])? {
            HeaderProgress::Done(source) => {
                assert_eq!(have, bytes.len());
                return Ok(source);
            }
            HeaderProgress::More(more) => {
                for some in 1..=more {
                    let read = read(&bytes[..have + some])?;
                    match read {
                        HeaderProgress::More(rest) => {
                            assert!(rest > 0 && have + some + rest <= bytes.len(), "{rest}");
                        }
                        HeaderProgress::Done(_) => assert_eq!(have + some, bytes.len()),
                    }
                }
                have += more;
            }
        }
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A header of version 2 with this command and family.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("a short header");
    let head = [SIGNATURE_2, &[command, family], &length.to_be_bytes()];
    [&head.concat(), rest].concat()
}

const IPV4: [u8; 12] = [203, 0, 113, 9, 192, 0, 2, 1, 0xc3, 0x50, 0x01, 0xbb];

fn ipv6() -> Vec<u8> {
    let (source, destination) = ("2001:db8::9", "2001:db8::1");
    let octets = |text: &str| text.parse::<Ipv6Addr>().expect("an address").octets();
    let ports = [0xc3, 0x50, 0x01, 0xbb];
    [&octets(source)[..], &octets(destination), &ports].concat()
}

/// Makes a header with a checksum, after a value of another type, and changes it.
fn with_checksum(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let values: &[u8] = &[0x04, 0, 2, 7, 7, TYPE_CRC32C, 0, 4, 0, 0, 0, 0];
    let mut header = binary(PROXY, TCP4, &[&IPV4[..], values].concat());
    let checksum = crc32c(&header).to_be_bytes();
    let at = header.len() - 4;
    header[at..].copy_from_slice(&checksum);
    change(&mut header);
    header
}

#[test]
fn a_line_names_the_client() {
    for (line, source) in [
        (
            "PROXY TCP4 203.0.113.9 192.0.2.1 50000 443\r\n",
            Some("203.0.113.9:50000"),
        ),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", Some("1.1.1.1:1")),
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
            Some("255.255.255.255:65535"),
        ),
        ("PROXY TCP6 :: :: 1 2\r\n", Some("[::]:1")),
        (
            "PROXY TCP6 2001:db8::9 2001:db8::1 50000 443\r\n",
            Some("[2001:db8::9]:50000"),
        ),
        (
            "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
             ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
            Some("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"),
        ),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN 203.0.113.9 192.0.2.1 50000 443\r\n", None),
    ] {
        assert_eq!(read_all(line.as_bytes()), Ok(source.map(address)), "{line}");
    }
}

#[test]
fn a_line_that_breaks_a_rule_is_refused() {
    for (line, error) in [
        ("GET / HTTP/1.1\r\n", Missing),
        ("PROXY\tTCP4 1.1.1.1 2.2.2.2 1 2\r\n", Missing),
        ("proxy TCP4 1.1.1.1 2.2.2.2 1 2\r\n", Missing),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n", Malformed),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n", Malformed),
        ("PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n", Malformed),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 \r\n", Malformed),
        ("PROXY TCP4 1.1.1.01 2.2.2.2 1 2\r\n", Malformed),
        ("PROXY TCP4 1.1.1.1 2.2.2.x 1 2\r\n", Malformed),
        ("PROXY TCP4 ::1 ::1 50000 50000\r\n", Malformed),
        ("PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n", Malformed),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n", Malformed),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n", Malformed),
        ("PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n", Malformed),
        ("PROXY unknown\r\n", Malformed),
        ("PROXY TCP4\r\n", Malformed),
        ("PROXY \r\n", Malformed),
    ] {
        assert_eq!(read(line.as_bytes()), Err(error), "{line}");
    }
    let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_BYTES_MAX - 16));
    assert_eq!(longest.len(), LINE_BYTES_MAX);
    assert_eq!(read_all(longest.as_bytes()), Ok(None));
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(LINE_BYTES_MAX - 15));
    assert_eq!(read(endless.as_bytes()), Err(TooLong));
}

#[test]
fn a_binary_header_names_the_client_on_tcp() {
    let (unix, values) = ([0; 216], [0x04, 0, 3, 1, 2, 3, 0x20, 0, 0]);
    let v4 = [&IPV4[..], &values].concat();
    let (four, six) = ("203.0.113.9:50000", "[2001:db8::9]:50000");
    for (header, source) in [
        (binary(PROXY, TCP4, &IPV4), Some(four)),
        (binary(PROXY, TCP4, &v4), Some(four)),
        (binary(PROXY, TCP6, &ipv6()), Some(six)),
        (binary(PROXY, UDP4, &IPV4), None),
        (binary(PROXY, UDP6, &ipv6()), None),
        (binary(PROXY, UNIX_STREAM, &unix), None),
        (binary(PROXY, UNIX_DATAGRAM, &unix), None),
        (binary(PROXY, UNSPEC, &[]), None),
        (binary(PROXY, UNSPEC, b"whatever"), None),
        (binary(LOCAL, UNSPEC, &[]), None),
        (binary(LOCAL, TCP4, &v4), None),
        (binary(LOCAL, 0xff, b"whatever"), None),
        (with_checksum(|_| {}), Some(four)),
    ] {
        assert_eq!(
            read_all(&header),
            Ok(source.map(address)),
            "{:?}",
            &header[..header.len().min(40)]
        );
    }
}

#[test]
fn a_binary_header_that_breaks_a_rule_is_refused() {
    let with = |values: &[u8]| binary(PROXY, TCP4, &[&IPV4[..], values].concat());
    let longest = vec![0; HEADER_BYTES_MAX - HEAD_BYTES];
    for (header, error) in [
        (binary(0x11, TCP4, &IPV4), Malformed),
        (binary(0x22, TCP4, &IPV4), Malformed),
        (binary(PROXY, 0x13, &IPV4), Malformed),
        (binary(PROXY, 0x41, &IPV4), Malformed),
        (binary(PROXY, TCP4, &IPV4[1..]), Malformed),
        (binary(PROXY, TCP6, &IPV4), Malformed),
        (binary(PROXY, UNIX_STREAM, &[0; 215]), Malformed),
        (with(&[0x04, 0]), Malformed),
        (with(&[0x04, 0, 2, 7]), Malformed),
        (with(&[TYPE_CRC32C, 0, 3, 0, 0, 0]), Malformed),
        (with(&[TYPE_CRC32C, 0, 5, 0, 0, 0, 0, 0]), Malformed),
        (with(&[TYPE_CRC32C, 0, 4, 0, 0, 0, 0]), Checksum),
        (with_checksum(|header| header[19] ^= 1), Checksum),
        (
            with_checksum(|header| *header.last_mut().expect("one") ^= 1),
            Checksum,
        ),
        (
            binary(LOCAL, UNSPEC, &[&longest[..], &[0]].concat()),
            TooLong,
        ),
    ] {
        assert_eq!(
            read(&header),
            Err(error),
            "{:?}",
            &header[..header.len().min(40)]
        );
    }
    assert_eq!(read_all(&binary(LOCAL, UNSPEC, &longest)), Ok(None));
}

/// The check value of the catalogue of CRCs.
#[test]
fn the_checksum_is_that_of_castagnoli() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}
