//! What a server is asked about itself before it is used.

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::error::DialError;
use crate::store::redis::one_line::one_line;

/// What kind of server is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any that answers.
    Any,
    /// One that calls itself a primary.
    Primary,
}

/// Checks what the server is. Returns its eviction policy, if it says which.
pub(super) async fn prepare(
    connection: &mut MultiplexedConnection,
    wanted: Wanted,
) -> Result<Option<String>, DialError> {
    let mut pipeline = redis::Pipeline::new();
    pipeline.cmd("INFO").arg("memory");
    if wanted == Wanted::Primary {
        pipeline.cmd("ROLE");
    }
    let asked = pipeline.len();
    let replies = connection.send_packed_commands(&pipeline, 0, asked).await?;
    let eviction = replies.first().and_then(eviction);
    match replies.get(1) {
        None => Ok(eviction),
        Some(Value::Array(role)) if role.first().is_some_and(is_primary) => Ok(eviction),
        Some(Value::ServerError(error)) => Err(DialError::from_server(error)),
        Some(_) => Err(DialError::NotPrimary),
    }
}

/// Reads the eviction policy from `INFO`.
fn eviction(info: &Value) -> Option<String> {
    let text = match info {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?,
        Value::VerbatimString { text, .. } => text,
        _ => return None,
    };
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix("maxmemory_policy:"))
        .map(one_line)
}

fn is_primary(role: &Value) -> bool {
    matches!(role, Value::BulkString(role) if role == b"master")
}
