//! One item of `quota`, and the names of algorithms.

use super::Spanned;
use crate::config::value::{GrantText, Zone};
use crate::limit::{Align, AnchorDay, OldestBucket};

/// One item of `quota`: a text, or a table that says how this quota alone is counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawQuota {
    /// The quota itself, or the word `unlimited` or `blocked`.
    pub quota: GrantText,
    /// `algorithm`
    pub algorithm: Option<Spanned<AlgorithmName>>,
    /// `buckets`
    pub buckets: Option<Spanned<u32>>,
    /// `oldest_bucket`
    pub oldest: Option<Spanned<OldestBucket>>,
    /// `align`
    pub align: Option<Spanned<Align>>,
    /// `burst`
    pub burst: Option<Spanned<u64>>,
    /// `queue`
    pub queue: Option<Spanned<u64>>,
    /// `time_zone`
    pub time_zone: Option<Spanned<Zone>>,
    /// `anchor_day`
    pub anchor_day: Option<Spanned<AnchorDay>>,
    /// `anchor_time`, in minutes since midnight
    pub anchor_time: Option<Spanned<u16>>,
}

impl From<GrantText> for RawQuota {
    fn from(quota: GrantText) -> Self {
        Self {
            quota,
            ..Self::default()
        }
    }
}

/// `algorithm`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlgorithmName {
    /// `fixed-window`
    FixedWindow,
    /// `sliding-window`
    #[default]
    SlidingWindow,
    /// `sliding-log`
    SlidingLog,
    /// `gcra`
    Gcra,
    /// `leaky-bucket`
    LeakyBucket,
}
