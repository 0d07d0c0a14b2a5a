//! Finds where the body of a response ends (RFC 9112, section 6.3).

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::bad_body::BadBody;
use super::chunked::Chunked;
use crate::proxy::wire::body::BodyFraming;

/// Reads the body of a response, in whatever pieces it comes.
#[derive(Debug)]
pub struct BodyReader(Rest);

/// What is still to come.
#[derive(Debug)]
enum Rest {
    Nothing,
    Length(u64),
    Chunked(Box<Chunked>),
    UntilClose,
}

impl BodyReader {
    /// Begins a body with this framing, whose trailers have at most `trailer_bytes_max`.
    pub fn new(framing: BodyFraming, trailer_bytes_max: usize) -> Self {
        Self(match framing {
            BodyFraming::None | BodyFraming::Length(0) => Rest::Nothing,
            BodyFraming::Length(bytes) => Rest::Length(bytes),
            BodyFraming::Chunked => Rest::Chunked(Box::new(Chunked::new(trailer_bytes_max))),
            BodyFraming::UntilClose => Rest::UntilClose,
        })
    }

    /// Whether the body has ended.
    pub fn is_end(&self) -> bool {
        matches!(self.0, Rest::Nothing)
    }

    /// Whether something other than the connection's end ends the body.
    pub fn has_known_end(&self) -> bool {
        !matches!(self.0, Rest::UntilClose)
    }

    /// Returns how much is still to come.
    pub fn size_hint(&self) -> SizeHint {
        match self.0 {
            Rest::Nothing => SizeHint::with_exact(0),
            Rest::Length(left) => SizeHint::with_exact(left),
            Rest::Chunked(_) | Rest::UntilClose => SizeHint::default(),
        }
    }

    /// Takes the next data or the trailers from `bytes`; none if more must come first, or if the body
    /// has ended. Bytes that are left after the end do not belong to the response.
    pub fn read(&mut self, bytes: &mut Bytes) -> Result<Option<Frame<Bytes>>, BadBody> {
        match &mut self.0 {
            _ if bytes.is_empty() => Ok(None),
            Rest::Nothing => Ok(None),
            Rest::UntilClose => Ok(Some(Frame::data(std::mem::take(bytes)))),
            Rest::Length(left) => {
                let taken =
                    usize::try_from(*left).map_or(bytes.len(), |value| value.min(bytes.len()));
                *left -= taken as u64;
                if *left == 0 {
                    self.0 = Rest::Nothing;
                }
                Ok(Some(Frame::data(bytes.split_to(taken))))
            }
            Rest::Chunked(chunked) => {
                let frame = chunked.read(bytes)?;
                if chunked.is_end() {
                    self.0 = Rest::Nothing;
                }
                Ok(frame)
            }
        }
    }

    /// Notes that the origin has closed its side, by a FIN and not a reset.
    pub fn close(&mut self) -> Result<(), BadBody> {
        match self.0 {
            Rest::Nothing => Ok(()),
            Rest::UntilClose => {
                self.0 = Rest::Nothing;
                Ok(())
            }
            Rest::Length(_) | Rest::Chunked(_) => Err(BadBody::Incomplete),
        }
    }
}
