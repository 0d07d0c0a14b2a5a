//! Notices a head that has begun and is not complete.
//!
//! `h2` says nothing of a request before its head is complete, and no other frame may come in between
//! (RFC 9113, section 4.3). So the lengths, types and flags of frames are followed as they are read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::state::Http2State;
use super::stream_errors::StreamErrors;

/// A connection whose frames are followed.
#[derive(Debug)]
pub(super) struct FrameObserver<T> {
    io: T,
    state: Rc<Http2State>,
    frames: FrameTracker,
    stream_errors: StreamErrors,
}

/// Where the next byte belongs in the frames of a connection.
#[derive(Debug)]
struct FrameTracker {
    place: FramePosition,
    /// The header of the latest frame, as far as it has come: length (3 bytes), type, flags, stream
    /// (RFC 9113, section 4.1).
    header: [u8; HEADER_BYTES],
    /// Whether the fields of a head, or of trailers, are incomplete.
    is_head_open: bool,
    /// Whether such fields have been completed since the latest read.
    has_head_ended: bool,
    /// Whether any head or trailers took more than one frame.
    has_continued: bool,
}

#[derive(Clone, Copy, Debug)]
enum FramePosition {
    /// In the preface, of which this many bytes are left.
    Preface(usize),
    /// In a frame's header, of which this many bytes have come.
    Header(usize),
    /// In a frame's payload, of which this many bytes are left.
    Payload(usize),
}

const HEADER_BYTES: usize = 9;
const PREFACE_BYTES: usize = 24;
/// The types of frames that carry fields, and the flag of the last such frame of a head.
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

impl<T> FrameObserver<T> {
    /// Follows the frames of a fresh connection.
    pub(super) fn new(io: T, state: Rc<Http2State>) -> Self {
        let frames = FrameTracker {
            place: FramePosition::Preface(PREFACE_BYTES),
            header: [0; HEADER_BYTES],
            is_head_open: false,
            has_head_ended: false,
            has_continued: false,
        };
        let stream_errors = StreamErrors::default();
        Self {
            io,
            state,
            frames,
            stream_errors,
        }
    }

    /// Notes what has been written of `slices`.
    fn note_written(&mut self, slices: &[IoSlice<'_>], written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            let malformed = self.stream_errors.follow(slices, *bytes);
            self.state.note_malformed(malformed);
        }
    }
}

impl FrameTracker {
    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (FramePosition::Preface(left) | FramePosition::Payload(left)) = self.place else {
                bytes = self.follow_header(bytes);
                continue;
            };
            let taken = left.min(bytes.len());
            bytes = &bytes[taken..];
            self.place = match self.place {
                FramePosition::Preface(_) if taken < left => FramePosition::Preface(left - taken),
                FramePosition::Payload(_) if taken < left => FramePosition::Payload(left - taken),
                FramePosition::Payload(_) => {
                    self.end_frame();
                    FramePosition::Header(0)
                }
                _ => FramePosition::Header(0),
            };
        }
    }

    /// Follows a frame's header, and returns the bytes after it.
    fn follow_header<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let FramePosition::Header(come) = self.place else {
            return bytes;
        };
        let taken = (HEADER_BYTES - come).min(bytes.len());
        self.header[come..come + taken].copy_from_slice(&bytes[..taken]);
        self.place = FramePosition::Header(come + taken);
        if come + taken == HEADER_BYTES {
            let [a, b, c, kind, ..] = self.header;
            self.is_head_open |= matches!(kind, HEADERS | CONTINUATION);
            self.has_continued |= kind == CONTINUATION;
            self.place = match u32::from_be_bytes([0, a, b, c]) as usize {
                0 => {
                    self.end_frame();
                    FramePosition::Header(0)
                }
                left => FramePosition::Payload(left),
            };
        }
        &bytes[taken..]
    }

    fn end_frame(&mut self) {
        let [_, _, _, kind, flags, ..] = self.header;
        if matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0 {
            self.is_head_open = false;
            self.has_head_ended = true;
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for FrameObserver<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        self.frames.follow(&buf.filled()[before..]);
        if std::mem::take(&mut self.frames.has_head_ended) {
            self.state.await_head(false);
        }
        self.state.await_head(self.frames.is_head_open);
        if self.frames.has_continued {
            self.state.note_large_head();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for FrameObserver<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.note_written(&[IoSlice::new(bytes)], &written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.note_written(slices, &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("a short frame");
        [&[0, 0, length, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn head_is_open_from_its_first_frame_to_the_end_of_its_last_in_pieces_of_any_size() {
        let preface = [0; PREFACE_BYTES].to_vec();
        let (data, ping) = (frame(0, 4, b"12345"), frame(6, 0, &[0; 8]));
        let cases = [
            (
                vec![preface.clone(), frame(HEADERS, END_HEADERS, b"abc")],
                false,
            ),
            (
                vec![preface.clone(), frame(HEADERS, END_HEADERS, b"")],
                false,
            ),
            (vec![preface.clone(), frame(HEADERS, 0, b"abc")], true),
            (
                vec![
                    preface.clone(),
                    frame(HEADERS, 0, b"abc"),
                    frame(CONTINUATION, 0, b""),
                ],
                true,
            ),
            (
                vec![
                    preface.clone(),
                    data,
                    frame(HEADERS, 0, b"a"),
                    frame(CONTINUATION, END_HEADERS, b"b"),
                    ping,
                ],
                false,
            ),
            (
                vec![
                    preface.clone(),
                    frame(HEADERS, END_HEADERS, b"abc")[..11].to_vec(),
                ],
                true,
            ),
            (
                vec![preface, frame(HEADERS, END_HEADERS, b"abc")[..8].to_vec()],
                false,
            ),
        ];
        for (pieces, is_open) in cases {
            let bytes = pieces.concat();
            for size in 1..=bytes.len() {
                let mut frames = FrameTracker {
                    place: FramePosition::Preface(PREFACE_BYTES),
                    header: [0; HEADER_BYTES],
                    is_head_open: false,
                    has_head_ended: false,
                    has_continued: false,
                };
                bytes.chunks(size).for_each(|piece| frames.follow(piece));
                assert_eq!(frames.is_head_open, is_open, "{pieces:?} by {size}");
            }
        }
    }
}
