//! CDN-Loop: counts how often a request has passed a gateway of this kind (RFC 8586).
//!
//! Each pass appends `tollgate`. A request may pass several gateways in a row, and a service may
//! send a request through the gateway that called it, so a few passes are normal. A request with
//! [`PASSES_MAX`] passes is in a loop. The gateway does not use Via for this, because origins
//! switch compression off when they see one.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The field's name.
pub static CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// A request that arrives with this many passes is refused with 508.
pub const PASSES_MAX: usize = 10;

/// Counts the passes that a request arrives with.
pub fn passes(headers: &HeaderMap) -> usize {
    let lines = headers.get_all(&CDN_LOOP).iter();
    let members = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    members.filter(|member| is_own(member)).count()
}

/// Whether a member names a gateway of this kind, whatever parameters follow.
fn is_own(member: &[u8]) -> bool {
    let id = member.split(|&byte| byte == b';').next();
    id.is_some_and(|id| id.trim_ascii().eq_ignore_ascii_case(NAME.as_bytes()))
}

const NAME: &str = "tollgate";

/// The member that each pass appends.
pub const PASS: HeaderValue = HeaderValue::from_static(NAME);
