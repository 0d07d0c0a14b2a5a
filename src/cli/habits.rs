//! Words and options of other programs, and what to write instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Says what to write instead of a word or an option that is unknown here, if its meaning can be guessed.
pub(super) fn instead_of(error: &clap::Error) -> Option<String> {
    let place = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(written)) = error.get(place) else {
        return None;
    };
    let word = written.trim_start_matches('-');
    let known = HABITS.iter().find(|(words, _)| words.contains(&word));
    if let Some((_, instead)) = known {
        return Some(format!("`{written}` is unknown: {instead}"));
    }
    let is_file = word == written && word.contains(['.', '/']);
    is_file.then(|| {
        format!("`{word}` is no command: `tollgate --config {word}` runs this file, `tollgate check {word}` checks it")
    })
}

/// Words of nginx, HAProxy, Caddy, Envoy and Kong, without dashes, and what to write here.
const HABITS: [(&[&str], &str); 6] = [
    (
        &["s"],
        "`tollgate reload` has the gateway reload its file; to let requests finish and stop, send it SIGTERM",
    ),
    (
        &["t", "test", "configtest", "validate"],
        "`tollgate check FILE` checks a file",
    ),
    (
        &["f", "config-path"],
        "`tollgate --config FILE` runs a file",
    ),
    (&["start", "serve"], "`tollgate run` runs the gateway"),
    (
        &["stop", "quit"],
        "send SIGTERM to the gateway to let requests finish, or SIGINT to stop it at once",
    ),
    (&["v"], "`tollgate version` prints the version"),
];
