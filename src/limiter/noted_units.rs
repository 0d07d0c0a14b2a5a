//! What operators are shown of a request's units, until its cost is final.

use crate::limit::PartitionId;

/// Units that were noted for a client when its request was decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotedUnits {
    /// Which of the policies of a request charged them.
    pub(super) of: usize,
    pub(super) client: PartitionId,
    pub(super) units: u64,
}
