//! Fields that are taken out of every request before routes and policies read it.

use http::header::{HeaderName, TE};

use crate::request::hop_by_hop::is_taken_out;

/// Whether no request has a field of this name when it is read. TE may stay, with `trailers`.
pub(super) fn never_arrives(name: &HeaderName) -> bool {
    is_taken_out(name) && *name != TE
}
