//! When a plan was decided, as far as this node knows.

use crate::clock::Timestamp;

/// When a plan was sent and when its answer arrived: it was decided in between.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::guarded) struct Interval {
    pub(in crate::store::guarded) sent: Timestamp,
    pub(in crate::store::guarded) received: Timestamp,
}
