//! Units that gateways which count by themselves have admitted, and which of them they must know of each other.

use std::collections::BTreeMap;

use tollgate::clock::{Micros, Timestamp};

/// All units spent since the last reset.
pub struct Ledger {
    interval: Micros,
    entries: Vec<LedgerEntry>,
    /// Reports of each gateway, including those that have ended.
    reports: Vec<Vec<LedgerReport>>,
    /// Most units that may be counted though nobody has them: those sent again, and those that came late.
    surplus_max: i64,
    /// Units given back in reports that a reset found under way, by gateway.
    returned_before_reset: BTreeMap<usize, i64>,
}

/// Units that were spent at one gateway or, if negative, came back there.
struct LedgerEntry {
    gateway: usize,
    /// Time at which the units' request was decided.
    charged_at: Timestamp,
    at: Timestamp,
    units: i64,
    /// Whether the gateway was killed before it must have reported the units.
    is_doubtful: bool,
}

/// At `at`, Redis had all that the gateway spent until `until`, and the gateway had all that Redis had then.
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

    /// Adds a gateway, and returns its number. A gateway asks Redis before it counts by itself.
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

    /// Records that at `now` every report a gateway had begun was answered, and every one that was due had been begun;
    /// `before` is the previous time at which that was so.
    pub fn answered(&mut self, gateway: usize, before: Timestamp, now: Timestamp) {
        self.returned_before_reset.remove(&gateway);
        let until = before.min(now - self.interval);
        self.reports[gateway].push(LedgerReport { at: now, until });
    }

    /// Records that a gateway has reported everything.
    pub fn reported_all(&mut self, gateway: usize, now: Timestamp) {
        let all = LedgerReport {
            at: now,
            until: now,
        };
        self.reports[gateway].push(all);
    }

    /// Returns how many units a gateway must count: its own, and those of others that it must know of.
    pub fn known_to(&self, gateway: usize) -> i64 {
        let known = (self.entries.iter()).filter(|entry| {
            entry.gateway == gateway || entry.charged_at <= self.heard_until(gateway, entry.gateway)
        });
        known.map(|entry| entry.units).sum()
    }

    /// Returns the most units that a gateway may count.
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

    /// Returns the units spent at a gateway since there were `entries` entries.
    pub fn spent_since(&self, entries: usize, gateway: usize) -> i64 {
        let later = self.entries[entries..].iter();
        let own = later.filter(|entry| entry.gateway == gateway);
        own.map(|entry| entry.units).sum()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the units spent until `by`, and those given back, that a gateway may not have reported.
    fn unreported(&self, gateway: usize, by: Timestamp) -> (i64, i64) {
        let until = self.reported_until(gateway);
        let all = self.entries.iter().filter(|entry| {
            entry.gateway == gateway && entry.at > until && entry.at <= by && !entry.is_doubtful
        });
        all.fold((0, 0), |(spent, back), entry| {
            (spent + entry.units.max(0), back - entry.units.min(0))
        })
    }

    /// Records that nobody knows what became of a report that began by `by`. Units that it gave back before a reset are
    /// counted again, because it may have given them back only after that.
    pub fn lost_answer(&mut self, gateway: usize, by: Timestamp) {
        let (spent, back) = self.unreported(gateway, by);
        let before_reset = self.returned_before_reset.remove(&gateway);
        self.surplus_max += spent + back + before_reset.unwrap_or(0);
    }

    /// Records that units may stay counted that nobody has.
    pub fn lost_units(&mut self, units: u64) {
        self.surplus_max += units.cast_signed();
    }

    pub fn killed(&mut self, gateway: usize) {
        let until = self.reported_until(gateway);
        for entry in &mut self.entries {
            entry.is_doubtful |= entry.gateway == gateway && entry.at > until;
        }
    }

    /// Records a reset while these gateways may be reporting earlier units, which then count after the reset.
    pub fn reset(&mut self, reporting: &[usize], now: Timestamp) {
        self.surplus_max = 0;
        for gateway in reporting {
            let (spent, back) = self.unreported(*gateway, now);
            self.surplus_max += spent;
            *self.returned_before_reset.entry(*gateway).or_default() += back;
        }
        self.entries.clear();
    }

    /// Returns the least and the most units that Redis may have counted once everything is reported.
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
