//! Units in flight that this gateway's requests hold, as announced to Redis: one number for each client.
//!
//! A request asks Redis for its units as a step of its plan. From then on they are part of the number, so an
//! announcement made meanwhile includes them. Any other change of the number is announced: always the number as it is,
//! never the difference. Requests and announcements carry a sequence number, which is taken together with the number,
//! so Redis can tell which of two is newer, in whatever order they arrive.
//!
//! While a client has few units free, order matters. A request that asks while an announcement is due or under way may
//! be refused although units have come back. An announcement that includes units which Redis is about to refuse takes
//! them from others. So then each waits for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::quota_key::QuotaKey;
use super::quota_shards::{QuotaShard, QuotaShards, SHARD_MAX};
use crate::clock::{Micros, Timestamp, Turn};
use crate::store::holder::GatewayId;
use crate::store::redis::wire::AnnouncementReply;

/// Units in flight that this gateway holds, shared by its workers. Only clients with requests in progress, or whose
/// last one has just ended, are in it.
#[derive(Debug)]
pub(super) struct Holdings {
    gateway: GatewayId,
    shards: QuotaShards<Holding>,
    /// The last sequence number; all clients and workers share one sequence.
    sequence: AtomicU64,
    /// The turn to search for numbers that are to be announced again.
    search: Turn,
}

/// Units that a client's requests hold.
#[derive(Debug)]
struct Holding {
    /// Units that are held or asked for: the number that is announced.
    units: u64,
    /// Requests that have asked for units and have no answer yet.
    asking: u32,
    /// Units that those requests have asked for.
    asked: u64,
    /// The quota's limit when units were last asked for.
    limit: u64,
    /// How many units were free when Redis answered last.
    free: u64,
    /// The sequence number of the last announcement.
    announced: u64,
    /// When Redis last accepted the number, or granted a part of it.
    renewed_at: Timestamp,
    /// Whether the number waits to be announced.
    is_due: bool,
    /// Since when Redis could not be told the number; none if no announcement is missed.
    missed_since: Option<Timestamp>,
    /// Announcements of the number that are under way.
    announcing: u32,
    /// Notified when no announcement is due or under way; none if no request waits for that.
    all_announced: Option<Arc<Notify>>,
}

/// What Redis, or this gateway in its place, answered a request that asked for units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitsAnswer {
    /// The request holds them.
    Granted,
    /// The request does not hold them, and Redis does not count them.
    Refused,
    /// The request does not hold them, but Redis may count them.
    Lost,
    /// The request holds them, but Redis may not count them.
    Kept,
}

impl Holdings {
    /// Makes the holdings of a gateway that holds nothing.
    pub(super) fn new(gateway: GatewayId) -> Self {
        Self {
            gateway,
            shards: QuotaShards::new(),
            sequence: AtomicU64::new(0),
            search: Turn::default(),
        }
    }

    /// Returns the gateway that holds the units.
    pub(super) fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// Returns what a request has to wait for before it asks for `units`; none if it need not wait.
    pub(super) fn before_asking(&self, key: QuotaKey, units: u64) -> Option<OwnedNotified> {
        let mut shard = self.shards.of(key);
        let holding = shard.get_mut(&key)?;
        let is_settled = !holding.is_due && holding.announcing == 0;
        // A request of cost 0 may be refused, too.
        if is_settled || holding.free >= holding.asked.saturating_add(units.max(1)) {
            return None;
        }
        let all_announced = holding.all_announced.get_or_insert_default();
        Some(Arc::clone(all_announced).notified_owned())
    }

    /// Adds `units`, which a request asks for, of a quota of `limit`; returns the sequence number to ask with.
    pub(super) fn ask(&self, key: QuotaKey, units: u64, limit: u64, now: Timestamp) -> u64 {
        let mut shard = self.shards.of(key);
        let holding = shard.entry(key).or_insert_with(|| Holding::new(now));
        holding.limit = limit;
        holding.units += units;
        holding.asking += 1;
        holding.asked += units;
        self.next()
    }

    /// Notes the answer to a request for units, and how many units were free then, if that is known. Says whether the
    /// number is to be announced now.
    pub(super) fn answered(
        &self,
        (key, units, sequence): (QuotaKey, u64, u64),
        answer: UnitsAnswer,
        free: Option<u64>,
        now: Timestamp,
    ) -> bool {
        let mut shard = self.shards.of(key);
        let Some(holding) = shard.get_mut(&key) else {
            return false;
        };
        holding.asking -= 1;
        holding.asked -= units;
        holding.free = free.unwrap_or(holding.free);
        holding.is_due |= match answer {
            UnitsAnswer::Granted => false,
            // An announcement that was made since includes them.
            UnitsAnswer::Refused => units > 0 && holding.announced > sequence,
            UnitsAnswer::Lost | UnitsAnswer::Kept => units > 0,
        };
        if let UnitsAnswer::Refused | UnitsAnswer::Lost = answer {
            holding.units -= units;
        }
        if answer == UnitsAnswer::Granted {
            holding.renewed_at = now;
        }
        let is_due = holding.is_due && !holding.is_held_back(now);
        forget_unless_needed(&mut shard, key);
        is_due
    }

    /// Subtracts the units of a request that has ended. The number is then due to be announced.
    pub(super) fn end(&self, key: QuotaKey, units: u64, now: Timestamp) {
        let mut shard = self.shards.of(key);
        let holding = shard.entry(key).or_insert_with(|| Holding::new(now));
        holding.units = holding.units.saturating_sub(units);
        holding.is_due = true;
    }

