//! Good requests pass unchanged; in others, one byte is overwritten.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Follows `bytes` in pieces of this many, and returns the result.
fn followed(bytes: &[u8], piece: usize) -> (Vec<u8>, Place) {
    let mut reader = StrictReader::default();
    let mut bytes = bytes.to_vec();
    for piece in bytes.chunks_mut(piece) {
        reader.follow(piece);
    }
    (bytes, reader.place)
}

const REQUESTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\r\n\r\nGET / HTTP/1.1\r\nX:\ty\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length:\t0012 \r\n\r\n\n\r\n\n\n\0 abc\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 0\r\nContent-Lengths: 9\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 9\r\nTRANSFER-encoding:Chunked\r\n\r\n\
      1\r\n\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n\
      000000000000000A \t;x=\"a;\\\"\\\\\"\r\n\n\n\n\n\n\n\n\n\n\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
      3;a=\"\\\"\";b\r\n\n\n\n\r\n0;x\r\nX-Sum: 1\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000003\r\nabc\r\n00\r\n\r\n",
];

/// What passes is not changed, however it arrives and whatever follows it.
#[test]
fn good_requests_pass_as_they_are_in_pieces_of_any_size() {
    let good = REQUESTS.concat().repeat(2);
    for piece in 1..good.len() {
        let (passed, place) = followed(&good, piece);
        assert_eq!(
            passed.escape_ascii().to_string(),
            good.escape_ascii().to_string()
        );
        assert_eq!(place, Place::RequestLine, "in pieces of {piece}");
    }
}

#[test]
fn first_byte_that_must_not_be_is_overwritten_and_nothing_else() {
    let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (request, at, by) in [
        ("\nGET / HTTP/1.1\r\n\r\n".to_owned(), 0, NOWHERE),
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), 14, NOWHERE),
        (
            "GET / HTTP/1.1\r\nX: a\nY: b\r\n\r\n".to_owned(),
            20,
            NOWHERE,
        ),
        ("GET / HTTP/1.1\r\nX: a\r\n\n".to_owned(), 22, NOWHERE),
        (
            format!("{chunked}3 \r\nabc\r\n"),
            chunked.len() + 2,
            NOWHERE,
        ),
        (
            format!("{chunked}3\t 3\r\nabc\r\n"),
            chunked.len() + 3,
            NOWHERE,
        ),
        (
            format!("{chunked}00000000000000003\r\nabc\r\n"),
            chunked.len() + 16,
            NOWHERE,
        ),
        (
            format!("{chunked}1;a=\"\r\nx\r\n"),
            chunked.len() + 5,
            b'\n',
        ),
        (
            format!("{chunked}1;a=\"\\\r\nx\r\n"),
            chunked.len() + 6,
            b'\n',
        ),
        (format!("{chunked}1;a\0\r\nx\r\n"), chunked.len() + 3, b'\n'),
        (
            format!("{chunked}0\r\nX: a\n\r\n"),
            chunked.len() + 7,
            NOWHERE,
        ),
        (format!("{chunked}0\r\n\n"), chunked.len() + 3, NOWHERE),
    ] {
        // What follows is not looked at: it never becomes a request.
        let request = request + "X\n\n";
        let mut expected = request.clone().into_bytes();
        expected[at] = by;
        for piece in 1..=request.len() {
            let (passed, place) = followed(request.as_bytes(), piece);
            assert_eq!(
                passed.escape_ascii().to_string(),
                expected.escape_ascii().to_string()
            );
            assert_eq!(place, Place::Refused, "{request:?} in pieces of {piece}");
        }
    }
}

#[test]
fn framing_that_the_parser_refuses_is_not_followed() {
    for fields in [
        "Content-Length: x",
        "Content-Length: -1",
        "Content-Length:",
        "Content-Length: 5, 5",
        "Content-Length: 18446744073709551616",
        "Transfer-Encoding: gzip, chunked",
    ] {
        let head = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
        let (_, place) = followed(head.as_bytes(), head.len());
        assert_eq!(place, Place::Refused, "{fields}");
    }
}

const PARTS: &[&str] = &[
    "GET / HTTP/1.1\r\n",
    "Content-Length: 7\r\n",
    "transfer-ENCODING:\tchunked \r\n",
    "\r\n",
    "\r",
    "\n",
    "3",
    "3\r\nabc\r\n",
    "0\r\n\r\n",
    " ",
    ";a=\"",
    "\\",
    "abc",
    "000000000000000",
];

proptest! {
    /// The result is the same, in whatever pieces the bytes arrive.
    #[test]
    fn pieces_make_no_difference(
        parts in prop::collection::vec(select(PARTS), 1..40),
        piece in 1..30_usize,
    ) {
        let bytes = parts.concat().into_bytes();
        prop_assert_eq!(followed(&bytes, piece), followed(&bytes, bytes.len()));
    }
}
