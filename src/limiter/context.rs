//! What decisions are made with.

use super::known::SeenClients;
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
    /// Where clients are noted, if somebody may ask which are known.
    pub clients: Option<&'l SeenClients>,
}
