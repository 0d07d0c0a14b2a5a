//! Top clients of a policy: whom it refused most, who spent most, and who is nearest to a quota.
//!
//! Refused requests and spent units are counted by Space-Saving (Metwally, Agrawal and El Abbadi, 2005), in sets as in
//! a processor's cache. A client that finds no slot takes the weakest one of its set, and its count starts at the
//! largest count that a client of the set had when it lost its slot: the most by which the new count may be too high. A
//! client with more than an eighth of what its set counts always has a slot; there are 16 sets. Counts begin anew every
//! five minutes, and the last ones are kept for as long.
//!
//! Each worker has tables of its own, behind a lock that only a reader contends for.

mod near;
mod table;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

pub use self::near::NearClient;
use self::near::NearTable;
use self::table::{ClientPlace, ClientTable};
use crate::clock::{Micros, Timestamp};
use crate::limit::{Adjustment, Decision, PartitionId, Quota};
use crate::metrics::{Metrics, Sharded, WorkerIndex};

/// The top clients of one policy. Clones share them.
#[derive(Clone, Debug)]
pub struct TopClients(Sharded<Mutex<WorkerTop>>);

/// What a request tells of its client.
#[derive(Clone, Copy, Debug)]
pub struct SeenRequest<'q> {
    /// The client's partition id.
    pub client: PartitionId,
    /// When it was decided.
    pub at: Timestamp,
    /// Whether the policy refused it, or would have.
    pub is_refused: bool,
    /// The units that it spent.
    pub spent: u64,
    /// The quota of which the smallest share is left; none if the request was refused.
    pub tightest: Option<(&'q Quota, &'q Decision)>,
}

/// How much a client was refused or has spent lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedClient {
    /// The client's partition id.
    pub client: PartitionId,
    /// How it is shown, if that is known.
    pub name: Option<Box<str>>,
    /// Lower bound of its requests or units.
    pub at_least: u64,
    /// Upper bound of its requests or units.
    pub at_most: u64,
}

/// What a worker has seen. The fields that each request reads come first, to share a cache line with the lock.
#[derive(Debug, Default)]
#[repr(C)]
struct WorkerTop {
    current: CountTables,
    near: NearTable,
    previous: CountTables,
}

/// What was counted in one period of five minutes.
#[derive(Debug, Default)]
struct CountTables {
    since: Timestamp,
    refused: ClientTable<ClientCount>,
    spent: ClientTable<ClientCount>,
}

/// The events for which clients are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedEvents {
    /// Requests that were refused.
    Refused,
    /// Units that were spent.
    Spent,
}

#[derive(Clone, Copy, Debug, Default)]
struct ClientCount {
    units: u64,
    /// The most by which `units` may be too high.
    error: u64,
}

impl TopClients {
    /// Begins without clients, for the workers that `metrics` has.
    pub fn new(metrics: &Metrics) -> Self {
        Self(metrics.sharded())
    }

    /// Notes a request; `name` says how its client is shown.
    pub fn note(
        &self,
        worker: WorkerIndex,
        seen: &SeenRequest<'_>,
        name: impl FnOnce() -> Box<str> + Copy,
    ) {
        self.with(worker, |top| {
            top.turn(seen.at);
            let CountTables { refused, spent, .. } = &mut top.current;
            if seen.is_refused {
                refused.count(seen.client, 1, Some(name));
            }
            if seen.spent > 0 {
                spent.count(seen.client, seen.spent, Some(name));
            }
            if let Some((quota, decision)) = seen.tightest {
                top.near.note(seen.client, quota, decision, seen.at, name);
            }
        });
    }

    /// Notes that a request spent less or more than was [noted](Self::note).
    pub fn correct(&self, worker: WorkerIndex, client: PartitionId, adjustment: Adjustment) {
        if adjustment == Adjustment::NONE {
            return;
        }
        self.with(worker, |top| match adjustment {
            Adjustment::Spend(units) => {
                let no_name = None::<fn() -> Box<str>>;
                top.current.spent.count(client, units, no_name);
            }
            Adjustment::GiveBack(units) => {
                let left = top.current.spent.take_back(client, units);
                top.previous.spent.take_back(client, left);
            }
        });
    }

