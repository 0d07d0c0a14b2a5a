//! HTTP/2 towards an origin: many requests side by side on one connection.
//!
//! [`Http2Connection`] is a connection that requests share; each takes a [`Slot`] on it, which sends an
//! [`Outgoing`](super::super::wire::outgoing::Outgoing) request and waits for the head of its response.
//! [`Http2Receiving`] is the response's body as it comes. The `h2` crate speaks the protocol; this
//! module decides what `h2` leaves open. Nothing here knows of pools, endpoints or policies.
//!
//! # Rules
//!
//! Sections are those of RFC 9113, unless another document is named.
//!
//! Connections
//! - No request is sent before the origin's SETTINGS have come: they show that it speaks HTTP/2 (3.4),
//!   and how many streams it allows (5.1.2). A connection has at most [`STREAMS_MAX`] of them.
//! - After a GOAWAY there are no new streams; those that it allows to finish go on (6.8). A GOAWAY, or
//!   REFUSED_STREAM, tells which requests the origin has not processed: "requests that have not been
//!   processed have not failed; clients MAY automatically retry them" (8.7). They are retried if none of
//!   their body has been taken.
//! - If nothing comes for [`PING_AFTER`] on a connection with streams, a PING is sent (6.7); if nothing
//!   comes for [`PING_TIMEOUT`] after that, the connection is given up. PINGs are rare ([`PING_AGAIN`]),
//!   because gRPC servers close connections on which they get many.
//!
//! Requests
//! - `:authority` takes the place of Host (8.3.1), and `:scheme` is the endpoint's. No connection-specific field is
//!   sent, and TE only if it is `trailers` (8.2.2). Trailers pass without being announced.
//! - Content-Length is sent if the body's length is known. A body that differs from it resets its stream.
//! - A stream is reset if its request or response is abandoned before its end, and the connection goes on. After
//!   [`RESETS_MAX`] resets the connection takes no new streams and ends with those that it has: servers end
//!   connections on which many streams are reset (10.5), and all requests with them. It also takes no new streams
//!   after a request timed out while the flow-control window had no room for its body.
//!
//! Responses
//! - Connection-specific fields, pseudo-fields in the wrong place, and a body that differs from its
//!   announced length are malformed (8.1.1, 8.2.2): `h2` refuses them. What HTTP/1.1 refuses and `h2`
//!   lets pass is refused here: two lengths, too many fields, a 101, content where none is allowed.
//! - Interim responses are counted, and passed on if the client is to be told of them.
//! - A fault in one response (a malformed or too large head, frames after its end) ends its stream, and
//!   no other. If a head cannot even be decoded, later heads cannot be decoded either, so the connection
//!   is retired; only the request to which that head belongs blames the endpoint. Any other end of a
//!   connection is one failure of the endpoint, not one for each request on it.
//! - A response may come while its request is still being sent. When the response has ended, the rest of
//!   the request is not sent (8.1).
//!
//! Windows
//! - The origin may send as fast as the client reads: a stream that is not read holds at most
//!   [`STREAM_WINDOW`], and takes no window from other streams. It does not matter in how small pieces
//!   the data comes, because `h2` joins what waits.

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

/// Most requests at once on one connection; further ones get another connection.
pub const STREAMS_MAX: u32 = 100;

/// How many streams of a connection are reset before it takes no more. Those that are left may be reset
/// too, but that makes fewer than 200 in all: some servers take more for an attack, within half a minute
/// or over the life of a connection.
const RESETS_MAX: u32 = 100;

/// Most bytes of one response that wait for its client.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Most bytes that wait for all clients of a connection: no stream can use up what others need.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS_MAX;

/// Most bytes of an upload that wait to be written.
const SEND_BUFFER_BYTES_MAX: usize = 128 * 1024;

/// Most fields of a head, and of trailers, as over HTTP/1.1.
const FIELDS_MAX: usize = 100;

/// How long nothing may come on a connection with streams before a PING is sent.
const PING_AFTER: Duration = Duration::from_secs(20);

/// Least time between an answered PING and the next one. gRPC servers allow a PING every five minutes
/// while they send no responses.
const PING_AGAIN: Duration = Duration::from_secs(310);

/// How long nothing may come after a PING before the connection is given up.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection that is no longer needed may take to send its GOAWAY and close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
