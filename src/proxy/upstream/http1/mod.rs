//! HTTP/1.1 towards an origin: one request and its response at a time on one connection.
//!
//! [`Http1Connection`] sends an [`Outgoing`](super::super::wire::outgoing::Outgoing) request and reads
//! the head of its response; [`Http1Receiving`] is the response's body as it comes. Nothing here knows
//! of pools, endpoints or policies, nor of what carries the bytes ([`Transport`]). A request that has
//! been sent whole when its response begins needs no task and no channel. An upload that is still under
//! way then gets a task, which ends with the response at the latest.
//!
//! # Rules
//!
//! Sections are those of RFC 9112, unless another document is named.
//!
//! Requests
//! - "A sender MUST NOT send a Content-Length header field in any message that contains a
//!   Transfer-Encoding header field" (6.2): there is one framing, derived from the body. What the client
//!   wrote about framing and connection is not copied ([`encoding`](super::super::wire::encoding)).
//! - No byte is written beyond the announced length: the origin would read it as the next request (8,
//!   RFC 9110 8.6). A body that ends short ends the connection. Nothing is pipelined (9.3.2).
//! - A GET, HEAD or DELETE with content is the last on its connection, because origins may leave such
//!   content unread (RFC 9110, 9.3.1).
//!
//! Responses
//! - The end of a body is found in this order (6.3): no body after HEAD, 1xx, 204, 304; `chunked` alone
//!   and once; a Content-Length of digits, once; the end of the connection. Both, two, or anything else
//!   is refused, although 6.3 lets a client repair some of that: recipients further downstream could
//!   still read the origin's fields in another way.
//! - A line ends in CRLF (2.2 allows LF alone), no white space comes before a colon (5.1), a coding
//!   comes in HTTP/1.1 only (6.1). "A proxy or gateway that receives an obs-fold in a response message
//!   [...] MUST either discard the message and replace it with a 502 (Bad Gateway) response, [...] or
//!   replace each received obs-fold" (5.2): it is discarded.
//! - Interim responses are counted, and passed on if the client is to be told of them; a 101 is refused
//!   unless its request asks for that protocol.
//! - "If the sender closes the connection or the recipient times out before the indicated number of
//!   octets are received, the recipient MUST consider the message to be incomplete" (6.3, 8). A body
//!   that lasts until the end of the connection is complete after a FIN, not after a reset.
//! - A response may come while its request is still being sent (9.3, 9.5). It is passed on, and the rest
//!   of the upload is sent until the response ends at the latest.
//! - A head that comes without its body is acknowledged at once, because the origin may keep the body
//!   back until then (RFC 9293, 3.7.4): once for each response, and not if the body need not be awaited.
//!
//! Connections
//! - A connection is used again only after a response that ended where it should, with nothing after it,
//!   to a request that was sent whole, in HTTP/1.1, if neither side said `close` (9.3, 9.6).
//! - Before that, it is checked once more with a real read: "If a client receives data on a connection
//!   that doesn't have outstanding requests, the client MUST NOT consider that data to be a valid
//!   response" (9.2).
//! - "When an inbound connection is closed prematurely, a client MAY open a new connection and
//!   automatically retransmit an aborted sequence of requests if all of those requests have idempotent
//!   methods" (9.3.1); "A proxy MUST NOT automatically retry non-idempotent requests" (RFC 9110, 9.2.2).
//!   [`Repeat`] says whether a request may be sent again: if nothing of it was written, or if it is
//!   idempotent, has no content, and got no byte of a response.

mod bad_body;
mod bad_head;
mod body;
mod chunked;
mod connection;
mod exchange;
mod exchange_error;
mod head;
mod known_lines;
mod receiving;
mod sending;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod scripted;

pub use self::bad_body::BadBody;
pub use self::bad_head::BadHead;
pub use self::body::BodyReader;
pub use self::connection::{Buffers, Http1Connection, Transport};
pub use self::exchange::Http1Error;
pub use self::exchange_error::{ExchangeError, Repeat};
pub use self::head::{HeadReader, ResponseHead};
pub(super) use self::head::{INTERIM_BYTES_MAX, INTERIM_MAX, parse_length, send_interim};
pub use self::known_lines::KnownLines;
pub use self::receiving::Http1Receiving;

/// Most fields of a head, and of trailers.
const FIELDS_MAX: usize = 100;