    /// Begins an announcement: returns how many units a client's requests hold, and the sequence number. None if it has
    /// to wait for requests that ask for units: the answer to the last of them has it announced.
    pub(super) fn announce(&self, key: QuotaKey, now: Timestamp) -> Option<(u64, u64)> {
        let mut shard = self.shards.of(key);
        let holding = shard.entry(key).or_insert_with(|| Holding::new(now));
        if holding.is_held_back(now) {
            holding.is_due = true;
            return None;
        }
        holding.is_due = false;
        holding.announcing += 1;
        holding.announced = self.next();
        Some((holding.units, holding.announced))
    }

    /// Notes Redis' answer to an announcement.
    pub(super) fn note(&self, key: QuotaKey, reply: AnnouncementReply, now: Timestamp) {
        if let Some(holding) = self.shards.of(key).get_mut(&key) {
            if let Some(held) = reply.held {
                holding.free = holding.limit.saturating_sub(held);
            }
            if reply.is_outdated {
                holding.is_due = true;
            } else {
                holding.renewed_at = now;
                holding.missed_since = None;
            }
        }
    }

    /// Notes that an announcement is no longer under way.
    pub(super) fn announced(&self, key: QuotaKey) {
        let mut shard = self.shards.of(key);
        if let Some(holding) = shard.get_mut(&key) {
            holding.announcing = holding.announcing.saturating_sub(1);
            forget_unless_needed(&mut shard, key);
        }
    }

    /// Notes that Redis could not be told a client's number. The next search finds it.
    pub(super) fn missed(&self, key: QuotaKey, now: Timestamp) {
        let mut shard = self.shards.of(key);
        // In a full shard, a client that holds nothing any more is forgotten: for Redis its units end with the lease.
        let is_full = shard.len() > SHARD_MAX;
        if let Some(holding) = shard.get_mut(&key) {
            holding.is_due = false;
            if holding.units > 0 || !is_full {
                holding.missed_since.get_or_insert(now);
            }
            forget_unless_needed(&mut shard, key);
        }
    }

    /// Returns the clients whose numbers are to be announced again, because Redis could not be told, or was told a
    /// while ago. Returns nothing if the last search was less than [`SEARCHED_EVERY`] ago.
    pub(super) fn overdue(&self, now: Timestamp) -> Vec<QuotaKey> {
        if !self.search.take(now, SEARCHED_EVERY) {
            return Vec::new();
        }
        let is_old =
            |holding: &Holding| holding.units > 0 && now.since(holding.renewed_at) >= RENEWED_AFTER;
        self.search(now, |holding| {
            holding.missed_since.is_some() || is_old(holding)
        })
    }

    /// Returns the clients whose numbers Redis could not be told.
    pub(super) fn all_missed(&self, now: Timestamp) -> Vec<QuotaKey> {
        self.search(now, |holding| holding.missed_since.is_some())
    }

    /// Returns the clients that `is_meant` selects and of which no announcement is due or under way. Forgets those that
    /// ended so long ago that Redis has forgotten them, too.
    fn search(&self, now: Timestamp, is_meant: impl Fn(&Holding) -> bool) -> Vec<QuotaKey> {
        let mut found = Vec::new();
        for mut shard in self.shards.all() {
            shard.retain(|key, holding| {
                let is_idle = holding.announcing == 0 && !holding.is_due;
                if is_idle && is_meant(holding) {
                    found.push(*key);
                }
                let is_over = |since: Timestamp| now.since(since) >= LEASE;
                let is_needed = holding.units > 0 || holding.asking > 0 || !is_idle;
                is_needed || !holding.missed_since.is_some_and(is_over)
            });
        }
        found
    }

    /// Returns the next sequence number. The caller has locked the client's shard, so it is taken together with the
    /// number.
    fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Relaxed) + 1
    }
}

impl Holding {
    fn new(now: Timestamp) -> Self {
        Self {
            units: 0,
            asking: 0,
            asked: 0,
            limit: u64::MAX,
            free: u64::MAX,
            announced: 0,
            renewed_at: now,
            is_due: false,
            missed_since: None,
            announcing: 0,
            all_announced: None,
        }
    }

    /// Says whether an announcement has to wait until requests for units are answered; never so long that the lease
    /// ends.
    fn is_held_back(&self, now: Timestamp) -> bool {
        self.asking > 0 && self.free < self.asked && now.since(self.renewed_at) < RENEWED_AFTER
    }
}

/// Once no announcement of a client is due or under way, wakes the requests that wait for that, and forgets the client
/// if it is no longer needed.
fn forget_unless_needed(shard: &mut QuotaShard<Holding>, key: QuotaKey) {
    let Some(holding) = shard.get_mut(&key) else {
        return;
    };
    if holding.is_due || holding.announcing > 0 {
        return;
    }
    if let Some(all_announced) = holding.all_announced.take() {
        all_announced.notify_waiters();
    }
    if holding.units == 0 && holding.asking == 0 && holding.missed_since.is_none() {
        shard.remove(&key);
    }
}

/// How often numbers that are to be announced again are searched for.
const SEARCHED_EVERY: Micros = Micros::from_secs(1);
/// Age at which a number is announced again; as the search runs once a second, that is every 5 s at the latest.
const RENEWED_AFTER: Micros = Micros::from_secs(4);
/// How long Redis counts a number (`lua/in_flight/peek.lua`).
const LEASE: Micros = Micros::from_secs(15);

#[cfg(test)]
mod tests;
