//! A ledger over the pure functions alone: one state per series, and a clock that may go anywhere.

use jiff::tz::{TimeZone, TimeZoneDatabase};
use tollgate::clock::Timestamp;
use tollgate::limit::plan::{CheckMode, Ledger, Peek, PlanPolicy, SeriesId, Step};
use tollgate::limit::{
    Adjustment, Algorithm, AnyState, Calendar, CalendarShape, CalendarUnit, Charged, Check,
    CheckResult, PartitionId, Quota, Verdict, plan,
};
use tollgate::store::{Series, SeriesRole};

/// Makes a calendar with the time zone data that is part of the program, whatever data the system has.
pub fn calendar(unit: CalendarUnit, time_zone: &str, day: u8, minute: u16) -> &'static Calendar {
    let zone = TimeZoneDatabase::bundled().get(time_zone);
    calendar_of(
        unit,
        (time_zone, zone.expect("a zone of that name")),
        day,
        minute,
    )
}

/// Makes a calendar with the data of this zone.
pub fn calendar_of(
    unit: CalendarUnit,
    (time_zone, zone): (&str, TimeZone),
    day: u8,
    minute: u16,
) -> &'static Calendar {
    let shape = CalendarShape {
        unit,
        time_zone: time_zone.into(),
        anchor_day: day,
        anchor_minute: minute,
        is_own: false,
    };
    Calendar::of(shape, zone)
}

/// The quotas that plans of one partition ask about.
#[derive(Clone, Debug)]
pub struct Rows {
    pub quotas: Vec<(Quota, CheckMode)>,
    /// The policy of each quota: one of its own, unless a test says otherwise.
    pub policies: Vec<u16>,
    /// Index of the quota whose states each quota uses: its own, unless a test says otherwise.
    pub series: Vec<usize>,
    /// Lower bits of the partition's id, from which the phase follows.
    pub partition_low: u64,
}

impl From<Vec<(Quota, CheckMode)>> for Rows {
    fn from(quotas: Vec<(Quota, CheckMode)>) -> Self {
        Self {
            policies: (0..).take(quotas.len()).collect(),
            series: (0..quotas.len()).collect(),
            quotas,
            partition_low: 7,
        }
    }
}

impl Rows {
    pub fn all(&self) -> Vec<usize> {
        (0..self.quotas.len()).collect()
    }

    /// Returns the series of a quota, as stores name it.
    pub fn series_of(&self, row: usize) -> Series {
        let (quota, mode) = &self.quotas[row];
        let role = match mode {
            CheckMode::Candidate => SeriesRole::Candidate,
            _ => SeriesRole::Real,
        };
        Series::of(format!("policy-{}", self.series[row]), role, quota)
    }

    /// Makes a plan of some of the quotas; series ids are indices of the quotas.
    pub fn plan(&self, of: &[usize], cost: u64) -> Vec<Check<'_>> {
        let check_of = |&row: &usize| {
            let (quota, mode) = &self.quotas[row];
            let series = u32::try_from(self.series[row]).expect("few quotas");
            Check {
                policy: PlanPolicy(self.policies[row]),
                partition_id: PartitionId::new(self.partition_low.into()),
                ..check(
                    quota,
                    *mode,
                    SeriesId(series),
                    if quota.is_penalty() { 0 } else { cost },
                )
            }
        };
        of.iter().map(check_of).collect()
    }
}

/// The quotas of plans, and what has been spent of them.
#[derive(Clone, Debug)]
pub struct Quotas {
    pub rows: Rows,
    /// States by series.
    pub counters: Vec<AnyState>,
    pub now: Timestamp,
}

impl Quotas {
    pub fn new(rows: impl Into<Rows>) -> Self {
        let rows = rows.into();
        let quotas = rows.quotas.iter();
        Self {
            counters: quotas.map(|(quota, _)| AnyState::new(quota)).collect(),
            rows,
            now: Timestamp(0),
        }
    }

    pub fn decide(&mut self, now: Timestamp, cost: u64) -> Verdict {
        self.decide_some(now, &self.rows.all(), cost)
    }

    /// Decides a plan of some of the quotas.
    pub fn decide_some(&mut self, now: Timestamp, of: &[usize], cost: u64) -> Verdict {
        let rows = self.rows.clone();
        self.now = now;
        let mut verdict = Verdict::default();
        plan::decide(self, &rows.plan(of, cost), &mut verdict);
        verdict
    }

