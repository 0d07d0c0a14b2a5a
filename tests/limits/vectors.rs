//! The files of vectors, read into quotas, steps and the decisions that they expect.

use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::Deserialize;
use tollgate::clock::Micros;
use tollgate::limit::plan::CheckMode;
use tollgate::limit::quota::COUNT_MAX;
use tollgate::limit::{
    Adjustment, Algorithm, Align, Calendar, CalendarUnit, Count, Decision, OldestBucket, Quota,
    Retry,
};

use crate::ledger::{Rows, calendar_of};

/// A file of `tests/spec`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub case: Vec<Case>,
}

/// What a step of a vector expects; the step fails if anything else is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub admit: bool,
    pub retry: Retry,
    pub wait: Micros,
    pub decisions: Vec<Decision>,
}

/// A step, as written in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Step {
    Decide(Decide),
    Settle {
        at_us: u64,
        settle: usize,
        /// Policies, each with the units to spend in addition, or to give back if the number is negative.
        units: Vec<(u16, i64)>,
        /// What the client is then told about that step's quotas.
        told: Vec<DecisionRow>,
    },
    Release {
        at_us: u64,
        release: usize,
        amount: u64,
    },
    Spend {
        at_us: u64,
        spend: u64,
    },
}

/// A decision, in whichever form it was written.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "DecideRow")]
pub struct Decide {
    pub at_us: u64,
    pub cost: u64,
    /// Indices of the quotas that the plan asks about; all of them if absent.
    pub of: Option<Vec<usize>>,
    pub expected: Expected,
}

/// A case of a plan (`quotas`) or of a single algorithm (the other keys).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    #[serde(rename = "why")]
    _why: String,
    pub start_us: u64,
    /// Lower bits of the partition's id.
    partition: Option<u64>,
    #[serde(default)]
    quotas: Vec<QuotaRow>,
    algorithm: Option<String>,
    quota: Option<u64>,
    window_us: Option<u64>,
    buckets: Option<u32>,
    leaving: Option<String>,
    burst: Option<u64>,
    queue: Option<u64>,
    count_all: Option<bool>,
    align: Option<String>,
    calendar: Option<CalendarRow>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaRow {
    algorithm: String,
    #[serde(default)]
    quota: u64,
    #[serde(default)]
    window_us: u64,
    #[serde(default)]
    initial: u64,
    growth: Option<u32>,
    buckets: Option<u32>,
    leaving: Option<String>,
    burst: Option<u64>,
    queue: Option<u64>,
    count_all: Option<bool>,
    mode: Option<String>,
    align: Option<String>,
    /// Number of the policy; one of its own if absent.
    policy: Option<u16>,
    /// Index of the row whose states it uses; its own if absent.
    series: Option<usize>,
    calendar: Option<CalendarRow>,
}

/// The calendar of a quota whose algorithm is `calendar`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CalendarRow {
    unit: String,
    time_zone: Option<String>,
    anchor_day: Option<u8>,
    /// Minutes after midnight.
    anchor_time: Option<u16>,
    /// The zone's rules as a POSIX string; the program's own data if absent.
    data: Option<String>,
}

impl Case {
    pub fn rows(&self) -> Rows {
        let single = self.algorithm.clone().map(|algorithm| QuotaRow {
            algorithm,
            quota: self.quota.expect("a single case names its quota"),
            window_us: self.window_us.unwrap_or(0),
            buckets: self.buckets,
            leaving: self.leaving.clone(),
            burst: self.burst,
            queue: self.queue,
            count_all: self.count_all,
            align: self.align.clone(),
            calendar: self.calendar.clone(),
            ..QuotaRow::default()
        });
        let written: Vec<QuotaRow> = self.quotas.iter().cloned().chain(single).collect();
        let mut rows = Rows::from(written.iter().map(QuotaRow::compile).collect::<Vec<_>>());
        for (index, row) in written.iter().enumerate() {
            rows.policies[index] = row.policy.unwrap_or(rows.policies[index]);
            rows.series[index] = row.series.unwrap_or(index);
        }
        rows.partition_low = self.partition.unwrap_or(rows.partition_low);
        rows
    }
}

