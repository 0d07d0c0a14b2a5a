//! What the workers of a process share of their ways to Redis.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::wire::KeyNames;
use crate::clock::Clock;
use crate::limit::plan::SeriesId;
use crate::store::series::Series;

/// The key names, and what is logged once per process.
#[derive(Clone, Debug)]
pub(crate) struct RedisShared {
    pub(super) clock: Clock,
    pub(super) names: Arc<KeyNames>,
    /// Whether the process has logged that the server may evict keys.
    pub(super) is_eviction_logged: Arc<AtomicBool>,
    /// Whether the one server that was named keeps slots apart, so that no call has keys of several
    /// partitions.
    pub(super) is_split: Arc<AtomicBool>,
}

impl RedisShared {
    /// Makes key names that begin with `prefix`; nothing is connected.
    pub(crate) fn new(prefix: &str, clock: Clock) -> Self {
        Self {
            clock,
            names: Arc::new(KeyNames::new(prefix)),
            is_eviction_logged: Arc::default(),
            is_split: Arc::default(),
        }
    }

    /// Notes the name that the keys of a series have.
    pub(crate) fn note(&self, series_id: SeriesId, series: &Series) {
        self.names.note(series_id, series);
    }
}
