//! What is sent to a server before it is used: the scripts, and questions about it.

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::error::DialError;
use crate::store::redis::wire::Script;

/// What kind of server is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any that answers.
    Any,
    /// One that calls itself a primary.
    Primary,
}

/// Loads the scripts, and checks what the server is. Returns its eviction policy if it may evict keys.
pub(super) async fn prepare(
    connection: &mut MultiplexedConnection,
    wanted: Wanted,
) -> Result<Option<String>, DialError> {
    let mut pipeline = redis::Pipeline::new();
    for script in Script::ALL {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.source());
    }
    pipeline.cmd("INFO").arg("memory");
    if wanted == Wanted::Primary {
        pipeline.cmd("ROLE");
    }
    let asked = pipeline.len();
    let mut replies = connection
        .send_packed_commands(&pipeline, 0, asked)
        .await?
        .into_iter();
    for script in Script::ALL {
        match replies.next() {
            Some(Value::BulkString(sha)) if sha == script.sha().as_bytes() => {}
            Some(Value::ServerError(error)) => return Err(DialError::from_server(&error)),
            _ => {
                return Err(DialError::Server(
                    "a script has another SHA-1 there than here".into(),
                ));
            }
        }
    }
    let eviction = replies.next().as_ref().and_then(eviction);
    match replies.next() {
        None => Ok(eviction),
        Some(Value::Array(role)) if role.first().is_some_and(is_primary) => Ok(eviction),
        Some(Value::ServerError(error)) => Err(DialError::from_server(&error)),
        Some(_) => Err(DialError::NotPrimary),
    }
}

/// Reads the eviction policy from `INFO`; a server that does not say is taken to evict no keys.
fn eviction(info: &Value) -> Option<String> {
    let text = match info {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?,
        Value::VerbatimString { text, .. } => text,
        _ => return None,
    };
    let policy = text
        .lines()
        .find_map(|line| line.strip_prefix("maxmemory_policy:"))?;
    (policy != "noeviction").then(|| policy.to_owned())
}

fn is_primary(role: &Value) -> bool {
    matches!(role, Value::BulkString(role) if role == b"master")
}
