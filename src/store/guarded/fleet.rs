//! How many gateways share a Redis: each announces itself every few seconds, and Redis answers how
//! many did so lately.
//!
//! The number decides each node's share of a quota while Redis is away. The last known number stays in force then, so
//! no node of a fleet that loses Redis takes itself for the only one. A Redis that comes back empty, or after a while,
//! knows no node until each has announced itself again, so a lower number takes effect only after Redis has given it
//! for [`LIFETIME`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::clock::{Micros, Timestamp, Turn};

/// What this process knows of the fleet that shares a Redis.
#[derive(Debug)]
pub(super) struct Fleet {
    id: Box<str>,
    /// The turn to announce this node.
    turn: Turn,
    /// The number of nodes in force; 0 before Redis was first reached.
    seen: AtomicU32,
    /// Since when Redis has given a lower number, in microseconds since 1970; 0 if it does not.
    fewer_since_us: AtomicU64,
    /// When this node announced itself last, in microseconds since 1970; 0 if it never did.
    announced_us: AtomicU64,
    /// Since when it has announced itself without a gap, in microseconds since 1970; 0 if it never did.
    present_since_us: AtomicU64,
}

/// What a process has seen of its fleet, for the process that takes over from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetView {
    nodes: u32,
    announced_us: u64,
    present_since_us: u64,
}

impl Fleet {
    /// Makes a fleet of this node alone. Its name is derived from `secret`, which it shares only with a process that
    /// takes over from it.
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        let digest = blake3::derive_key("tollgate 2026-11 name of a node", secret);
        let hex = blake3::Hash::from_bytes(digest).to_hex();
        Self {
            id: hex[..ID_CHARS].into(),
            turn: Turn::default(),
            seen: AtomicU32::new(0),
            fewer_since_us: AtomicU64::new(0),
            announced_us: AtomicU64::new(0),
            present_since_us: AtomicU64::new(0),
        }
    }

    /// Returns this node's name, which a process that takes over keeps.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Says whether the caller should announce this node now. If so, no other caller is told to for [`EVERY`].
    pub(super) fn take_turn(&self, now: Timestamp) -> bool {
        self.turn.take(now, EVERY)
    }

    /// Notes the number of nodes that Redis answered when this node announced itself at `sent`.
    pub(super) fn saw(&self, nodes: u32, sent: Timestamp, now: Timestamp) {
        if sent >= self.counted_until() || self.present_since_us.load(Relaxed) == 0 {
            self.present_since_us.store(now.0, Relaxed);
        }
        self.announced_us.fetch_max(sent.0, Relaxed);
        let since = Timestamp(self.fewer_since_us.load(Relaxed));
        if nodes >= self.count() || (since.0 > 0 && now.since(since) >= LIFETIME) {
            self.seen.store(nodes.max(1), Relaxed);
            self.fewer_since_us.store(0, Relaxed);
        } else if since.0 == 0 || now < since {
            self.fewer_since_us.store(now.0, Relaxed);
        }
    }

    /// Returns until when this node may rely on being counted by the others. Until then, no node that it has not heard
    /// of acts as a member of the fleet.
    pub(super) fn counted_until(&self) -> Timestamp {
        Timestamp(self.announced_us.load(Relaxed)) + KNOWN_AFTER
    }

    /// Says whether all others have heard of this node, and it of them.
    pub(super) fn is_known(&self, now: Timestamp) -> bool {
        let since = Timestamp(self.present_since_us.load(Relaxed));
        since.0 > 0 && now >= since + KNOWN_AFTER && now < self.counted_until()
    }

    /// Returns what a process that takes over from this one needs to know.
    pub(super) fn view(&self) -> FleetView {
        FleetView {
            nodes: self.seen.load(Relaxed),
            announced_us: self.announced_us.load(Relaxed),
            present_since_us: self.present_since_us.load(Relaxed),
        }
    }

    /// Continues with what the old process has seen, if that was announced recently enough to leave no gap.
    pub(super) fn take_over(&self, view: FleetView, now: Timestamp) {
        if view.present_since_us > 0 && now < Timestamp(view.announced_us) + KNOWN_AFTER {
            self.seen.fetch_max(view.nodes, Relaxed);
            self.announced_us.fetch_max(view.announced_us, Relaxed);
            (self.present_since_us).store(view.present_since_us, Relaxed);
        }
    }

    /// Returns the number of nodes in force; 1 if Redis was never reached.
    pub(super) fn count(&self) -> u32 {
        self.seen.load(Relaxed).max(1)
    }
}

