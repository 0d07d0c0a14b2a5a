//! Values of fields that hardly any other message repeats.

use http::HeaderValue;

/// Marks a value as one that no table of HTTP/2 is to keep (RFC 7541, section 6.2.3). The encoder would find none of them
/// again, and compare each new one with all that it has kept of the field.
pub fn unindexed(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}
