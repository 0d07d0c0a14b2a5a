//! The clients that are nearest to a quota.

use super::table::{ClientPlace, ClientTable};
use crate::clock::{Micros, Timestamp};
use crate::limit::{Decision, PartitionId, Quota};

/// Clients that have used half of a quota or more.
#[derive(Debug, Default)]
pub(super) struct NearTable(ClientTable<Nearness>);

/// A client that has used much of a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearClient {
    /// The client's partition id.
    pub client: PartitionId,
    /// How it is shown, if that is known.
    pub name: Option<Box<str>>,
    /// How much of the quota it had used, in thousandths.
    pub used_permille: u32,
    /// Units that were left.
    pub remaining: u64,
    /// The most units that the quota can hold.
    pub limit: u64,
    /// When the client's last request was noted.
    pub seen_at: Timestamp,
}

#[derive(Clone, Copy, Debug, Default)]
struct Nearness {
    used_permille: u32,
    remaining: u64,
    limit: u64,
    seen_at: Timestamp,
    /// When the quota is whole again.
    whole_at: Timestamp,
}

impl NearTable {
    /// Notes what is left of a client's quota.
    pub(super) fn note(
        &mut self,
        client: PartitionId,
        quota: &Quota,
        decision: &Decision,
        now: Timestamp,
        name: impl FnOnce() -> Box<str>,
    ) {
        let (limit, remaining) = (quota.capacity(), decision.remaining);
        let is_near = remaining <= limit / 2;
        if !quota.has_window() || !is_near && self.0.is_empty() {
            return;
        }
        // Limits are far below 2^53, so this does not saturate.
        let used = limit.saturating_sub(remaining).saturating_mul(1_000) / limit.max(1);
        let nearness = Nearness {
            used_permille: u32::try_from(used).unwrap_or(u32::MAX),
            remaining,
            limit,
            seen_at: now,
            whole_at: now + decision.reset,
        };
        match self.0.find(client, |one| one.weight(now)) {
            ClientPlace::Own(slot) => {
                slot.value = nearness;
                slot.name(name);
            }
            ClientPlace::Weakest(slot, _)
                if is_near && slot.value.weight(now) <= nearness.used_permille.into() =>
            {
                slot.replace(client, nearness);
            }
            ClientPlace::Weakest(..) => {}
        }
    }

    /// Yields the clients that were seen lately and whose quota is not whole again.
    pub(super) fn clients(&self, now: Timestamp) -> impl Iterator<Item = NearClient> {
        let all = self.0.iter();
        let near = all.filter(move |(_, _, one)| one.weight(now) > 0);
        near.map(|(client, name, one)| NearClient {
            client,
            name: name.map(Into::into),
            used_permille: one.used_permille,
            remaining: one.remaining,
            limit: one.limit,
            seen_at: one.seen_at,
        })
    }
}

impl Nearness {
    fn weight(&self, now: Timestamp) -> u64 {
        if now < self.whole_at && now.since(self.seen_at) < SHOWN_FOR {
            self.used_permille.into()
        } else {
            0
        }
    }
}

/// A client that has not been seen for this long is not shown.
const SHOWN_FOR: Micros = Micros::from_secs(600);
