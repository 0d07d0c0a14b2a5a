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

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::turn::Turn;
use crate::clock::{Micros, Timestamp};
use crate::limit::PartitionId;
use crate::limit::plan::SeriesId;
use crate::store::holder::GatewayId;

/// What this gateway holds, shared by its workers: of no more clients than have requests in progress, or whose last one
/// has just ended.
#[derive(Debug)]
pub(super) struct Holdings {
    gateway: GatewayId,
    shards: Box<[CachePadded<Mutex<HoldingShard>>]>,
    hasher: RandomState,
    /// The last sequence number, of whatever client and worker.
    sequence: AtomicU64,
    /// Announcing all of it again.
    renewal: Turn,
}

type HoldingShard = HashMap<HoldingKey, Holding>;

/// Whose units, and of which policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HoldingKey {
    pub(super) series_id: SeriesId,
    pub(super) partition_id: PartitionId,
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
    /// Whether the number is to be announced.
    is_due: bool,
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
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            hasher: RandomState::new(),
            sequence: AtomicU64::new(0),
            renewal: Turn::default(),
        }
    }

    /// Returns who holds them.
    pub(super) fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// Returns what a request waits for before it asks for units; none if it need not.
    pub(super) fn before_asking(&self, key: HoldingKey, units: u64) -> Option<OwnedNotified> {
        let mut shard = self.shard(key);
        let holding = shard.get_mut(&key)?;
        let is_settled = !holding.is_due && holding.announcing == 0;
        // Even nothing may be refused.
        if is_settled || holding.free >= holding.asked.saturating_add(units.max(1)) {
            return None;
        }
        let all_announced = holding.all_announced.get_or_insert_default();
        Some(Arc::clone(all_announced).notified_owned())
    }

    /// Adds units of so many that a request asks for; returns the sequence number that it asks with.
    pub(super) fn ask(&self, key: HoldingKey, units: u64, limit: u64) -> u64 {
        let mut shard = self.shard(key);
        let holding = shard.entry(key).or_default();
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
        (key, units, sequence): (HoldingKey, u64, u64),
        answer: UnitsAnswer,
        free: Option<u64>,
    ) -> bool {
        let mut shard = self.shard(key);
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
        let is_due = holding.is_due && !holding.is_held_back();
        forget_unless_needed(&mut shard, key);
        is_due
    }

    /// Takes out units of a request that has ended. The number is to be announced.
    pub(super) fn end(&self, key: HoldingKey, units: u64) {
        let mut shard = self.shard(key);
        let holding = shard.entry(key).or_default();
        holding.units = holding.units.saturating_sub(units);
        holding.is_due = true;
    }

    /// Returns what is to be announced of a client: how many units its requests hold, and the sequence number. None if
    /// that waits for requests that ask: then the last of them has it announced.
    pub(super) fn announce(&self, key: HoldingKey) -> Option<(u64, u64)> {
        let mut shard = self.shard(key);
        let holding = shard.entry(key).or_default();
        if holding.is_held_back() {
            holding.is_due = true;
            return None;
        }
        holding.is_due = false;
        holding.announcing += 1;
        holding.announced = self.next();
        Some((holding.units, holding.announced))
    }

    /// Notes how many units all gateways hold.
    pub(super) fn note_held(&self, key: HoldingKey, held: u64) {
        if let Some(holding) = self.shard(key).get_mut(&key) {
            holding.free = holding.limit.saturating_sub(held);
        }
    }

    /// Notes that an announcement was answered, or will not be.
    pub(super) fn announced(&self, key: HoldingKey) {
        let mut shard = self.shard(key);
        if let Some(holding) = shard.get_mut(&key) {
            holding.announcing = holding.announcing.saturating_sub(1);
            forget_unless_needed(&mut shard, key);
        }
    }

    /// Notes that a client's number is not announced for now, although it is due.
    pub(super) fn put_off(&self, key: HoldingKey) {
        let mut shard = self.shard(key);
        if let Some(holding) = shard.get_mut(&key) {
            holding.is_due = false;
            forget_unless_needed(&mut shard, key);
        }
    }

    /// Returns whose units are held.
    pub(super) fn keys(&self) -> Vec<HoldingKey> {
        let mut keys = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let held = shard.iter().filter(|(_, holding)| holding.units > 0);
            keys.extend(held.map(|(key, _)| *key));
        }
        keys
    }

    /// Says whether the caller should announce all of it again. No other caller is told so for [`RENEWED_EVERY`].
    pub(super) fn take_turn(&self, now: Timestamp) -> bool {
        self.renewal.take(now, RENEWED_EVERY)
    }

    /// Draws a sequence number; whoever does has the client's shard locked.
    fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Relaxed) + 1
    }

    fn shard(&self, key: HoldingKey) -> MutexGuard<'_, HoldingShard> {
        let shard = self.hasher.hash_one(key) % SHARDS as u64;
        lock(&self.shards[usize::try_from(shard).expect("there are few")])
    }
}

