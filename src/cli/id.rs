//! `tollgate id`: what logs call a client, so that its lines can be found.

use std::path::Path;
use std::process::ExitCode;

use super::{EXIT_CONFIG, file, write_out};
use crate::config::value::{Chooser, did_you_mean};
use crate::config::{Loaded, MissingValues};
use crate::proxy::process::secret_key;
use crate::request::NamedClient;

/// Reads the file at `path`, and prints what logs call the client that `value` names under `policy`. Exits
/// with 0, with 78 if the file has mistakes or no `key_secret`, or with 1 if there is no such policy or client.
pub fn id(path: &Path, policy: &str, value: &str) -> ExitCode {
    let loaded = match file::load(path, MissingValues::AreMistakes) {
        Ok(loaded) => loaded,
        Err(status) => return status,
    };
    match names(&loaded, policy, value) {
        Ok(lines) => {
            write_out(&lines);
            ExitCode::SUCCESS
        }
        Err(unnamed) => {
            eprintln!("tollgate: {unnamed}");
            match unnamed {
                Unnamed::NoSecret => ExitCode::from(EXIT_CONFIG),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Why the names of a client in logs cannot be told.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unnamed {
    /// The file sets no `key_secret`.
    #[error(
        "`[store] key_secret` is not set, so the digests in a log have a key that is random at each start; \
         set it, and what is logged from then on can be compared"
    )]
    NoSecret,
    /// The file has no such policy.
    #[error("there is no policy `{0}`{1}")]
    NoPolicy(String, String),
    /// The value does not fit the policy's partition.
    #[error("the value {0}")]
    Value(String),
}

/// Returns what logs call a client: one line, or several if listeners cut addresses at different prefixes.
///
/// # Errors
/// Why the names cannot be told.
pub fn names(loaded: &Loaded, policy: &str, value: &str) -> Result<String, Unnamed> {
    let snapshot = &loaded.snapshot;
    let Some(found) = (snapshot.policies.iter()).find(|one| *one.name == *policy) else {
        let known = snapshot.policies.iter().map(|one| &*one.name);
        let hint = did_you_mean(policy, known).map(|hint| format!("; {hint}"));
        return Err(Unnamed::NoPolicy(
            policy.to_owned(),
            hint.unwrap_or_default(),
        ));
    };
    let chooser = Chooser {
        by: &found.partition,
        are_tiers: false,
    };
    let pattern = match &*found.partition.0 {
        [] => Vec::new(),
        _ => chooser
            .pattern(value)
            .map_err(|error| Unnamed::Value(error.in_a_line()))?,
    };
    let key = secret_key(&snapshot.store).ok_or(Unnamed::NoSecret)?;
    let mut names: Vec<String> = Vec::new();
    for listener in &snapshot.listeners {
        let prefixes = listener.identity.prefixes;
        let client = NamedClient::of(&found.partition, &pattern, prefixes)
            .ok_or_else(|| Unnamed::Value("names several clients, expected one".to_owned()))?;
        let name = client.redacted(&key, snapshot.log.clients).to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names.iter().flat_map(|name| [&**name, "\n"]).collect())
}
