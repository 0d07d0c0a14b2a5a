//! What the Redis sessions of a process's workers share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::cluster::slots::Slots;
use super::evictions::Evictions;
use super::sentinel::NamedPrimary;
use super::watch::Watch;
use super::wire::KeyNames;
use crate::clock::Clock;
use crate::limit::plan::SeriesId;
use crate::store::series::{Series, Shape};

/// The key names, what one worker finds out for all, and what is logged once per process.
#[derive(Clone, Debug)]
pub(crate) struct RedisShared {
    pub(super) clock: Clock,
    pub(super) names: Arc<KeyNames>,
    /// Which primary of a Cluster has which slots.
    pub(super) slots: Arc<Watch<Slots>>,
    /// The primary that sentinels name.
    pub(super) primary: Arc<Watch<NamedPrimary>>,
    pub(super) evictions: Arc<Evictions>,
    /// Whether a series of credits was ever noted, so that Redis may keep balances.
    pub(super) has_credits: Arc<AtomicBool>,
    /// Whether the single server in the settings keeps slots apart, so that no call may have keys of
    /// several partitions.
    pub(super) keeps_slots_apart: Arc<AtomicBool>,
}

impl RedisShared {
    /// Makes key names that begin with `prefix`; nothing is connected.
    pub(crate) fn new(prefix: &str, clock: Clock) -> Self {
        Self {
            clock,
            names: Arc::new(KeyNames::new(prefix)),
            slots: Arc::default(),
            primary: Arc::default(),
            evictions: Arc::default(),
            has_credits: Arc::default(),
            keeps_slots_apart: Arc::default(),
        }
    }

    /// Notes the name that the keys of a series have.
    pub(crate) fn note(&self, series_id: SeriesId, series: &Series) {
        self.names.note(series_id, series);
        if series.shape == Shape::Credits {
            self.has_credits.store(true, Relaxed);
        }
    }
}
