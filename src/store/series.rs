//! Which states belong together: a quota's series, and the shape of its states.

use std::sync::Arc;

use crate::clock::Micros;
use crate::limit::{Algorithm, LeavingBucket};

/// Which quota's states: what keeps its counters across a reload, and what starts afresh.
///
/// The quota's number is not part of it: a changed number keeps its counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Series {
    /// The policy's name.
    pub policy: Arc<str>,
    /// The algorithm and its shape; a burst or a queue is no part of the shape.
    pub shape: Shape,
    /// The window.
    pub window: Micros,
}

/// What of an algorithm its stored state depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// One counter.
    FixedWindow,
    /// A counter per bucket.
    SlidingWindow {
        /// Buckets per window.
        buckets: u32,
        /// How much of the leaving bucket still counts.
        leaving: LeavingBucket,
    },
    /// One entry per cost.
    SlidingLog,
    /// One time.
    Gcra,
    /// One time, of a queue.
    LeakyBucket,
}

impl From<Algorithm> for Shape {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::FixedWindow => Self::FixedWindow,
            Algorithm::SlidingWindow { buckets, leaving } => {
                Self::SlidingWindow { buckets, leaving }
            }
            Algorithm::SlidingLog => Self::SlidingLog,
            Algorithm::Gcra { .. } => Self::Gcra,
            Algorithm::LeakyBucket { .. } => Self::LeakyBucket,
        }
    }
}
