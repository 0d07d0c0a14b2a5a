//! Copies of header names and values from the configuration.
//!
//! A clone shares the bytes and increments their reference count. If every request cloned the configuration's, all
//! workers would contend for that count.

use http::{HeaderName, HeaderValue};

/// Copies a name. The default of `request_id` is static, so it has no reference count and needs no copy.
pub fn copied_name(name: &HeaderName) -> HeaderName {
    if *name == X_REQUEST_ID {
        return X_REQUEST_ID;
    }
    HeaderName::from_bytes(name.as_str().as_bytes()).expect("it is a name")
}

/// Copies a value, which stays sensitive if it was.
pub fn copied_value(value: &HeaderValue) -> HeaderValue {
    let mut copy = HeaderValue::from_bytes(value.as_bytes()).expect("it is a value");
    copy.set_sensitive(value.is_sensitive());
    copy
}

/// The field that carries a request's id unless the file names another.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
