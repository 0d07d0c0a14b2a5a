//! What is sent: a corpus, and its mutations.

use std::ops::Range;

/// Numbers that only look random (`SplitMix64`): the same for the same seed.
pub struct Draws(pub u64);

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

/// What mutations insert.
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
    for _ in 0..draws.below(4) {
        let part = draws.one_of(PARTS);
        let at = draws.range(bytes.len());
        match draws.below(5) {
            0 => drop(bytes.splice(at, part.iter().copied())),
            1 => drop(bytes.splice(at.start..at.start, part.iter().copied())),
            2 if !at.is_empty() => bytes[at.start] = part[0],
            3 => drop(bytes.drain(at.start..(at.start + 1).min(at.end))),
            _ => {
                let again = bytes[at.clone()].to_vec();
                drop(bytes.splice(at.end..at.end, again));
            }
        }
    }
    bytes.extend_from_slice(draws.one_of(PROBES));
    bytes
}

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Draws a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        let drawn = self.next() % bound as u64;
        usize::try_from(drawn).expect("below a usize")
    }

    fn one_of(&mut self, all: &[&'static [u8]]) -> &'static [u8] {
        all[self.below(all.len())]
    }

    /// Draws a short range of a sequence of that length.
    fn range(&mut self, length: usize) -> Range<usize> {
        let begin = self.below(length + 1);
        begin..(begin + self.below(8)).min(length)
    }
}
