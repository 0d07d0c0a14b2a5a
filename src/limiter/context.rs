//! What the limiter needs for its decisions.

use typed_index_collections::TiSlice;

use super::known::SeenClients;
use super::reached::ThresholdObserver;
use super::top::TopClients;
use crate::index::PolicyIndex;
use crate::snapshot::Snapshot;
use crate::store::Session;

/// The limiter, with all that it needs for a decision.
#[derive(Clone, Copy, Debug)]
pub struct Limiter<'l> {
    /// The configuration in force.
    pub snapshot: &'l Snapshot,
    /// The key of partition ids.
    pub partition_key: &'l [u8; 32],
    /// The key of the digests by which clients are shown.
    pub digest_key: &'l [u8; 32],
    /// The session through which the counters are reached.
    pub store: &'l Session,
    /// The observer of thresholds that clients reach, if a policy has some.
    pub thresholds: Option<&'l dyn ThresholdObserver>,
    /// Where clients are noted, if operators may ask about them.
    pub notes: Option<ClientNotes<'l>>,
}

/// Where a worker notes clients for operators.
#[derive(Clone, Copy, Debug)]
pub struct ClientNotes<'l> {
    /// The clients that the worker has seen.
    pub seen: &'l SeenClients,
    /// The top clients of each policy of the snapshot.
    pub top: &'l TiSlice<PolicyIndex, TopClients>,
}