    /// Gives back or spends more of what one decision charged, and subtracts from `charged` what came back.
    pub fn settle(
        &mut self,
        now: Timestamp,
        charged: &mut [Option<Charged>],
        of: &[usize],
        adjustment: impl Fn(PlanPolicy) -> Adjustment,
    ) {
        for (charged, &row) in charged.iter_mut().zip(of) {
            let Some(charged) = charged else { continue };
            let (quota, counter) = (
                &self.rows.quotas[row].0,
                &mut self.counters[self.rows.series[row]],
            );
            let phase = quota.phase(PartitionId::new(self.rows.partition_low.into()));
            let at = counter.arrive(quota, now + phase);
            match adjustment(PlanPolicy(self.rows.policies[row])) {
                Adjustment::GiveBack(amount) => {
                    let amount = amount.min(charged.amount);
                    counter.release(quota, *charged, amount, at);
                    charged.amount -= amount;
                }
                Adjustment::Spend(amount) => counter.spend(quota, amount, at),
            }
        }
    }

    /// Gives back up to `amount` of what one decision charged, and subtracts it from `charged`.
    pub fn release(&mut self, now: Timestamp, charged: &mut [Option<Charged>], amount: u64) {
        let all = self.rows.all();
        self.settle(now, charged, &all, |_| Adjustment::GiveBack(amount));
    }

    /// Gives back units of the newest charge of every quota.
    #[allow(dead_code, reason = "the laws ask for it, the vectors do not")]
    pub fn release_newest(&mut self, now: Timestamp, amount: u64) {
        let partition_id = PartitionId::new(self.rows.partition_low.into());
        for ((quota, _), series) in self.rows.quotas.iter().zip(&self.rows.series) {
            let counter = &mut self.counters[*series];
            let at = counter.arrive(quota, now + quota.phase(partition_id));
            let newest = counter.newest(quota, at);
            counter.release(quota, newest, amount.min(newest.amount), at);
        }
    }

    /// Spends `amount` in every quota, without asking.
    pub fn spend(&mut self, now: Timestamp, amount: u64) {
        let nothing = Charged::plain(now, 0);
        let all = self.rows.all();
        let mut charged = vec![Some(nothing); all.len()];
        self.settle(now, &mut charged, &all, |_| Adjustment::Spend(amount));
    }

    /// Spends `amount` in every window in which a decision charged.
    #[allow(
        dead_code,
        reason = "the scripts are compared with it, the vectors do not ask for it"
    )]
    pub fn spend_then(&mut self, now: Timestamp, charged: &[Option<Charged>], amount: u64) {
        let partition_id = PartitionId::new(self.rows.partition_low.into());
        let rows = self.rows.quotas.iter().zip(&self.rows.series);
        for (((quota, _), series), charged) in rows.zip(charged) {
            if let Some(then) = charged.filter(|_| is_window(quota)) {
                let counter = &mut self.counters[*series];
                let at = counter.arrive(quota, now + quota.phase(partition_id));
                counter.spend_then(quota, amount, then, at);
            }
        }
    }
}

/// Returns whether units of a quota can later be counted in the window in which they were spent.
pub fn is_window(quota: &Quota) -> bool {
    matches!(
        quota.algorithm,
        Algorithm::FixedWindow | Algorithm::Calendar(_) | Algorithm::SlidingWindow { .. }
    )
}

impl Ledger for Quotas {
    fn peek(&mut self, _index: usize, check: &Check<'_>) -> Peek {
        let counter = &mut self.counters[check.series_id.0 as usize];
        let phase = check.quota.phase(check.partition_id);
        let at = counter.arrive(check.quota, self.now + phase);
        let admit = counter.admits(check.quota, check.cost, at);
        Peek { at, admit }
    }

    fn commit(&mut self, _index: usize, check: &Check<'_>, peek: Peek, step: Step) -> CheckResult {
        let counter = &mut self.counters[check.series_id.0 as usize];
        let charged = match step {
            Step::Charge => Some(counter.charge(check.quota, check.cost, peek.at)),
            Step::Leave => None,
        };
        let decision = counter.decision(check.quota, check.cost, peek.at, peek.admit);
        CheckResult {
            decision: Some(decision),
            charged,
        }
    }
}

/// Makes a check of the one partition that these tests use.
pub fn check(quota: &Quota, mode: CheckMode, series_id: SeriesId, cost: u64) -> Check<'_> {
    Check {
        cost,
        mode,
        ..Check::of(quota, series_id, PartitionId::new(7))
    }
}
