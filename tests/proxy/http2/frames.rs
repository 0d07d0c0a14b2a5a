//! A client that sends exactly the frames that it is told to (RFC 9113, section 4.1).

use std::net::SocketAddr;

use crate::support::Client;

/// A connection that has sent its preface.
pub struct Frames {
    pub client: Client,
}

/// A frame as it came.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
/// Flags; the first one means ACK on SETTINGS and PING.
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Error codes.
pub const NO_ERROR: u8 = 0;
pub const CANCEL: u8 = 8;
pub const ENHANCE_YOUR_CALM: u8 = 11;

impl Frames {
    /// Connects with these settings.
    pub fn connect(address: SocketAddr, settings: &[u8]) -> Self {
        Self::on(Client::connect(address), settings)
    }

    /// Speaks HTTP/2 on a fresh connection.
    pub fn on(mut client: Client, settings: &[u8]) -> Self {
        client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut frames = Self { client };
        frames.send(SETTINGS, 0, 0, settings);
        frames
    }

    /// Sends one frame.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.client.send(frame(kind, flags, stream, payload));
    }

    /// Sends frames that are made already, in one piece.
    pub fn send_all(&mut self, frames: &[u8]) {
        self.client.send(frames);
    }

    /// Returns the next frame, or none at the connection's end.
    pub fn next(&mut self) -> Option<Frame> {
        let head = self.client.wire.take(9).ok()?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &it| sum << 8 | u32::from(it));
        let payload = self.client.wire.take(number(&head[..3]) as usize).ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: number(&head[5..]),
            payload,
        })
    }

    /// Reads to the next frame of that kind.
    #[track_caller]
    pub fn until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().expect("the connection goes on");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Sends a PING and waits for its answer, so that all that was sent before has been read.
    #[track_caller]
    pub fn ping(&mut self) {
        self.send(PING, 0, 0, b"is alive");
        while self.until(PING).payload != b"is alive" {}
    }

    /// Waits for the connection's end, and returns the last error code before it.
    #[track_caller]
    pub fn end(&mut self) -> u8 {
        let mut code = None;
        while let Some(frame) = self.next() {
            if frame.kind == GOAWAY {
                code = Some(frame.payload[7]);
            }
        }
        code.expect("a GOAWAY")
    }
}

/// A frame on the wire.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame");
    let [_, length @ ..] = length.to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[..], &[kind, flags], &stream, payload].concat()
}

/// A whole GET.
pub fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, GET)
}

/// The fields of `GET http://a.test/` (RFC 7541: three of the static table, one with its own value).
pub const GET: &[u8] = b"\x82\x86\x84\x01\x06a.test";
