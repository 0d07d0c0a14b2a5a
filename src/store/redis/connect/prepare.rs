//! What a server is told and asked before it is used.

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::error::DialError;
use crate::store::redis::wire::Script;

/// What a server is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Whatever answers.
    Any,
    /// A primary, by its own word.
    Primary,
}

/// Loads the scripts, and asks the server what it is; returns how it evicts keys, if it may.
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
            _ => return Err(DialError::Server("a script has another SHA".into())),
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

/// Reads from `INFO` how keys are evicted; a server that does not tell is taken to evict none.
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