    /// Returns the clients with the most of these events, the highest counts first, and since when events are counted.
    pub fn counted(
        &self,
        events: CountedEvents,
        now: Timestamp,
    ) -> (Vec<CountedClient>, Timestamp) {
        // Copied, so that no worker waits until they are added up.
        let mut counts = Vec::new();
        for top in self.0.all().map(lock) {
            let both = [&top.current, &top.previous];
            let some = both.into_iter().filter(|counts| counts.counts_at(now));
            counts.extend(some.map(|counts| (counts.since, counts.of(events).clone())));
        }
        let tables = || counts.iter().map(|(_, table)| table);
        let mut names = HashMap::new();
        for (client, name, _) in tables().flat_map(ClientTable::iter) {
            let known: &mut Option<&str> = names.entry(client).or_default();
            *known = known.or(name);
        }
        let counted = names.into_iter().map(|(client, name)| {
            let (mut at_least, mut at_most) = (0_u64, 0_u64);
            for table in tables() {
                let (least, most) = table.bounds(client);
                at_least = at_least.saturating_add(least);
                at_most = at_most.saturating_add(most);
            }
            CountedClient {
                client,
                name: name.map(Into::into),
                at_least,
                at_most,
            }
        });
        let mut counted: Vec<_> = counted.filter(|one| one.at_least > 0).collect();
        counted.sort_unstable_by_key(|one| (std::cmp::Reverse(one.at_least), one.client));
        let since = counts.iter().map(|(since, _)| *since).min();
        (counted, since.unwrap_or(now))
    }

    /// Returns the clients that are nearest to a quota, the nearest first.
    pub fn nearest(&self, now: Timestamp) -> Vec<NearClient> {
        let mut all: HashMap<PartitionId, NearClient> = HashMap::new();
        for top in self.0.all().map(lock) {
            for one in top.near.clients(now) {
                match all.get_mut(&one.client) {
                    Some(other) if other.seen_at >= one.seen_at => {}
                    Some(other) => *other = one,
                    None => drop(all.insert(one.client, one)),
                }
            }
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.sort_unstable_by_key(|one| (std::cmp::Reverse(one.used_permille), one.client));
        all
    }

    fn with(&self, worker: WorkerIndex, act: impl FnOnce(&mut WorkerTop)) {
        act(&mut lock(self.0.of(worker)));
    }
}

impl WorkerTop {
    /// Begins to count anew if it is time.
    fn turn(&mut self, now: Timestamp) {
        if now.since(self.current.since) >= COUNTED_FOR {
            self.begin_anew(now);
        }
    }

    #[cold]
    fn begin_anew(&mut self, now: Timestamp) {
        let next = CountTables {
            since: now,
            ..CountTables::default()
        };
        self.previous = std::mem::replace(&mut self.current, next);
    }
}

impl CountTables {
    /// Says whether the counts are still shown: until ten minutes after counting began.
    fn counts_at(&self, now: Timestamp) -> bool {
        now.since(self.since).0 < 2 * COUNTED_FOR.0
    }

    fn of(&self, events: CountedEvents) -> &ClientTable<ClientCount> {
        match events {
            CountedEvents::Refused => &self.refused,
            CountedEvents::Spent => &self.spent,
        }
    }
}

impl ClientTable<ClientCount> {
    fn count(&mut self, client: PartitionId, units: u64, name: Option<impl FnOnce() -> Box<str>>) {
        match self.find(client, |count| count.units) {
            ClientPlace::Own(slot) => {
                slot.value.units = slot.value.units.saturating_add(units);
                if let Some(name) = name {
                    slot.name(name);
                }
            }
            ClientPlace::Weakest(slot, evicted) => {
                *evicted = slot.value.units.max(*evicted);
                let error = *evicted;
                slot.replace(
                    client,
                    ClientCount {
                        units: error.saturating_add(units),
                        error,
                    },
                );
            }
        }
    }

    /// Takes back units that a client certainly spent; returns how many of them were not counted here.
    fn take_back(&mut self, client: PartitionId, units: u64) -> u64 {
        if self.is_empty() {
            return units;
        }
        let ClientPlace::Own(slot) = self.find(client, |count| count.units) else {
            return units;
        };
        let count = &mut slot.value;
        let taken = units.min(count.units - count.error);
        count.units -= taken;
        units - taken
    }

    /// Returns how much was counted of a client, at least and at most.
    fn bounds(&self, client: PartitionId) -> (u64, u64) {
        match self.get(client) {
            Ok(count) => (count.units - count.error, count.units),
            Err(evicted) => (0, evicted),
        }
    }
}

fn lock(top: &Mutex<WorkerTop>) -> std::sync::MutexGuard<'_, WorkerTop> {
    top.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For how long counts are added up before counting begins anew.
const COUNTED_FOR: Micros = Micros::from_secs(300);

#[cfg(test)]
mod tests;
