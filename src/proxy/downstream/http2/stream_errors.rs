//! Notices the streams that `h2` resets by itself because what has come on them is malformed.
//!
//! `h2` does not report a request that it does not accept, for example because of a character in its target that no URL
//! may hold, or a field of HTTP/1. So the frames that are written are followed.

use std::io::IoSlice;

/// Follows the frames that a connection writes.
#[derive(Debug, Default)]
pub(super) struct StreamErrors {
    /// What has been written of a frame's header, and of the code of a RST_STREAM after it (RFC 9113, sections 4.1 and
    /// 6.4).
    frame: [u8; RESET_BYTES],
    written: usize,
    /// Bytes of another frame's payload that are still to be written.
    left: usize,
}

const HEADER_BYTES: usize = 9;
const RESET_BYTES: usize = HEADER_BYTES + 4;
const RST_STREAM: u8 = 3;
const PROTOCOL_ERROR: u8 = 1;

impl StreamErrors {
    /// Follows the first `written` bytes of these slices, and returns how many streams they reset with PROTOCOL_ERROR.
    pub(super) fn follow(&mut self, slices: &[IoSlice<'_>], mut written: usize) -> u32 {
        let mut resets = 0;
        for slice in slices {
            let taken = slice.len().min(written);
            written -= taken;
            resets += self.follow_bytes(&slice[..taken]);
        }
        resets
    }

    fn follow_bytes(&mut self, mut bytes: &[u8]) -> u32 {
        let mut resets = 0;
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                (self.left, bytes) = (self.left - taken, &bytes[taken..]);
                continue;
            }
            let whole = match self.frame {
                [_, _, _, RST_STREAM, ..] if self.written >= HEADER_BYTES => RESET_BYTES,
                _ => HEADER_BYTES,
            };
            let taken = bytes.len().min(whole - self.written);
            self.frame[self.written..self.written + taken].copy_from_slice(&bytes[..taken]);
            (self.written, bytes) = (self.written + taken, &bytes[taken..]);
            let [a, b, c, kind, .., code] = self.frame;
            match (self.written, kind) {
                (RESET_BYTES, _) => {
                    resets += u32::from(code == PROTOCOL_ERROR);
                    self.written = 0;
                }
                (HEADER_BYTES, RST_STREAM) => {}
                (HEADER_BYTES, _) => {
                    self.left = u32::from_be_bytes([0, a, b, c]) as usize;
                    self.written = 0;
                }
                _ => {}
            }
        }
        resets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_for_what_is_malformed_are_counted_in_pieces_of_any_size() {
        let frame = |kind: u8, payload: &[u8]| {
            let length = u8::try_from(payload.len()).expect("a short frame");
            [&[0, 0, length, kind, 0, 0, 0, 0, 1], payload].concat()
        };
        let frames = [
            frame(4, &[]),
            frame(RST_STREAM, &[0, 0, 0, PROTOCOL_ERROR]),
            frame(1, b"\x88abc"),
            frame(0, &frame(RST_STREAM, &[0, 0, 0, PROTOCOL_ERROR])),
            frame(RST_STREAM, &[0, 0, 0, 8]),
            frame(6, &[1; 8]),
            frame(RST_STREAM, &[0, 0, 0, PROTOCOL_ERROR]),
        ];
        let bytes = frames.concat();
        for size in 1..=bytes.len() {
            let slices: Vec<_> = bytes.chunks(size).map(IoSlice::new).collect();
            let (mut whole, mut parts) = (StreamErrors::default(), StreamErrors::default());
            assert_eq!(whole.follow(&slices, bytes.len()), 2);
            let counts = slices
                .iter()
                .map(|slice| parts.follow(&[*slice], slice.len()));
            assert_eq!(counts.sum::<u32>(), 2, "by {size}");
        }
        let mut first = StreamErrors::default();
        assert_eq!(
            first.follow(&[IoSlice::new(&bytes)], HEADER_BYTES + RESET_BYTES),
            1
        );
    }
}
