//! What gateways that count by themselves have admitted, and which of it they must know of each other.

use std::collections::BTreeMap;

use tollgate::clock::{Micros, Timestamp};

/// All that was spent since the last reset.
pub struct Ledger {
    interval: Micros,
    entries: Vec<LedgerEntry>,
    /// What each gateway there ever was has reported.
    reports: Vec<Vec<LedgerReport>>,
    /// What may be counted though nobody has it: what was sent again, and what came late.
    surplus_max: i64,
    /// Of gateways that a reset found reporting, what came back in those reports.
    returned_before_reset: BTreeMap<usize, i64>,
}

/// Units that were spent at one gateway, or came back; below 0 then.
struct LedgerEntry {
    gateway: usize,
    /// When the request was decided that they are of.
    charged_at: Timestamp,
    at: Timestamp,
    units: i64,
    /// Whether the gateway was killed before it must have reported this.
    is_doubtful: bool,
}

/// At `at` Redis had all that a gateway spent until `until`, and it all that Redis had then.
#[derive(Clone, Copy)]
struct LedgerReport {
    at: Timestamp,
    until: Timestamp,
}

impl Ledger {
    pub fn new(interval: Micros) -> Self {
        Self {
            interval,
            entries: Vec::new(),
            reports: Vec::new(),
            surplus_max: 0,
            returned_before_reset: BTreeMap::new(),
        }
    }

    /// Adds a gateway; returns its number. It asks before it counts by itself.
    pub fn join(&mut self, now: Timestamp) -> usize {
        let first = LedgerReport {
            at: now,
            until: now,
        };
        self.reports.push(vec![first]);
        self.reports.len() - 1
    }

    pub fn add(&mut self, gateway: usize, charged_at: Timestamp, at: Timestamp, units: i64) {
        self.entries.push(LedgerEntry {
            gateway,
            charged_at,
            at,
            units,
            is_doubtful: false,
        });
    }

    /// Notes that all that a gateway had begun to report was answered at `now`, and what was due had been begun; before
    /// that it was so at `before`.
    pub fn answered(&mut self, gateway: usize, before: Timestamp, now: Timestamp) {
        self.returned_before_reset.remove(&gateway);
        let until = before.min(now - self.interval);
        self.reports[gateway].push(LedgerReport { at: now, until });
    }

    /// Notes that a gateway has reported everything.
    pub fn reported_all(&mut self, gateway: usize, now: Timestamp) {
        let all = LedgerReport {
            at: now,
            until: now,
        };
        self.reports[gateway].push(all);
    }

    /// Returns how many units a gateway must count: its own, and what it must have heard of others'.
    pub fn known_to(&self, gateway: usize) -> i64 {
        let known = (self.entries.iter()).filter(|entry| {
            entry.gateway == gateway || entry.charged_at <= self.heard_until(gateway, entry.gateway)
        });
        known.map(|entry| entry.units).sum()
    }

    /// Returns how many units a gateway may count at most.
    pub fn known_max(&self, gateway: usize) -> i64 {
        let units = |entry: &LedgerEntry| match entry.units {
            back @ ..0 if entry.gateway == gateway => back,
            back @ ..0 if entry.at <= self.heard_until(gateway, entry.gateway) => back,
            units => units.max(0),
        };
        let known: i64 = self.entries.iter().map(units).sum();
        known + self.surplus_max
    }

    fn heard_until(&self, gateway: usize, other: usize) -> Timestamp {
        let asked = self.reported_until(gateway);
        let heard = self.reports[other].iter().rev();
        let heard = heard
            .skip_while(|report| report.at > asked)
            .map(|report| report.until);
        heard.max().unwrap_or(Timestamp(0))
    }

    fn reported_until(&self, gateway: usize) -> Timestamp {
        let last = self.reports[gateway].last();
        last.map_or(Timestamp(0), |report| report.until)
    }

    /// Returns what was spent at a gateway since there were so many entries.
    pub fn spent_since(&self, entries: usize, gateway: usize) -> i64 {
        let later = self.entries[entries..].iter();
        let own = later.filter(|entry| entry.gateway == gateway);
        own.map(|entry| entry.units).sum()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns what a gateway may not have reported of what it spent until `by`, and of what came back.
    fn unreported(&self, gateway: usize, by: Timestamp) -> (i64, i64) {
        let until = self.reported_until(gateway);
        let all = self.entries.iter().filter(|entry| {
            entry.gateway == gateway && entry.at > until && entry.at <= by && !entry.is_doubtful
        });
        all.fold((0, 0), |(spent, back), entry| {
            (spent + entry.units.max(0), back - entry.units.min(0))
        })
    }

    /// Notes that nobody knows what became of a report that began by then. What it gave back before a reset, if it did, is
    /// counted again: it may have given it back afterwards.
    pub fn lost_answer(&mut self, gateway: usize, by: Timestamp) {
        let (spent, back) = self.unreported(gateway, by);
        let before_reset = self.returned_before_reset.remove(&gateway);
        self.surplus_max += spent + back + before_reset.unwrap_or(0);
    }

    /// Notes that units may stay counted that nobody has.
    pub fn lost_units(&mut self, units: u64) {
        self.surplus_max += units.cast_signed();
    }

    pub fn killed(&mut self, gateway: usize) {
        let until = self.reported_until(gateway);
        for entry in &mut self.entries {
            entry.is_doubtful |= entry.gateway == gateway && entry.at > until;
        }
    }

    /// Notes a reset, while these gateways may be reporting what was spent before: that may count after the reset.
    pub fn reset(&mut self, reporting: &[usize], now: Timestamp) {
        self.surplus_max = 0;
        for gateway in reporting {
            let (spent, back) = self.unreported(*gateway, now);
            self.surplus_max += spent;
            *self.returned_before_reset.entry(*gateway).or_default() += back;
        }
        self.entries.clear();
    }

    /// Returns the least and the most that Redis may have counted, once all is reported.
    pub fn counted(&self) -> (i64, i64) {
        let entries = self.entries.iter();
        entries.fold((0, self.surplus_max), |(least, most), entry| {
            let (less, more) = if entry.is_doubtful {
                (entry.units.min(0), entry.units.max(0))
            } else {
                (entry.units, entry.units)
            };
            (least + less, most + more)
        })
    }
}
