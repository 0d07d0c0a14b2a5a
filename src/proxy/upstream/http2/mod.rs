//! HTTP/2 towards an origin: many requests side by side on one connection.
//!
//! [`Http2Connection`] is one that requests share; each takes a [`Slot`] on it, which sends an
//! [`Outgoing`](super::super::wire::outgoing::Outgoing) request and waits for the head of its response. [`Http2Receiving`]
//! is the response's body as it comes. The `h2` crate speaks the protocol; here is what it leaves open.
//! Nothing here knows of pools, endpoints or policies.
//!
//! # Rules
//!
//! Sections are those of RFC 9113, unless another document is named.
//!
//! Connections
//! - The origin's SETTINGS come before the first request: so it has shown that it speaks HTTP/2 (3.4),
//!   and how many streams it takes (5.1.2). It has at most [`STREAMS_MAX`] of them.
//! - After a GOAWAY there are no new streams; those that it leaves go on (6.8). A request "that the
//!   sender [...] might not have processed" is known by it, or by REFUSED_STREAM: "requests that have not
//!   been processed have not failed; clients MAY automatically retry them" (8.7), so they are if their
//!   body has not been begun.
//! - A connection with streams on which nothing comes for [`PING_AFTER`] is asked by a PING (6.7), and is
//!   lost if nothing comes for [`PING_TIMEOUT`] either. It is asked rarely ([`PING_AGAIN`]), because
//!   servers of gRPC close connections on which they are asked often.
//!
//! Requests
//! - `:authority` takes the place of Host (8.3.1), and `:scheme` is the endpoint's. No field of the
//!   connection is sent; TE says `trailers` or nothing (8.2.2). Trailers pass without being announced.
//! - The body's length is said if it is known. A body that differs from it resets its stream.
//! - A stream whose request or response is not awaited to its end is reset, and its connection goes on.
//!   After [`RESETS_MAX`] of them it takes no new ones and ends with those that it has: servers end
//!   connections on which many streams are reset (10.5), and all requests with them. Neither does it once
//!   a request was too late because there was no room for its body.
//!
//! Responses
//! - Fields of the connection, pseudo-fields in the wrong place, and a body that differs from its
//!   announced length are malformed (8.1.1, 8.2.2): `h2` refuses them. What HTTP/1.1 refuses and `h2`
//!   lets pass is refused too: two lengths, too many fields, a 101, content where none is allowed.
//! - Interim responses are dropped and counted.
//! - What is wrong with a response (a malformed or too large head, frames behind its end) ends its stream,
//!   and no other. If a head cannot even be decoded, what others say cannot either: its connection is
//!   retired, and nobody is blamed for that but whose head it was. What ends a connection in another way is
//!   one failure of the endpoint, not one for each request on it.
//! - A response may come while its request is still being sent. When it has ended, the rest of the
//!   request is not sent (8.1).
//!
//! Windows
//! - What comes is let through as fast as the client takes it: a stream that is not read holds
//!   [`STREAM_WINDOW`] at most, and takes none of it from other streams. In however small pieces it came:
//!   `h2` joins what waits.

mod connection;
mod error;
mod exchange;
mod life;
mod receiving;
mod request;
mod sending;

pub use self::connection::{Http2Connection, NoHttp2, Slot};
pub use self::error::StreamError;
pub use self::exchange::Http2Error;
pub use self::receiving::Http2Receiving;

use std::time::Duration;

/// Most requests at once on one connection; another one carries more.
pub const STREAMS_MAX: u32 = 100;

/// How many streams of a connection are reset before it takes no more. Those that are left may be reset too:
/// fewer than 200 in all, because there are servers that take more for an attack, some within half a
/// minute, others over the life of a connection.
const RESETS_MAX: u32 = 100;

/// Most bytes of one response that wait for its client.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Most bytes that wait for all clients of a connection: no stream can use up what others need.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS_MAX;

/// Most bytes of an upload that wait to be written.
const SEND_BUFFER_BYTES_MAX: usize = 128 * 1024;

/// Most fields of a head, and of trailers, as over HTTP/1.1.
const FIELDS_MAX: usize = 100;

/// How long nothing may come on a connection with streams before it is asked by a PING.
const PING_AFTER: Duration = Duration::from_secs(20);

/// How long a connection that has answered is not asked again. Servers of gRPC allow a PING each five
/// minutes while they send no answers.
const PING_AGAIN: Duration = Duration::from_secs(310);

/// How long nothing may come after a PING.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection that is no longer needed may take to say so.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
