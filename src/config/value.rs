//! Scalars of the file that parse themselves: quotas, durations, sizes.

use std::time::Duration;

use crate::clock::Micros;

/// `"500 per 2s"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaText {
    /// Units per window.
    pub limit: u64,
    /// The window.
    pub window: Micros,
    /// The window as the operator wrote it, short: `2s`, `10m`; the suffix of the policy's name in headers.
    pub window_text: String,
}

/// Parses a duration such as `50ms`, `30s`, `1h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let _ = text;
    unimplemented!()
}
