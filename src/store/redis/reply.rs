//! Reads the parts of a reply.

use redis::Value;

use super::call_error::CallError;
use super::wire::Replies;

/// Returns the value of a name in a map (RESP3) or in a list of names and values (RESP2), unless it is
/// empty.
pub(super) fn named<'v>(names: &'v Value, name: &str) -> Option<&'v str> {
    entry(names, name).filter(|value| !value.is_empty())
}

/// Returns the value of a name, which may be empty.
pub(super) fn entry<'v>(names: &'v Value, name: &str) -> Option<&'v str> {
    let value = match names {
        Value::Map(pairs) => pairs
            .iter()
            .find(|(key, _)| text(key) == Some(name))
            .map(|(_, value)| value),
        _ => (list(names)?.chunks_exact(2))
            .find(|pair| text(&pair[0]) == Some(name))
            .map(|pair| &pair[1]),
    };
    text(value?)
}

/// Returns the items of a list.
pub(super) fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// Returns a text, however it was sent.
pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

/// Begins to read a reply of the decide script.
pub(super) fn replies(value: Value) -> Result<Replies, CallError> {
    match value {
        Value::BulkString(bytes) => Replies::read(bytes).map_err(|_| CallError::BadReply),
        _ => Err(CallError::BadReply),
    }
}
