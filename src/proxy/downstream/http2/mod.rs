//! HTTP/2 as clients speak it: many requests at a time over a transport.
//!
//! The `h2` crate reads and writes frames. [`connection`] accepts streams and says when the connection ends; each
//! [`stream`] is a task of its own, which answers one request within its own deadlines, so a stream that stalls harms
//! no other. [`state`] is what a connection and its streams know of each other, [`body`] is what a client sends after a
//! head, and [`piece`] is what it is sent. [`resets`] says how many streams a client may reset.

mod body;
mod connection;
mod date;
mod heads;
mod piece;
mod resets;
mod state;
mod stream;
mod stream_errors;

/// Most fields of a head, all Cookie fields counting as one, and of trailers, as over HTTP/1.1. The bytes that a
/// listener may allow would hold enough short fields to fill a `HeaderMap`, and adding one more to that would panic.
const FIELDS_MAX: usize = 100;

pub(super) use body::Http2Body;
pub(super) use connection::{Ending, serve};
pub(super) use state::{Http2State, StreamState};
