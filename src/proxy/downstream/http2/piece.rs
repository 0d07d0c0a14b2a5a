//! A piece of an answer on its way through `h2`.
//!
//! `h2` takes as much as the client has room for, and the client may take that room back before it is written (RFC
//! 9113, section 6.9.2). `h2` does not report that. So each piece tells its stream how much of it has been written.

use std::io::IoSlice;
use std::rc::Rc;

use bytes::{Buf, Bytes};

use super::state::StreamState;

/// A piece of an answer. It is dropped while `h2` is locked, so it must hold nothing of `h2`.
#[derive(Debug)]
pub(super) struct BodyPiece {
    bytes: Bytes,
    stream: Rc<StreamState>,
}

impl BodyPiece {
    /// Wraps bytes that `h2` is to write.
    pub(super) fn new(bytes: Bytes, stream: &Rc<StreamState>) -> Self {
        stream.queued(bytes.len());
        Self {
            bytes,
            stream: Rc::clone(stream),
        }
    }
}

impl Buf for BodyPiece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.stream.written(count);
    }
}

impl Drop for BodyPiece {
    fn drop(&mut self) {
        // Bytes that are dropped with their stream need not be waited for.
        self.stream.left(self.bytes.len());
    }
}
