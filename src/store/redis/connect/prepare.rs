//! Asks a server about itself before it is used.

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

/// What a server says about how it keeps keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyKeeping {
    /// The server's eviction policy, if it reports that.
    pub(crate) eviction: Option<String>,
    /// Whether the server writes an append-only file, if it reports that.
    pub(crate) appends: Option<bool>,
}

impl KeyKeeping {
    /// Says whether even keys that never expire may be evicted.
    pub(crate) fn evicts_all(&self) -> bool {
        self.eviction
            .as_ref()
            .is_some_and(|policy| policy.starts_with("allkeys"))
    }
}

/// Checks that the server is of the kind that is wanted. Returns how it keeps keys.
pub(super) async fn prepare(
    connection: &mut MultiplexedConnection,
    wanted: Wanted,
) -> Result<KeyKeeping, DialError> {
    let mut pipeline = redis::Pipeline::new();
    pipeline.cmd("INFO").arg("memory").arg("persistence");
    if wanted == Wanted::Primary {
        pipeline.cmd("ROLE");
    }
    let asked = pipeline.len();
    let replies = connection.send_packed_commands(&pipeline, 0, asked).await?;
    let keeping = replies.first().and_then(keeping).unwrap_or_default();
    match replies.get(1) {
        None => Ok(keeping),
        Some(Value::Array(role)) if role.first().is_some_and(is_primary) => Ok(keeping),
        Some(Value::ServerError(error)) => Err(DialError::from_server(error)),
        Some(_) => Err(DialError::NotPrimary),
    }
}

/// Reads how keys are kept from `INFO`.
fn keeping(info: &Value) -> Option<KeyKeeping> {
    let text = match info {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?,
        Value::VerbatimString { text, .. } => text,
        _ => return None,
    };
    let said = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    Some(KeyKeeping {
        eviction: said("maxmemory_policy:").map(one_line),
        appends: said("aof_enabled:").map(|number| number != "0"),
    })
}

fn is_primary(role: &Value) -> bool {
    matches!(role, Value::BulkString(role) if role == b"master")
}
