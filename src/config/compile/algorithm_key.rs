//! Keys that go with one algorithm only.

use std::ops::Range;

use crate::config::display;
use crate::config::file::AlgorithmName;
use crate::config::report::Report;

/// Refuses a key of `owner` with another algorithm.
pub(super) fn check_key(
    (key, place): (&str, &Range<usize>),
    owner: AlgorithmName,
    algorithm: AlgorithmName,
    report: &mut Report,
) {
    if algorithm == owner {
        return;
    }
    let [text, owner] = [algorithm, owner].map(|name| display::word(display::ALGORITHMS, &name));
    let message = format!("`{key}` does not go with `{text}`");
    let expected = format!("a key for `{owner}` only");
    (report.mistake(place, message, expected))
        .hint(format!("remove it, or set `algorithm = \"{owner}\"`"));
}
