//! What the upstream is told of the limits that a request met: `Tollgate-Tier`, the overrides that matched,
//! and `Tollgate-Over`, the policies whose quotas were used up and that admitted it all the same.
//!
//! What a client sends under these names never gets this far
//! ([`strip_request`](crate::request::hop_by_hop::strip_request)).

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::limiter::Decided;
use crate::metrics::PolicyOutcome;
use crate::snapshot::Snapshot;

/// Sets both fields, if there is something to tell. `buffer` is scratch space.
pub(super) fn set(
    headers: &mut HeaderMap,
    snapshot: &Snapshot,
    decided: &Decided,
    buffer: &mut Vec<u8>,
) {
    // Both are printable ASCII, as names of policies and shown patterns are.
    if !decided.tiers.is_empty()
        && let Ok(tiers) = HeaderValue::from_str(&decided.tiers)
    {
        headers.insert(TOLLGATE_TIER, tiers);
    }
    if decided.first_with(PolicyOutcome::Marked).is_none() {
        return;
    }
    buffer.clear();
    for one in &decided.policies {
        if one.outcome == PolicyOutcome::Marked {
            let separator = if buffer.is_empty() { "" } else { ", " };
            buffer.extend_from_slice(separator.as_bytes());
            buffer.extend_from_slice(snapshot.policies[one.policy].name.as_bytes());
        }
    }
    if let Ok(over) = HeaderValue::from_bytes(buffer) {
        headers.insert(TOLLGATE_OVER, over);
    }
}

const TOLLGATE_TIER: HeaderName = HeaderName::from_static("tollgate-tier");
const TOLLGATE_OVER: HeaderName = HeaderName::from_static("tollgate-over");
