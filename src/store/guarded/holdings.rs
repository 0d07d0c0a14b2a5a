//! Units in flight that this gateway's requests hold, as Redis is told: of each client one number.
//!
//! A request asks Redis for its units as a step of its plan; from then on they are in the number, so that what is
//! announced meanwhile has them. Whatever else changes the number is announced: the number as it is, never what changed.
//! Both carry a sequence number, which is taken together with the number, so that Redis can tell which of two is the
//! newer one, whatever order they arrive in.
//!
//! While a client has few units free, order matters: whoever asks while an announcement is due or under way may be
//! refused for units that have come back, and an announcement that has units in it which Redis is about to refuse takes
//! them from others. So then the one waits for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::quota_key::QuotaKey;
use super::quota_shards::{QuotaShard, QuotaShards, SHARD_MAX};
use crate::clock::{Micros, Timestamp, Turn};
use crate::store::holder::GatewayId;
use crate::store::redis::wire::AnnouncementReply;

/// What this gateway holds, shared by its workers: of no more clients than have requests in progress, or whose last one
/// has just ended.
#[derive(Debug)]
pub(super) struct Holdings {
    gateway: GatewayId,
    shards: QuotaShards<Holding>,
    /// The last sequence number, of whatever client and worker.
    sequence: AtomicU64,
    /// Looking for what is to be announced again.
    search: Turn,
}

/// What a client's requests hold.
#[derive(Debug)]
struct Holding {
    /// Units that are held, and those that are asked for.
    units: u64,
    /// How many requests ask.
    asking: u32,
    /// For how many of the units.
    asked: u64,
    /// How many units there are.
    limit: u64,
    /// How many units were free when Redis answered last.
    free: u64,
    /// The sequence number of the last announcement.
    announced: u64,
    /// When Redis last took the number, or a part of it.
    renewed_at: Timestamp,
    /// Whether the number waits to be announced.
    is_due: bool,
    /// Since when Redis could not be told the number; none if it knows.
    missed_since: Option<Timestamp>,
    /// How many announcements of it are under way.
    announcing: u32,
    /// Notified when none is due or under way, if anybody waits for that.
    all_announced: Option<Arc<Notify>>,
}

/// What Redis, or this gateway in its place, answered a request that asked for units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitsAnswer {
    /// It holds them.
    Granted,
    /// It does not, and Redis does not believe so.
    Refused,
    /// It does not, and Redis may believe so.
    Lost,
    /// It holds them, and Redis may not know.
    Kept,
}

impl Holdings {
    /// Makes those of a gateway.
    pub(super) fn new(gateway: GatewayId) -> Self {
        Self {
            gateway,
            shards: QuotaShards::new(),
            sequence: AtomicU64::new(0),
            search: Turn::default(),
        }
    }

    /// Returns who holds them.
    pub(super) fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// Returns what a request waits for before it asks for units; none if it need not.
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

    /// Adds units of so many that a request asks for; returns the sequence number that it asks with.
    pub(super) fn ask(&self, key: QuotaKey, units: u64, limit: u64, now: Timestamp) -> u64 {
        let mut shard = self.shards.of(key);
        let holding = shard.entry(key).or_insert_with(|| Holding::new(now));
        holding.limit = limit;
        holding.units += units;
        holding.asking += 1;
        holding.asked += units;
        self.next()
    }

    /// Notes what such a request was answered, and how many units were free then, if that is known. Says whether the
    /// number is to be announced.
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
            // An announcement may have had them in it.
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

    /// Takes out units of a request that has ended. The number is to be announced.
    pub(super) fn end(&self, key: QuotaKey, units: u64, now: Timestamp) {
        let mut shard = self.shards.of(key);
        let holding = shard.entry(key).or_insert_with(|| Holding::new(now));
        holding.units = holding.units.saturating_sub(units);
        holding.is_due = true;
    }

    /// Returns what is to be announced of a client: how many units its requests hold, and the sequence number. None if
    /// that waits for requests that ask: then the last of them has it announced.
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

    /// Notes what Redis answered an announcement.
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

    /// Notes that an announcement is not under way any more.
    pub(super) fn announced(&self, key: QuotaKey) {
        let mut shard = self.shards.of(key);
        if let Some(holding) = shard.get_mut(&key) {
            holding.announcing = holding.announcing.saturating_sub(1);
            forget_unless_needed(&mut shard, key);
        }
    }

    /// Notes that Redis could not be told a client's number. It is found by the next search.
    pub(super) fn missed(&self, key: QuotaKey, now: Timestamp) {
        let mut shard = self.shards.of(key);
        // In a full shard, Redis learns of a client that holds nothing any more from its lease.
        let is_full = shard.len() > SHARD_MAX;
        if let Some(holding) = shard.get_mut(&key) {
            holding.is_due = false;
            if holding.units > 0 || !is_full {
                holding.missed_since.get_or_insert(now);
            }
            forget_unless_needed(&mut shard, key);
        }
    }

    /// Returns whose numbers are to be announced again: those that Redis could not be told, and those that it was told
    /// a while ago. Returns nothing if that was looked for less than [`SEARCHED_EVERY`] ago.
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

    /// Returns whose numbers Redis could not be told.
    pub(super) fn all_missed(&self, now: Timestamp) -> Vec<QuotaKey> {
        self.search(now, |holding| holding.missed_since.is_some())
    }

    /// Returns those of which nothing is under way and that are meant; forgets what ended so long ago that Redis has
    /// forgotten it, too.
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

    /// Draws a sequence number; whoever does has the client's shard locked.
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

    /// Says whether an announcement waits until those that ask are answered; not for so long that its lease ends.
    fn is_held_back(&self, now: Timestamp) -> bool {
        self.asking > 0 && self.free < self.asked && now.since(self.renewed_at) < RENEWED_AFTER
    }
}

/// Wakes those who wait until all of a client's number is announced, if it is, and forgets what nobody needs.
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

/// How often it is looked for what is to be announced again.
const SEARCHED_EVERY: Micros = Micros::from_secs(1);
/// After how long a number is announced again, so every 5 s at the latest.
const RENEWED_AFTER: Micros = Micros::from_secs(4);
/// How long Redis counts a number (`lua/in_flight/peek.lua`).
const LEASE: Micros = Micros::from_secs(15);

#[cfg(test)]
mod tests;
