//! The body of a message: where it ends, and what it is made of.

use std::error::Error;

use bytes::Bytes;
use http_body::Body;

/// The body of a request, as it can be sent to an origin.
pub trait UploadBody: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + 'static {}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + 'static> UploadBody for B {}

/// An error of a request's body, of whatever type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// How a reader finds the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// It has this many bytes.
    Length(u64),
    /// It comes in chunks, the last of which is empty.
    Chunked,
    /// It ends with its connection; only a response can.
    UntilClose,
}

/// A body that is longer or shorter than it announced.
#[derive(Debug, thiserror::Error)]
#[error("the request's body differs from its announced length")]
pub struct WrongLength;

impl BodyFraming {
    /// Whether there may be any byte of a body.
    pub fn has_content(self) -> bool {
        !matches!(self, Self::None | Self::Length(0))
    }

    /// Counts a piece of the body, so that an announced length is then that of the rest.
    ///
    /// # Errors
    /// If the piece is longer than the rest: none of it may be sent.
    pub fn take(&mut self, bytes: usize) -> Result<(), WrongLength> {
        if let Self::Length(left) = self {
            *left = left.checked_sub(bytes as u64).ok_or(WrongLength)?;
        }
        Ok(())
    }

    /// Notes the end of the body.
    ///
    /// # Errors
    /// If more was announced: the message can never be complete.
    pub fn end(self) -> Result<(), WrongLength> {
        match self {
            Self::Length(1..) => Err(WrongLength),
            _ => Ok(()),
        }
    }
}
