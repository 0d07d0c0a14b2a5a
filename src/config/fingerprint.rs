//! A short fingerprint that tells configurations apart: a digest of the text of their files.

use super::file::File;
use super::report::IncludedFile;

/// Returns the digest of a file's text, of the files that it includes and of its files of overrides: the same texts
/// have the same digest on any machine. Values of variables and secrets from files are not part of it.
pub(super) fn fingerprint(text: &str, included: &[IncludedFile], file: &File) -> Box<str> {
    let mut hasher = blake3::Hasher::new();
    for text in [text]
        .into_iter()
        .chain(included.iter().map(|one| &*one.text))
    {
        // The length is hashed too, so that it matters where one file ends.
        hasher.update(&text.len().to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let policies = file.policies.iter();
    for rows in policies.filter_map(|policy| policy.value.overrides_file.as_ref()) {
        hasher.update(&rows.digest);
    }
    hasher.finalize().to_hex()[..CHARACTERS].into()
}

/// Hexadecimal digits of a fingerprint: 64 bits, enough that no two configurations of an operator have the same.
const CHARACTERS: usize = 16;
