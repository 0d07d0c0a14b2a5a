//! A client that sends exactly the frames that a test gives it (RFC 9113, section 4.1).

use std::net::SocketAddr;

use crate::support::Client;
pub use crate::support::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GET, GOAWAY, HEADERS, PING,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
};

/// A connection on which the client has sent its preface.
pub struct Frames {
    pub client: Client,
}

/// Error codes of RST_STREAM and GOAWAY.
pub const NO_ERROR: u8 = 0;
pub const CANCEL: u8 = 8;
pub const ENHANCE_YOUR_CALM: u8 = 11;

impl Frames {
    /// Connects and sends these settings.
    pub fn connect(address: SocketAddr, settings: &[u8]) -> Self {
        Self::on(Client::connect(address), settings)
    }

    /// Speaks HTTP/2 on a fresh connection, and sends these settings.
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

    /// Sends finished frames in one piece.
    pub fn send_all(&mut self, frames: &[u8]) {
        self.client.send(frames);
    }

    /// Returns the next frame, or `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Frame> {
        Frame::read(|length| self.client.wire.take(length).ok())
    }

    /// Reads up to the next frame of that kind, and returns it.
    #[track_caller]
    pub fn until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().expect("the connection goes on");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Sends a PING and waits for its answer, so that everything sent before has been read.
    #[track_caller]
    pub fn ping(&mut self) {
        self.send(PING, 0, 0, b"is alive");
        while self.until(PING).payload != b"is alive" {}
    }

    /// Waits for the end of the connection, and returns the last error code before it.
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

/// Returns the frame of a GET without a body.
pub fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, GET)
}
