//! What decisions are made with.

use typed_index_collections::TiSlice;

use super::known::SeenClients;
use super::reached::ThresholdObserver;
use super::top::TopClients;
use crate::index::PolicyIndex;
use crate::snapshot::Snapshot;
use crate::store::Session;

/// What decisions are made with.
#[derive(Clone, Copy, Debug)]
pub struct Limiter<'l> {
    /// The configuration in force.
    pub snapshot: &'l Snapshot,
    /// The key of partition ids.
    pub partition_key: &'l [u8; 32],
    /// The key of the digests that people see.
    pub digest_key: &'l [u8; 32],
    /// The way to the counters.
    pub store: &'l Session,
    /// Notes thresholds that clients reach, if a policy has some.
    pub thresholds: Option<&'l dyn ThresholdObserver>,
    /// Where clients are noted, if somebody may ask about them.
    pub notes: Option<ClientNotes<'l>>,
}

/// Where a worker notes clients for operators.
#[derive(Clone, Copy, Debug)]
pub struct ClientNotes<'l> {
    /// Which there are.
    pub seen: &'l SeenClients,
    /// What each policy of the snapshot makes of them.
    pub top: &'l TiSlice<PolicyIndex, TopClients>,
}
