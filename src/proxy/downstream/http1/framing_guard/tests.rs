//! Good requests pass unchanged; in others, one byte is overwritten.

use super::reader::NOWHERE;
use super::*;
use crate::proxy::wire::encoding::LARGE_BYTES_MIN;

/// Follows `bytes` in pieces of this many, and returns the result.
fn followed(bytes: &[u8], piece: usize) -> (Vec<u8>, FramingState) {
    let mut reader = FramingReader::default();
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

/// Good requests are not changed, however they arrive and whatever follows them.
#[test]
fn good_requests_pass_as_they_are_in_pieces_of_any_size() {
    let good = REQUESTS.concat().repeat(2);
    for piece in 1..good.len() {
        let (passed, place) = followed(&good, piece);
        assert_eq!(
            passed.escape_ascii().to_string(),
            good.escape_ascii().to_string()
        );
        assert_eq!(place, FramingState::RequestLine, "in pieces of {piece}");
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
            assert_eq!(
                place,
                FramingState::Refused,
                "{request:?} in pieces of {piece}"
            );
        }
    }
}

#[test]
fn characters_of_a_target_that_no_url_may_hold_are_escaped_wherever_it_is_cut() {
    for (line, expected) in [
        (
            "GET /a<b>`\"c?d HTTP/1.1",
            Some("GET /a%3Cb%3E%60%22c?d HTTP/1.1"),
        ),
        ("GET /?q={a=\"<b>\"}`", Some("GET /?q={a=%22%3Cb%3E%22}%60")),
        (
            "GET /?\u{e9}?\u{e9} HTTP/1.1",
            Some("GET /?%C3%A9?%C3%A9 HTTP/1.1"),
        ),
        (
            "GET http://a/<x> HTTP/1.1",
            Some("GET http://a/%3Cx%3E HTTP/1.1"),
        ),
        ("\r\n\r\nGET /< HTTP/1.1", Some("\r\n\r\nGET /%3C HTTP/1.1")),
        ("GET /a|^{}\\[]'~%3c?|^{}\\[]' HTTP/1.1", None),
        ("GET /\u{e9} HTTP/1.1", None),
        ("<GET> / HTTP/1.1", None),
        ("GET / <HTTP/1.1>", None),
        ("GET / HTTP/1.1\r\nX: /<\">`", None),
    ] {
        let sent = format!("{line}\r\n\r\n").into_bytes();
        let expected = format!("{}\r\n\r\n", expected.unwrap_or(line));
        for piece in 1..=sent.len() {
            let (mut reader, mut passed) = (FramingReader::default(), Vec::new());
            for bytes in sent.chunks(piece) {
                let mut bytes = bytes.to_vec();
                loop {
                    let behind = reader.follow(&mut bytes);
                    let raw = bytes.split_off(bytes.len() - behind);
                    passed.append(&mut bytes);
                    if raw.is_empty() {
                        break;
                    }
                    assert!(std::mem::take(&mut reader.is_raw));
                    bytes = target::escaped(&reader.line, &raw);
                }
            }
            assert_eq!(
                String::from_utf8_lossy(&passed),
                expected,
                "in pieces of {piece}"
            );
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
        for piece in 1..=head.len() {
            let (_, place) = followed(head.as_bytes(), piece);
            assert_eq!(place, FramingState::Refused, "{fields}");
        }
    }
}

#[test]
fn length_is_shortened_for_the_parser_if_a_whole_head_states_it_once_in_digits() {
    let head = |fields: &str| format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
    for (fields, shortened) in [
        ("Content-Length: 10", Some("Content-Length: 01")),
        (
            "content-length:\t0010 \r\nX: 10",
            Some("content-length:\t0001 \r\nX: 10"),
        ),
        ("Content-Length: 9", None),
        ("Content-Length: +10", None),
        ("Content-Length: 10\r\nContent-Length: 10", None),
        ("Content-Length: 18446744073709551615", None),
        ("X-Content-Length: 10", None),
    ] {
        let (mut reader, mut whole) = (FramingReader::diverting(9), head(fields).into_bytes());
        reader.follow(&mut whole);
        assert_eq!(whole, head(shortened.unwrap_or(fields)).into_bytes());
        assert_eq!(reader.diverted(), shortened.map(|_| 9), "{fields}");
        for cut in 1..whole.len() {
            let (mut reader, mut bytes) = (FramingReader::diverting(9), head(fields).into_bytes());
            let (first, second) = bytes.split_at_mut(cut);
            reader.follow(first);
            reader.follow(second);
            assert_eq!(bytes, head(fields).into_bytes(), "cut at {cut}");
        }
    }
}

#[test]
fn diverted_chunks_leave_the_parser_their_end_or_a_byte_that_it_refuses() {
    for (chunks, data, end) in [
        (
            "3\r\nabc\r\n2;x=y\r\nde\r\n0;z\r\nX: 1\r\n\r\nGET",
            "abcde",
            "0\r\nX: 1\r\n\r\nGET",
        ),
        ("3\r\nabc\r\n", "abc", ""),
        ("3\r\nabc\n", "abc", "\0"),
        ("3\r\nabc\r\nx", "abc", "\0"),
        ("\r\n", "", "\0"),
    ] {
        let mut reader = FramingReader::diverting(0);
        let mut head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        assert_eq!(reader.follow(&mut head), 0);
        let mut bytes = chunks.as_bytes().to_vec();
        let (pieces, rest) = reader.take_data(&mut bytes);
        let taken: Vec<&[u8]> = pieces.into_iter().map(|piece| &bytes[piece]).collect();
        assert_eq!(taken.concat(), data.as_bytes(), "{chunks:?}");
        assert_eq!(rest[..end.len()], *end.as_bytes(), "{chunks:?}");
        assert!(rest.len() == end.len() || end == "\0", "{chunks:?}");
        assert_eq!(reader.is_diverted, end.is_empty(), "{chunks:?}");
    }
}

#[test]
fn extensions_of_diverted_chunks_have_a_bound_together() {
    let mut reader = FramingReader::diverting(0);
    let mut head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    reader.follow(&mut head);
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(1023));
    for _ in 0..16 {
        reader.take_data(&mut chunk.clone().into_bytes());
        assert!(reader.is_diverted);
    }
    let (data, rest) = reader.take_data(&mut chunk.into_bytes());
    assert_eq!(
        (data.len(), rest[0], reader.is_diverted),
        (0, NOWHERE, false)
    );
}

