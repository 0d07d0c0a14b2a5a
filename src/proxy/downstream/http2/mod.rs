//! HTTP/2 as clients speak it: many requests at a time over a transport.
//!
//! The `h2` crate reads and writes frames. [`connection`] accepts streams and says when the connection
//! ends; each [`stream`] is a task of its own, which answers one request within its own deadlines. So a
//! stream that stands still harms no other. [`state`] is what a connection and its streams know of
//! each other, [`body`] what a client sends after a head, [`piece`] what it is sent. [`resets`] says how
//! many streams it may reset.

mod body;
mod connection;
mod date;
mod heads;
mod piece;
mod resets;
mod state;
mod stream;
mod stream_errors;

/// Most fields of a head, all Cookie fields being one, and of trailers, as over HTTP/1.1. More fields than
/// that fit into fewer bytes than a listener may allow, and the next one that is added would not.
const FIELDS_MAX: usize = 100;

pub(super) use body::Http2Body;
pub(super) use connection::{Ending, serve};
pub(super) use state::{Http2State, StreamState};
