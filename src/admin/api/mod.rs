//! The API's answers, each in JSON.

pub(super) mod keys;
pub(super) mod reload;

use crate::access_log::rfc3339;
use crate::clock::Timestamp;

/// Writes a point in wall time.
fn time(at: Timestamp) -> String {
    String::from_utf8_lossy(&rfc3339(at)).into_owned()
}
