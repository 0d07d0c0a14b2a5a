//! Everything that happens in a sequence, drawn before it begins, and determined by the seed.

use std::ops::Range;

use crate::support::Draws;

/// Clients of one worker, each of which has its exchanges one after another, and some origins.
#[derive(Debug)]
pub struct Sequence {
    pub origins: usize,
    /// Range of `exchanges` that each client has.
    pub clients: Vec<Range<usize>>,
    /// All exchanges, by their nonce.
    pub exchanges: Vec<Exchange>,
}

/// A request, and how it is answered. Its nonce is in its target and all over both bodies.
#[derive(Debug)]
pub struct Exchange {
    pub nonce: usize,
    pub method: &'static str,
    pub upload: Upload,
    pub client: Client,
    pub script: Script,
    /// Seed of minor decisions: where bytes are cut, and which task waits a turn.
    pub draws: Draws,
}

/// The body of a request.
#[derive(Debug)]
pub struct Upload {
    pub framing: UploadFraming,
    /// How many bytes are announced; sent, if no length is announced.
    pub bytes: usize,
    pub end: UploadEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadFraming {
    None,
    Length,
    Chunked,
    ChunkedWithTrailers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadEnd {
    Whole,
    /// Half of it is sent, then it ends.
    Short,
    /// More is sent than was announced.
    Long,
    /// Half of it is sent, then an error comes.
    Broken,
}

/// What the client does in addition to its request.
#[derive(Debug)]
pub struct Client {
    /// How many turns pass before the request is sent.
    pub pause: usize,
    pub leaves: Leaves,
    /// How many turns pass before each piece of the answer is read.
    pub pace: usize,
}

/// When the client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    Never,
    /// After this many turns, unless the answer's head has arrived.
    Turns(usize),
    /// After this many frames of the answer's body, unless it has ended.
    Frames(usize),
}

/// What the origin does with a request.
#[derive(Debug)]
pub struct Script {
    /// Whether the origin answers before it reads the upload.
    pub is_early: bool,
    /// Number of interim answers before the final one.
    pub interim: usize,
    pub status: u16,
    pub framing: AnswerFraming,
    pub bytes: usize,
    pub says_close: bool,
    /// Thousandths of the answer that are sent, if it is cut. A request that arrives a second time gets the whole
    /// answer.
    pub cut: Option<usize>,
    pub surplus: Surplus,
    pub end: End,
    /// How many turns pass between the answer and the surplus or end; with 0, they come together with it.
    pub idle: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFraming {
    Length,
    Chunked,
    ChunkedWithTrailers,
    /// The body ends with the connection.
    Close,
}

/// Bytes after an answer, which nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surplus {
    None,
    Byte,
    Answer,
    InterimAndAnswer,
}

/// What the origin does with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Keep,
    Close,
    /// Sends FIN, but still reads what arrives, without answering it.
    HalfClose,
    Reset,
}

impl Sequence {
    pub fn draw(seed: u64) -> Self {
        // Without this, nearby seeds would have similar first numbers.
        let mut draws = Draws(seed).fork();
        let mut exchanges = Vec::new();
        let clients = (0..=draws.below(3)).map(|_| {
            let first = exchanges.len();
            for nonce in first..=first + draws.below(5) {
                exchanges.push(Exchange::draw(nonce, draws.fork()));
            }
            first..exchanges.len()
        });
        Self {
            clients: clients.collect(),
            exchanges,
            origins: draws.one_of(&[1, 1, 1, 2]),
        }
    }
}

impl Exchange {
    fn draw(nonce: usize, mut draws: Draws) -> Self {
        let method = draws.one_of(&[
            "GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE", "OPTIONS",
        ]);
        let client = Client {
            pause: draws.one_of(&[0, 0, 0, 1, 2, 3, 5, 20]),
            leaves: match draws.below(12) {
                0 => Leaves::Turns(draws.below(12)),
                1 => Leaves::Frames(draws.below(4)),
                _ => Leaves::Never,
            },
            pace: draws.one_of(&[0, 0, 0, 1, 8]),
        };
        Self {
            nonce,
            method,
            upload: Upload::draw(method, &mut draws),
            client,
            script: Script::draw(&mut draws),
            draws,
        }
    }

