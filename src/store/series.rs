//! Which states belong together: a quota's series, and the shape of its states.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::Micros;
use crate::limit::{Algorithm, Align, CalendarShape, OldestBucket, Quota};

/// Identifies the states of one quota: as long as a reload changes none of this, the quota keeps its counters.
///
/// The quota's number is not part of it: a changed number keeps its counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Series {
    /// The policy's name.
    pub policy: Arc<str>,
    /// Whether the quota decides or is only tried.
    pub role: SeriesRole,
    /// The algorithm, with the parameters that its states depend on; a burst or a queue is not among them.
    pub shape: Shape,
    /// The quota's window.
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
    /// The quotas decide.
    #[default]
    Real,
    /// The quotas are tried.
    Candidate,
}

/// The algorithm, with the parameters that its stored states depend on.
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
    /// One time: when the bucket is full again.
    Gcra,
    /// One time, as for gcra: when the whole queue is free again.
    LeakyBucket,
    /// One counter, for a window of a calendar.
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
