//! Which states belong together: a quota's series, and the shape of its states.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::Micros;
use crate::limit::{Algorithm, Align, CalendarShape, OldestBucket, Quota};

/// Which quota's states: what keeps its counters across a reload, and what starts afresh.
///
/// The quota's number is not part of it: a changed number keeps its counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Series {
    /// The policy's name.
    pub policy: Arc<str>,
    /// Whether it decides or is tried.
    pub role: SeriesRole,
    /// The algorithm and its shape; a burst or a queue is no part of the shape.
    pub shape: Shape,
    /// The window.
    pub window: Micros,
}

impl Series {
    /// Returns the series of a policy's quota.
    pub fn of(policy: impl Into<Arc<str>>, role: SeriesRole, quota: &Quota) -> Self {
        Self {
            policy: policy.into(),
            role,
            shape: Shape::of(quota),
            window: quota.window,
        }
    }
}

/// Whether a series' quotas decide, or are candidates that are tried beside those that do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SeriesRole {
    /// They decide.
    #[default]
    Real,
    /// They are tried.
    Candidate,
}

/// What of an algorithm its stored state depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Shape {
    /// One counter.
    FixedWindow {
        /// Where windows begin.
        align: Align,
    },
    /// A counter per bucket.
    SlidingWindow {
        /// Buckets per window.
        buckets: u32,
        /// How much of the leaving bucket still counts.
        oldest: OldestBucket,
        /// Where buckets begin.
        align: Align,
    },
    /// One entry per cost.
    SlidingLog,
    /// One time.
    Gcra,
    /// One time, of a queue.
    LeakyBucket,
    /// One counter, of a window of a calendar.
    Calendar(CalendarShape),
    /// One balance.
    Credits,
    /// The last penalty.
    Penalty,
    /// The number of units that requests hold.
    InFlight,
}

impl Shape {
    /// Returns the shape of a quota's states.
    pub fn of(quota: &Quota) -> Self {
        let align = quota.align;
        match quota.algorithm {
            Algorithm::FixedWindow => Self::FixedWindow { align },
            Algorithm::Calendar(calendar) => Self::Calendar(calendar.shape().clone()),
            Algorithm::SlidingWindow { buckets, oldest } => Self::SlidingWindow {
                buckets,
                oldest,
                align,
            },
            Algorithm::SlidingLog => Self::SlidingLog,
            Algorithm::Gcra { .. } => Self::Gcra,
            Algorithm::LeakyBucket { .. } => Self::LeakyBucket,
            Algorithm::Credits { .. } => Self::Credits,
            Algorithm::Penalty { .. } => Self::Penalty,
            Algorithm::InFlight => Self::InFlight,
        }
    }
}