#[test]
fn large_chunks_stay_where_they_are_and_short_ones_are_moved_to_those_before_them() {
    let chunk = |letter: &str, bytes| format!("{bytes:x}\r\n{}\r\n", letter.repeat(bytes));
    let (short, large) = (LARGE_BYTES_MIN - 1, LARGE_BYTES_MIN);
    let sent = [
        chunk("a", 1),
        chunk("b", short),
        chunk("c", large),
        chunk("d", 2),
        chunk("e", 3),
    ];
    let expected = [short + 1, large + 5];
    let (whole, mut reader) = (sent.concat(), FramingReader::diverting(0));
    reader.follow(&mut b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec());
    let mut bytes = whole.into_bytes();
    let (pieces, _) = reader.take_data(&mut bytes);
    assert_eq!(
        pieces[1].start,
        chunk("a", 1).len() + chunk("b", short).len() + "3000\r\n".len()
    );
    let pieces: Vec<&[u8]> = pieces.into_iter().map(|piece| &bytes[piece]).collect();
    assert_eq!(
        pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(),
        expected
    );
    let letters = [("a", 1), ("b", short), ("c", large), ("d", 2), ("e", 3)];
    let data = letters.map(|(letter, bytes)| letter.repeat(bytes)).concat();
    assert!(pieces.concat() == data.as_bytes());
}
