//! What a store holds and how it fares, for metrics.

use std::sync::Arc;

/// What a store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Partitions with live state.
    pub partitions: u64,
    /// Bytes held, tables included.
    pub bytes: u64,
    /// Whether new clients find the store full, or did a few seconds ago.
    pub is_full: bool,
    /// Checks that found the store full since the start.
    pub overflowed: u64,
    /// Charges that made a client's log or buckets coarser, because there was no room for more.
    pub coarsened: u64,
    /// How Redis fares, if that is the store.
    pub redis: Option<Box<RedisUsage>>,
}

/// How Redis fares: totals since the start, and what is remembered, connected, seen or open now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisUsage {
    /// Plans, or parts of plans, that Redis decided.
    pub answered: u64,
    /// Plans that a remembered refusal answered.
    pub remembered: u64,
    /// Plans, or parts of plans, that units held ahead paid for.
    pub leased: u64,
    /// Plans, or parts of plans, that this gateway's own counts decided.
    pub synced: u64,
    /// Plans, or parts of plans, that were not answered in time.
    pub late: u64,
    /// Plans, or parts of plans, that failed.
    pub failed: u64,
    /// Plans, or parts of plans, that could not be sent: the worker has no connection, or too many of them wait.
    pub unsent: u64,
    /// Plans, or parts of plans, that were not sent because the server's breaker was not closed.
    pub unasked: u64,
    /// Calls for which a server had no memory.
    pub out_of_memory: u64,
    /// Charges that could not be settled in time, and stay as they were.
    pub settlements_dropped: u64,
    /// Units that this gateway holds ahead now.
    pub units_leased: u64,
    /// Synced quotas of clients that this gateway counts itself now.
    pub quotas_followed: usize,
    /// Refusals remembered now.
    pub refusals_remembered: u64,
    /// Open connections to servers.
    pub connections: u64,
    /// Nodes that share the counters, as last seen.
    pub nodes: u32,
    /// Number of nodes among which a quota is divided while a server does not decide.
    pub share_nodes: u32,
    /// How each server fares.
    pub servers: Vec<ServerUsage>,
    /// Answers by how long they took: up to each of [`ROUND_TRIP_BOUNDS_US`], and longer.
    pub round_trips: [u64; ROUND_TRIP_BOUNDS_US.len() + 1],
    /// Sum of the times that the answers took, in microseconds.
    pub round_trips_us: u64,
}

/// How one server fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUsage {
    /// Name of the server.
    pub name: Arc<str>,
    /// State of the server's breaker.
    pub breaker: BreakerState,
    /// Whether two round trips to the server take longer than a decision may.
    pub is_far: bool,
    /// Whether the server may evict balances, so that no credits are decided there.
    pub evicts_all: bool,
    /// Whether the server forgets what was written last if it crashes.
    pub is_forgetful: bool,
}

/// What a breaker lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Every call.
    Closed,
    /// No call.
    Open,
    /// One call at a time.
    HalfOpen,
}

impl BreakerState {
    /// All states of a breaker.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// Whether the breaker lets every call pass.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Returns the state's word in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Upper bounds of the buckets in which round trips are counted, in microseconds.
pub const ROUND_TRIP_BOUNDS_US: [u64; 10] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
];