    /// Whether the answer has no body, whatever its head says.
    pub fn is_bodiless(&self) -> bool {
        self.method == "HEAD" || matches!(self.script.status, 204 | 304)
    }

    /// Whether the request may be sent a second time if no byte of an answer came.
    pub fn is_repeatable(&self) -> bool {
        self.method != "POST" && self.upload.framing == UploadFraming::None
    }

    /// Whether the connection may carry another request after this answer, if that is whole and nothing follows it.
    pub fn leaves_connection_open(&self) -> bool {
        let is_unexpected = matches!(self.method, "GET" | "HEAD" | "DELETE")
            && self.upload.framing != UploadFraming::None;
        let ends_with_connection =
            self.script.framing == AnswerFraming::Close && !self.is_bodiless();
        !self.script.says_close && !ends_with_connection && !is_unexpected
    }
}

impl Upload {
    fn draw(method: &str, draws: &mut Draws) -> Self {
        use UploadFraming::{Chunked, ChunkedWithTrailers, Length, None};
        let framing = match method {
            "POST" | "PUT" => draws.one_of(&[Length, Length, Chunked, ChunkedWithTrailers, None]),
            _ => draws.one_of(&[None, None, None, None, None, None, Length, Chunked]),
        };
        let bytes = match framing {
            None => 0,
            Length => 1 + draws.length(),
            Chunked | ChunkedWithTrailers => draws.length(),
        };
        let end = match draws.below(16) {
            0 if framing != None => UploadEnd::Broken,
            1 if framing == Length => UploadEnd::Short,
            2 if framing == Length => UploadEnd::Long,
            _ => UploadEnd::Whole,
        };
        Self {
            framing,
            bytes,
            end,
        }
    }
}

impl Script {
    fn draw(draws: &mut Draws) -> Self {
        use AnswerFraming::{Chunked, ChunkedWithTrailers, Close, Length};
        let mut script = Self {
            is_early: draws.below(4) == 0,
            interim: draws.one_of(&[0, 0, 0, 0, 1, 3]),
            status: draws.one_of(&[200, 200, 200, 201, 204, 206, 301, 304, 404, 413, 500, 503]),
            framing: draws.one_of(&[
                Length,
                Length,
                Length,
                Chunked,
                Chunked,
                ChunkedWithTrailers,
                Close,
            ]),
            bytes: draws.length(),
            says_close: draws.below(16) == 0,
            cut: (draws.below(6) == 0).then(|| draws.one_of(&[0, 0, 1]) * draws.below(1000)),
            surplus: Surplus::None,
            end: draws.one_of(&[
                End::Keep,
                End::Keep,
                End::Keep,
                End::Close,
                End::HalfClose,
                End::Reset,
            ]),
            idle: draws.one_of(&[0, 0, 1, 3, 10]),
        };
        if script.framing == Close {
            script.end = draws.one_of(&[End::Close, End::HalfClose, End::Reset]);
            script.idle = 0;
            // With FIN, an answer that is cut would look whole.
            if script.cut.is_some() {
                script.end = End::Reset;
            }
        } else if script.cut.is_none() && draws.below(4) == 0 {
            script.surplus =
                draws.one_of(&[Surplus::Byte, Surplus::Answer, Surplus::InterimAndAnswer]);
            // The last piece of the answer and the surplus must be sent in one write.
            script.bytes = script.bytes.min(1000);
            script.idle = draws.one_of(&[0, 1, 2, 2, 3, 3, 4, 6]);
        }
        if script.cut.is_some() && script.end == End::Keep {
            script.end = End::Close;
        }
        script
    }
}

impl Draws {
    /// Begins an independent sequence of numbers.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Draws the length of a body: mostly short, now and then longer than buffers are.
    fn length(&mut self) -> usize {
        let bound = self.one_of(&[1, 10, 10, 100, 100, 3000, 3000, 70_000]);
        let bound = if self.below(64) == 0 { 400_000 } else { bound };
        self.below(bound)
    }
}

/// Returns a body in which the nonce comes every few bytes.
pub fn content(direction: char, nonce: usize, bytes: usize) -> Vec<u8> {
    let unit = format!("{direction}{nonce};");
    let mut content = unit.repeat(bytes / unit.len() + 1).into_bytes();
    content.truncate(bytes);
    content
}

pub const UP: char = 'u';
pub const DOWN: char = 'd';
