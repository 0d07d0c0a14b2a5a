//! Makes the calls for the set of directives that a fleet shares, and reads their replies.

use redis::Value;

use super::bad_reply::BadReply;
use super::names::KeyNames;
use super::script::Script;
use super::settle::Call;
use crate::clock::Timestamp;
use crate::store::directives::{DIRECTIVES_MAX, DirectiveSet, StoredDirective};

/// What is to be done with the set of directives.
#[derive(Clone, Copy, Debug)]
pub enum DirectiveAction<'d> {
    /// Read the set, unless its version is this one, which is known.
    Get(u64),
    /// Keep this directive, too.
    Put(&'d StoredDirective),
    /// Remove the directives that have these ids.
    Remove(&'d [String]),
    /// Replace the server's set with this one, if the server's version is older.
    Restore(&'d DirectiveSet),
}

/// Makes the call for an action.
pub fn directives(names: &KeyNames, action: DirectiveAction<'_>) -> Call {
    let mut arguments: Vec<Vec<u8>> = Vec::new();
    let add = |arguments: &mut Vec<Vec<u8>>, one: &StoredDirective| {
        arguments.push(one.id.clone().into_bytes());
        arguments.push(one.until.0.div_ceil(US_PER_MS).to_string().into_bytes());
        arguments.push(one.text.clone().into_bytes());
    };
    match action {
        DirectiveAction::Get(known) => {
            arguments.extend([b"get".to_vec(), known.to_string().into_bytes()]);
        }
        DirectiveAction::Put(one) => {
            arguments.push(b"put".to_vec());
            add(&mut arguments, one);
            arguments.push(DIRECTIVES_MAX.to_string().into_bytes());
        }
        DirectiveAction::Remove(ids) => {
            arguments.push(b"remove".to_vec());
            arguments.extend(ids.iter().map(|id| id.clone().into_bytes()));
        }
        DirectiveAction::Restore(held) => {
            arguments.extend([b"restore".to_vec(), held.version.to_string().into_bytes()]);
            for one in &held.entries {
                add(&mut arguments, one);
            }
        }
    }
    Call {
        script: Script::Directives,
        keys: vec![names.directives()],
        arguments,
    }
}

/// Reads the reply to [`DirectiveAction::Get`]; none if the version that was known is still the newest.
///
/// # Errors
/// If the reply is one that the script never gives.
pub fn directive_set(reply: &Value, known: u64) -> Result<Option<DirectiveSet>, BadReply> {
    let Value::Array(items) = reply else {
        return Err(BadReply);
    };
    let mut texts = items.iter().map(|item| match item {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).map_err(|_| BadReply),
        _ => Err(BadReply),
    });
    let number = |text: String| text.parse::<u64>().map_err(|_| BadReply);
    let version = number(texts.next().ok_or(BadReply)??)?;
    if version == known {
        return Ok(None);
    }
    let mut entries = Vec::with_capacity(items.len() / 3);
    while let Some(id) = texts.next() {
        let (ends_ms, text) = (texts.next().ok_or(BadReply)??, texts.next());
        let until = number(ends_ms)?.saturating_mul(US_PER_MS);
        entries.push(StoredDirective {
            id: id?,
            until: Timestamp(until),
            text: text.ok_or(BadReply)??,
        });
    }
    Ok(Some(DirectiveSet { version, entries }))
}

/// Reads the reply to the other actions: how many directives were removed, or 1 if they were kept and 0 if not.
///
/// # Errors
/// If the reply is one that the script never gives.
pub fn directive_count(reply: &Value) -> Result<usize, BadReply> {
    match reply {
        Value::Int(count) => usize::try_from(*count).map_err(|_| BadReply),
        _ => Err(BadReply),
    }
}

const US_PER_MS: u64 = 1000;
