//! Values that differ in almost every message.

use http::HeaderValue;

/// Marks a value as never indexed (RFC 7541, section 6.2.3). An encoder of HTTP/2 would keep it in its table, never find
/// it again, and compare each new value with all that it has kept of the same field.
pub fn unindexed(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}