/// Hex digits of a node's name.
const ID_CHARS: usize = 32;
/// How often a node announces itself.
const EVERY: Micros = Micros::from_secs(5);
/// How long a node must have been announcing itself before all others are sure to have heard of it: each of them
/// announces itself every [`EVERY`], and hears the new number then, or stops relying on being counted.
const KNOWN_AFTER: Micros = Micros::from_secs(10);
/// How long a node counts after it announced itself: two announcements in a row may be lost.
pub(super) const LIFETIME: Micros = Micros::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp(1_700_000_000_000_000);

    #[test]
    fn node_that_never_reached_redis_counts_itself() {
        let fleet = Fleet::new(&[1; 32]);
        assert_eq!(fleet.count(), 1);
        fleet.saw(3, START, START);
        assert_eq!(fleet.count(), 3);
    }

    #[test]
    fn redis_that_forgot_the_fleet_is_not_believed_before_all_had_time_to_say_that_they_are_there()
    {
        let fleet = Fleet::new(&[1; 32]);
        let saw = |nodes, now| fleet.saw(nodes, now, now);
        saw(3, START);
        let back = START + Micros::from_secs(3_600);
        saw(1, back);
        assert_eq!(fleet.count(), 3);
        saw(3, back + EVERY);
        let leaving = back + EVERY + EVERY;
        saw(2, leaving);
        saw(2, leaving + LIFETIME - Micros(1));
        assert_eq!(fleet.count(), 3);
        saw(2, leaving + LIFETIME);
        assert_eq!(fleet.count(), 2);
        saw(4, leaving + LIFETIME + EVERY);
        assert_eq!(fleet.count(), 4);
    }

    #[test]
    fn node_is_known_once_all_others_have_announced_themselves_and_no_longer_after_a_gap() {
        let fleet = Fleet::new(&[1; 32]);
        assert!(!fleet.is_known(START));
        let (late, half) = (Micros::from_secs(1), Micros::from_secs(5));
        for (sent, known) in [
            (START, false),
            (START + half, false),
            (START + half + half, false),
            (START + late + half + half, true),
        ] {
            fleet.saw(2, sent, sent + late);
            assert_eq!(fleet.is_known(sent), known);
            assert_eq!(fleet.counted_until(), sent + KNOWN_AFTER);
        }
        let gone = fleet.counted_until();
        assert!(fleet.is_known(START + KNOWN_AFTER + half) && !fleet.is_known(gone));
        fleet.saw(2, gone, gone);
        assert!(!fleet.is_known(gone) && !fleet.is_known(gone + half));
        fleet.saw(2, gone + half, gone + half);
        assert!(fleet.is_known(gone + KNOWN_AFTER));
        // A process that takes over is known as long as this one, if there is no gap between them.
        let announced = gone + half;
        for (taken_over, known_at) in [
            (announced, gone + KNOWN_AFTER),
            (
                announced + KNOWN_AFTER,
                announced + KNOWN_AFTER + KNOWN_AFTER,
            ),
        ] {
            let next = Fleet::new(&[1; 32]);
            next.take_over(fleet.view(), taken_over);
            next.saw(2, taken_over, taken_over);
            next.saw(2, taken_over + half, taken_over + half);
            assert!(!next.is_known(Timestamp(known_at.0 - 1)), "{taken_over:?}");
            next.saw(2, taken_over + half + half, taken_over + half + half);
            assert!(next.is_known(known_at), "{taken_over:?}");
        }
    }
}
