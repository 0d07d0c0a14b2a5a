//! Responses of origins: a corpus, and its mutations.

use crate::proxy::differential::Draws;

/// Good responses, and bad ones.
pub const ANSWERS: &[&[u8]] = &[
    // Every way in which a body can end.
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ncontent-LENGTH:\t0005 \r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding:CHUNKED\r\n\r\n1\r\n\n\r\n0a\r\n0\r\n\r\n\r\n\r\n\r\n\r\n000\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
    b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\nETag: \"x\"\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
    // Heads that need care, but are good.
    b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 299  All\tmine \r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 \xc3\xa9t\xc3\xa9\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\nX: a\x80\xffb\r\nX:\r\nY: \t \r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: 1\r\nSet-Cookie: a\r\nx: 2\r\nset-cookie: b\r\nContent-Length: 2\r\n\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nconnection: x, CLOSE ,\r\nContent-Length: 2\r\n\r\nok",
    // Fields that concern this connection alone.
    b"HTTP/1.1 200 OK\r\nConnection: X-Hop, content-length, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
      Content-Length: 2\r\nX: 1\r\n\r\nok",
    b"HTTP/1.1 204 No Content\r\nX: 1\r\nUpgrade: h2c\r\nconnection: x\r\nProxy-Connection: close\r\nTE: x\r\n\r\n",
    // Interim responses before the final one.
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX: 1\r\n\r\nHTTP/1.0 102\r\nContent-Length: 9\r\n\r\n\
      HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 199 X\r\nConnection: close\r\nTransfer-Encoding: gzip\r\nContent-Length: x\r\n\r\n\
      HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    // Extensions and trailers.
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a;b=\"c\";\x80\t\r\nhello\r\n0;x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \t\r\nok\r\n0 ;x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: 1\r\nx:2 \r\nY:\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 3\r\nX: \xff\r\n\r\n",
    // Bytes after the end of the response, which do not belong to it.
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\npoison",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\npoison",
    // Responses that break off.
    b"",
    b"HTTP/1.1 200 OK\r\nContent-Le",
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nshort",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n0\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: 1\r\n",
    // Malformed heads.
    b"HTTP/1.1 200 OK\r\nX: a\rY: b\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n: 0\r\n\r\n",
    b"HTTP/1.1 2x0 OK\r\n\r\n",
    b"HTTP/1.1 20 OK\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/1.1 099 OK\r\n\r\n",
    b"HTTP/1.1  200 OK\r\n\r\n",
    b"HTTP/1.1 200 O\x01K\r\n\r\n",
    b"HTTP/2.0 200 OK\r\n\r\n",
    b"HTTP/1.32 200 OK\r\n\r\n",
    b"http/1.1 200 OK\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    b"\x15\x03\x01\x00\x02\x02\x46",
    // Ambiguous or invalid lengths.
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
    // Responses that only one of the two accepts, if they are not listed above.
    b"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: 1\n\r\n\r\n",
    b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 100 Continue\r\n\r\n\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: \x80, close\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;\x01\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000002\r\nok\r\n0\r\n\r\n",
    // Malformed chunks.
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokXX0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\rX0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\rXok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 2\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 2\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a\rb\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF0\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno field\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: 1\r\n folded\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: a\rb\r\n\r\n",
];

/// Responses at each bound, and beyond it.
pub fn large() -> Vec<Vec<u8>> {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let padded = |before: &str, bytes: usize, after: &str| {
        let pad = "x".repeat(bytes - before.len() - after.len());
        format!("{before}{pad}{after}")
    };
    let head = |bytes| {
        padded(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: ",
            bytes,
            "\r\n\r\n",
        )
    };
    let fields = |count: usize| {
        let fields = "X: 1\r\n".repeat(count - 1);
        format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nok")
    };
    let interim = |count| "HTTP/1.1 100 Continue\r\n\r\n".repeat(count) + ok;
    let hints = |bytes: usize| {
        let hint = |bytes| padded("HTTP/1.1 103 Early Hints\r\nX: ", bytes, "\r\n\r\n");
        hint(32_000) + &hint(32_000) + &hint(bytes - 64_000) + ok
    };
    let chunked = |chunks: String| {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0{chunks}\r\n")
    };
    let extension = |bytes| chunked(format!(";{}\r\n", "x".repeat(bytes)));
    let spaces = |bytes| chunked(format!("{}\r\n", " ".repeat(bytes)));
    let trailers = |bytes: usize| chunked(format!("\r\n{}", padded("X: ", bytes - 2, "\r\n")));
    let names = |count| chunked(format!("\r\n{}", "X: 1\r\n".repeat(count)));
    let length = "x".repeat(100_000);
    [
        head(32_768) + "ok",
        head(32_769) + "ok",
        fields(100),
        fields(101),
        interim(64),
        interim(65),
        hints(65_536),
        hints(65_537),
        extension(16_383),
        extension(16_384),
        extension(16_385),
        spaces(16_384),
        spaces(16_385),
        trailers(30_000),
        trailers(40_000),
        names(100),
        names(101),
        format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{length}"),
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186A0\r\n{length}\r\n0\r\n\r\n"
        ),
        format!("HTTP/1.1 200 OK\r\n\r\n{length}"),
    ]
    .map(String::into_bytes)
    .into()
}

/// Parts that mutations insert.
const PARTS: &[&[u8]] = &[
    b"\n",
    b"\r",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b";",
    b",",
    b":",
    b"\x7f",
    b"\x80",
    b"0",
    b"2",
    b"f",
    b"000000000000000",
    b"ffffffffffffffff",
    b"0\r\n\r\n",
    b"2\r\nok\r\n",
    b"HTTP/1.0 ",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    b" 204 ",
    b" 304 ",
    b"Content-Length: 2\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: +2\r\n",
    b"Content-Length: 2, 2\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: X, keep-alive\r\n",
    b"X: y\r\n",
    b"\r\n folded",
];

/// Takes one response, or two in a row, and changes some bytes.
pub fn mutated(draws: &mut Draws) -> Vec<u8> {
    let mut bytes = draws.one_of(ANSWERS).to_vec();
    if draws.below(4) == 0 {
        bytes.extend_from_slice(draws.one_of(ANSWERS));
    }
    draws.mutate(&mut bytes, PARTS);
    bytes
}
