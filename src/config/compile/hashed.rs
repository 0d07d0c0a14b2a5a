//! The parts of requests by which upstreams choose an endpoint.

use crate::config::file::{RawUpstream, Table};
use crate::request::{Part, Partition};

/// Yields the parts of requests that an upstream hashes.
pub(super) fn hashed(table: &Table<RawUpstream>) -> impl Iterator<Item = &Part> {
    table.value.hash.iter().flat_map(Partition::parts)
}
