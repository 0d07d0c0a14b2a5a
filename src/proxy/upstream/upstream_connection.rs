//! A connection to an origin, for one request.

use super::http1;
use super::http2;
use super::stream::Stream;

/// A connection for one request.
pub(super) enum UpstreamConnection {
    /// It is this request's alone.
    Http1(http1::Http1Connection<Stream>),
    /// It is shared.
    Http2(http2::Slot),
}
