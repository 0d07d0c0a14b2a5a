//! The bytes that are sent: a corpus, and its mutations.

use crate::proxy::differential::Draws;

/// Good requests, and bad ones that the parser accepts.
pub const MESSAGES: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\r\n\r\nGET / HTTP/1.1\r\nX:\ty\r\nCookie: content-length:9\r\n\r\n",
    b"HEAD / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length:\t0012 \r\n\r\n\n\r\n\n\n\0 abc\r\n",
    b"POST / HTTP/1.1\r\nContent-Lengths: 9\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\na\n\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 9\r\nTRANSFER-encoding:Chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\n\n\n\r\n0003\r\nabc\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
      000000000000000A \t;x=\"a;\\\"\\\\\"\r\n\n\r\n0\r\n\r\n\n\n\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n\
      3;a=\"\\\"\";b\r\n\r\n\n\r\n0;x\r\nX: 1\r\nY: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
      0\r\nX: 1\r\nContent-Length: 300\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n\n\n\n",
    b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\n\n\n\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /a<b>?c=\"d\"&e=\xe9 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\r\nPOST /`?` HTTP/1.1\r\nContent-Length: 3\r\n\r\n<\">",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"GET / HTTP/1.1\r\nX: a\nContent-Length: 3\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000003\r\nabc\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"\r\nabc\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: a\n\r\n",
];

/// Requests that the parser accepts and the reader refuses, as long as the two are in step.
pub const PROBES: &[&[u8]] = &[
    b"GET /probe/head HTTP/1.1\nHost: a\r\n\r\n",
    b"GET /probe/head HTTP/1.1\r\nHost: a\n\r\n",
    b"GET /probe/head HTTP/1.1\r\nHost: a\r\n\n",
    b"POST /probe/body HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
    b"POST /probe/body HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;\"\r\nabc\r\n0\r\n\r\n",
    b"POST /probe/body HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
      00000000000000003\r\nabc\r\n0\r\n\r\n",
];

/// Pieces that mutations insert.
const PARTS: &[&[u8]] = &[
    b"\n",
    b"\r",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b";",
    b"\"",
    b"\\",
    b"<",
    b"?\xe9",
    b"0",
    b"3",
    b"f",
    b"000000000000000",
    b"ffffffffffffffff",
    b"0\r\n\r\n",
    b"3\r\nabc\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: +3\r\n",
    b"Content-Length: 3, 3\r\n",
    b"Content-Length : 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding:\r\n chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"HTTP/1.0",
    b"X: y\r\n",
];

/// Makes a pipeline of messages, changes some of its bytes, and adds a probe at the end.
pub fn mutated(draws: &mut Draws) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..draws.below(4) {
        bytes.extend_from_slice(draws.one_of(MESSAGES));
    }
    draws.mutate(&mut bytes, PARTS);
    bytes.extend_from_slice(draws.one_of(PROBES));
    bytes
}
