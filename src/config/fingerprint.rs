//! What tells a configuration from another one, in few characters: a digest of what the files say.

use super::file::File;
use super::report::IncludedFile;

/// Returns the digest of a file's text, of those that it includes and of files of overrides: whoever loads the same
/// texts gets the same, on any machine. Values of variables and secrets from files are not in it.
pub(super) fn fingerprint(text: &str, included: &[IncludedFile], file: &File) -> Box<str> {
    let mut hasher = blake3::Hasher::new();
    for text in [text]
        .into_iter()
        .chain(included.iter().map(|one| &*one.text))
    {
        // With their lengths, so that it matters where one file ends.
        hasher.update(&text.len().to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let policies = file.policies.iter();
    for rows in policies.filter_map(|policy| policy.value.overrides_file.as_ref()) {
        hasher.update(&rows.digest);
    }
    hasher.finalize().to_hex()[..CHARACTERS].into()
}

/// Enough that no two files of an operator have the same.
const CHARACTERS: usize = 16;
