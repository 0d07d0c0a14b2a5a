//! A connection to an origin, for one request.

use super::http1;
use super::http2;
use super::stream::Stream;

/// A connection for one request.
pub(super) enum UpstreamConnection {
    /// A connection for this request alone.
    Http1(http1::Http1Connection<Stream>),
    /// A place on a shared connection.
    Http2(http2::Slot),
}
