//! Copies of names and values that the configuration has.
//!
//! A clone shares the bytes and counts who does. If each request cloned what the configuration has, all workers would write
//! that count.

use http::{HeaderName, HeaderValue};

/// Copies a name. The default of `request_id` is static: nobody counts who shares that.
pub fn copied_name(name: &HeaderName) -> HeaderName {
    if *name == X_REQUEST_ID {
        return X_REQUEST_ID;
    }
    HeaderName::from_bytes(name.as_str().as_bytes()).expect("it is a name")
}

/// Copies a value.
pub fn copied_value(value: &HeaderValue) -> HeaderValue {
    let mut copy = HeaderValue::from_bytes(value.as_bytes()).expect("it is a value");
    copy.set_sensitive(value.is_sensitive());
    copy
}

/// The field in which requests have their id unless the file says otherwise.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