impl Holding {
    /// Says whether an announcement waits until those that ask are answered.
    fn is_held_back(&self) -> bool {
        self.asking > 0 && self.free < self.asked
    }
}

impl Default for Holding {
    fn default() -> Self {
        Self {
            units: 0,
            asking: 0,
            asked: 0,
            limit: u64::MAX,
            free: u64::MAX,
            announced: 0,
            is_due: false,
            announcing: 0,
            all_announced: None,
        }
    }
}

/// Wakes those who wait until all of a client's number is announced, if it is, and forgets what nobody needs.
fn forget_unless_needed(shard: &mut HoldingShard, key: HoldingKey) {
    let Some(holding) = shard.get_mut(&key) else {
        return;
    };
    if holding.is_due || holding.announcing > 0 {
        return;
    }
    if let Some(all_announced) = holding.all_announced.take() {
        all_announced.notify_waiters();
    }
    if holding.units == 0 && holding.asking == 0 {
        shard.remove(&key);
    }
}

fn lock(shard: &Mutex<HoldingShard>) -> MutexGuard<'_, HoldingShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of shards, each with a lock of its own.
const SHARDS: usize = 64;
/// How often all of it is announced again. In Redis it counts for three times as long (`lua/in_flight/peek.lua`), so
/// two in a row may be lost.
const RENEWED_EVERY: Micros = Micros::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bits: u128) -> HoldingKey {
        HoldingKey {
            series_id: SeriesId(0),
            partition_id: PartitionId::new(bits),
        }
    }

    fn holdings() -> Holdings {
        Holdings::new(GatewayId::new(7))
    }

    fn is_empty(holdings: &Holdings) -> bool {
        (holdings.shards.iter()).all(|shard| lock(shard).is_empty())
    }

    #[test]
    fn what_is_announced_has_what_is_asked_for_in_it_and_nothing_is_kept_of_what_has_ended() {
        let holdings = holdings();
        let first = holdings.ask(key(1), 2, 9);
        let other = holdings.ask(key(2), 5, 9);
        assert!(other > first, "one counter for all clients");
        let (units, announced) = holdings.announce(key(1)).expect("nothing is known");
        assert_eq!(units, 2);
        assert!(announced > other);
        holdings.announced(key(1));
        let refused =
            |sequence| holdings.answered((key(1), 2, sequence), UnitsAnswer::Refused, Some(0));
        assert!(refused(first), "it was announced");
        assert_eq!(holdings.announce(key(1)).map(|(units, _)| units), Some(0));
        holdings.announced(key(1));
        let again = holdings.ask(key(1), 2, 9);
        assert!(!refused(again), "nobody knows of it");
        assert!(!holdings.answered((key(2), 5, other), UnitsAnswer::Granted, Some(9)));
        assert_eq!(holdings.keys(), [key(2)]);
        holdings.end(key(2), 5);
        assert!(holdings.keys().is_empty() && !is_empty(&holdings));
        assert_eq!(holdings.announce(key(2)).map(|(units, _)| units), Some(0));
        holdings.announced(key(2));
        assert!(is_empty(&holdings));
        // What is lost may be held as far as Redis knows, and what is kept may not.
        for (answer, units) in [(UnitsAnswer::Lost, 0), (UnitsAnswer::Kept, 3)] {
            let sequence = holdings.ask(key(3), 3, 9);
            assert!(holdings.answered((key(3), 3, sequence), answer, None));
            let announced = holdings.announce(key(3)).map(|(units, _)| units);
            assert_eq!(announced, Some(units));
            holdings.announced(key(3));
        }
    }

    #[tokio::test]
    async fn while_few_units_are_free_asks_and_announcements_wait_for_each_other() {
        let holdings = holdings();
        let grant = |free| {
            let sequence = holdings.ask(key(1), 1, 9);
            holdings.answered((key(1), 1, sequence), UnitsAnswer::Granted, Some(free));
        };
        let waits = |units| holdings.before_asking(key(1), units).is_some();
        grant(2);
        assert!(!waits(9), "nothing is to be announced");
        holdings.end(key(1), 1);
        assert!(!waits(2) && !waits(0), "as many are free");
        let waiting = holdings.before_asking(key(1), 3).expect("fewer are free");
        let (_, _) = holdings.announce(key(1)).expect("nobody asks");
        assert!(waits(3), "it is under way");
        holdings.note_held(key(1), 4);
        assert!(waits(6) && !waits(5), "others hold 4 of 9");
        holdings.announced(key(1));
        waiting.await;
        assert!(!waits(3));

        grant(0);
        let sequence = holdings.ask(key(1), 1, 9);
        holdings.end(key(1), 1);
        assert_eq!(
            holdings.announce(key(1)),
            None,
            "Redis may refuse what is asked for"
        );
        assert!(waits(1));
        let asked = (key(1), 1, sequence);
        assert!(
            holdings.answered(asked, UnitsAnswer::Refused, Some(0)),
            "the last one announces it"
        );
        holdings.put_off(key(1));
        assert!(!waits(1) && is_empty(&holdings));
    }
}