impl QuotaRow {
    fn compile(&self) -> (Quota, CheckMode) {
        let algorithm = match self.algorithm.as_str() {
            "fixed-window" => Algorithm::FixedWindow,
            "calendar" => {
                let calendar = self.calendar.as_ref().expect("a calendar");
                Algorithm::Calendar(calendar.compile())
            }
            "sliding-window" => Algorithm::SlidingWindow {
                buckets: self.buckets.unwrap_or(10),
                oldest: match self.leaving.as_deref() {
                    None | Some("weighted") => OldestBucket::Weighted,
                    Some("whole") => OldestBucket::Whole,
                    Some("dropped") => OldestBucket::Dropped,
                    Some(other) => panic!("leaving = {other:?} is unknown"),
                },
            },
            "sliding-log" => Algorithm::SlidingLog,
            "gcra" => Algorithm::Gcra {
                burst: self.burst.unwrap_or(self.quota),
            },
            "leaky-bucket" => Algorithm::LeakyBucket {
                queue: self.queue.unwrap_or(0),
            },
            "credits" => Algorithm::Credits {
                initial: self.initial,
            },
            "in-flight" => Algorithm::InFlight,
            "penalty" => Algorithm::Penalty {
                length: Micros(self.window_us),
                growth: self.growth.unwrap_or(1),
            },
            other => panic!("algorithm = {other:?} is unknown"),
        };
        let quota = Quota {
            limit: match algorithm {
                Algorithm::Credits { .. } | Algorithm::Penalty { .. } => COUNT_MAX,
                _ => self.quota,
            },
            window: match algorithm {
                Algorithm::Calendar(calendar) => calendar.shape().unit.longest(),
                _ => Micros(self.window_us),
            },
            algorithm,
            count: match self.count_all {
                Some(true) => Count::All,
                _ => Count::Admitted,
            },
            align: match self.align.as_deref() {
                None | Some("epoch") => Align::Epoch,
                Some("spread") => Align::Spread,
                Some("first") => Align::First,
                Some(other) => panic!("align = {other:?} is unknown"),
            },
            can_come_back: true,
        };
        let mode = match self.mode.as_deref() {
            None | Some("enforce") => CheckMode::Enforce,
            Some("shadow") => CheckMode::Shadow,
            Some("candidate") => CheckMode::Candidate,
            Some("spill") => CheckMode::Spill,
            Some(other) => panic!("mode = {other:?} is unknown"),
        };
        (quota, mode)
    }
}

impl CalendarRow {
    fn compile(&self) -> &'static Calendar {
        let unit = match self.unit.as_str() {
            "day" => CalendarUnit::Day,
            "week" => CalendarUnit::Week,
            "month" => CalendarUnit::Month,
            other => panic!("unit = {other:?} is unknown"),
        };
        let time_zone = self.time_zone.as_deref().unwrap_or("UTC");
        let day = self.anchor_day.unwrap_or(1);
        let zone = match &self.data {
            Some(data) => TimeZone::posix(data),
            None => TimeZoneDatabase::bundled().get(time_zone),
        };
        let zone = zone.expect("a time zone");
        calendar_of(unit, (time_zone, zone), day, self.anchor_time.unwrap_or(0))
    }
}

/// admit, remaining (what is owed if negative), next, reset, retry, wait; times in µs.
type DecisionRow = (bool, i64, i64, u64, i64, u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum DecideRow {
    Single(u64, u64, bool, i64, i64, u64, i64),
    Held(u64, u64, bool, i64, i64, u64, i64, u64),
    Plan {
        at_us: u64,
        cost: u64,
        admit: bool,
        retry_us: i64,
        of: Option<Vec<usize>>,
        decisions: Vec<DecisionRow>,
    },
}

impl From<DecideRow> for Decide {
    fn from(row: DecideRow) -> Self {
        let single = |at_us, cost, decision: DecisionRow| DecideRow::Plan {
            at_us,
            cost,
            admit: decision.0,
            retry_us: decision.4,
            of: None,
            decisions: vec![decision],
        };
        match row {
            DecideRow::Single(at_us, cost, admit, remaining, next, reset, retry) => {
                single(at_us, cost, (admit, remaining, next, reset, retry, 0)).into()
            }
            DecideRow::Held(at_us, cost, admit, remaining, next, reset, retry, wait) => {
                single(at_us, cost, (admit, remaining, next, reset, retry, wait)).into()
            }
            DecideRow::Plan {
                at_us,
                cost,
                admit,
                retry_us,
                of,
                decisions,
            } => Self {
                at_us,
                cost,
                of,
                expected: Expected {
                    admit,
                    retry: retry(retry_us),
                    // A shadow's wait is 0, so this is the longest among the enforced ones.
                    wait: Micros(decisions.iter().map(|row| row.5).max().unwrap_or(0)),
                    decisions: decisions.into_iter().map(decision).collect(),
                },
            },
        }
    }
}

/// Returns the adjustment that spends this many units more, or gives units back if the number is negative.
pub fn adjustment_by(units: i64) -> Adjustment {
    let amount = units.unsigned_abs();
    if units < 0 {
        Adjustment::GiveBack(amount)
    } else {
        Adjustment::Spend(amount)
    }
}

pub fn decision(row: DecisionRow) -> Decision {
    let (admit, remaining, next_us, reset_us, retry_us, wait_us) = row;
    Decision {
        admit,
        remaining: remaining.max(0).unsigned_abs(),
        debt: remaining.min(0).unsigned_abs(),
        next: u64::try_from(next_us).ok().map(Micros),
        reset: Micros(reset_us),
        retry: retry(retry_us),
        wait: Micros(wait_us),
    }
}

/// Reads a retry, in which -1 means never.
fn retry(retry_us: i64) -> Retry {
    u64::try_from(retry_us).map_or(Retry::Never, |us| Retry::After(Micros(us)))
}
