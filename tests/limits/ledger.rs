//! A ledger over the pure functions alone: one state per check, and a clock that goes anywhere.

use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::fixed_window::FixedWindow;
use tollgate::limit::gcra::Gcra;
use tollgate::limit::plan::{Ledger, Mode, OnStoreFailure, Peek, SeriesId, Step};
use tollgate::limit::sliding_log::SlidingLog;
use tollgate::limit::sliding_window::SlidingWindow;
use tollgate::limit::{
    Algorithm, Charged, Check, Decision, PartitionId, Quota, State, Verdict, plan,
};

/// The state of any algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counter {
    FixedWindow(FixedWindow),
    SlidingWindow(SlidingWindow),
    SlidingLog(SlidingLog),
    Gcra(Gcra),
}

/// Calls a method of whichever state a counter holds.
macro_rules! state {
    ($counter:expr, $state:ident => $call:expr) => {
        match $counter {
            Counter::FixedWindow($state) => $call,
            Counter::SlidingWindow($state) => $call,
            Counter::SlidingLog($state) => $call,
            Counter::Gcra($state) => $call,
        }
    };
}

impl Counter {
    pub fn new(quota: &Quota) -> Self {
        match quota.algorithm {
            Algorithm::FixedWindow => Self::FixedWindow(FixedWindow::default()),
            Algorithm::SlidingWindow { .. } => Self::SlidingWindow(SlidingWindow::default()),
            Algorithm::SlidingLog => Self::SlidingLog(SlidingLog::default()),
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => Self::Gcra(Gcra::default()),
        }
    }

    pub fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        state!(self, state => state.arrive(quota, now))
    }

    pub fn admits(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        state!(self, state => state.admits(quota, cost, at))
    }

    pub fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Micros {
        state!(self, state => state.charge(quota, cost, at))
    }

    pub fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        state!(self, state => state.decision(quota, cost, at, admit))
    }

    pub fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, at: Timestamp) {
        state!(self, state => state.release(quota, charged, amount, at));
    }

    pub fn spend(&mut self, quota: &Quota, amount: u64, at: Timestamp) {
        state!(self, state => state.spend(quota, amount, at));
    }

    #[allow(dead_code, reason = "the laws ask for it, the vectors do not")]
    pub fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool {
        state!(self, state => state.is_whole(quota, at))
    }
}

/// The quotas of one plan, enforced or in shadow, and what has been spent of them.
#[derive(Clone, Debug)]
pub struct Quotas {
    pub asked: Vec<(Quota, Mode)>,
    pub counters: Vec<Counter>,
    pub now: Timestamp,
}

impl Quotas {
    pub fn new(quotas: Vec<(Quota, Mode)>) -> Self {
        Self {
            counters: quotas
                .iter()
                .map(|(quota, _)| Counter::new(quota))
                .collect(),
            asked: quotas,
            now: Timestamp(0),
        }
    }

    pub fn decide(&mut self, now: Timestamp, cost: u64) -> Verdict {
        let quotas = self.asked.clone();
        let plan: Vec<Check<'_>> = (quotas.iter())
            .map(|(quota, mode)| check(quota, *mode, SeriesId(0), cost))
            .collect();
        self.now = now;
        plan::decide(self, &plan)
    }

    /// Gives back up to `amount` of what one decision charged, and notes what still stands.
    pub fn release(&mut self, now: Timestamp, charged: &mut [Option<Charged>], amount: u64) {
        for (index, charged) in charged.iter_mut().enumerate() {
            let Some(charged) = charged else { continue };
            let amount = amount.min(charged.amount);
            let (quota, counter) = (&self.asked[index].0, &mut self.counters[index]);
            let at = counter.arrive(quota, now);
            counter.release(quota, *charged, amount, at);
            charged.amount -= amount;
        }
    }

    pub fn spend(&mut self, now: Timestamp, amount: u64) {
        for (counter, (quota, _)) in self.counters.iter_mut().zip(&self.asked) {
            let at = counter.arrive(quota, now);
            counter.spend(quota, amount, at);
        }
    }
}

impl Ledger for Quotas {
    fn peek(&mut self, index: usize, check: &Check<'_>) -> Peek {
        let counter = &mut self.counters[index];
        let at = counter.arrive(check.quota, self.now);
        let admit = counter.admits(check.quota, check.cost, at);
        Peek { at, admit }
    }

    fn commit(
        &mut self,
        index: usize,
        check: &Check<'_>,
        peek: Peek,
        step: Step,
    ) -> Option<Decision> {
        let counter = &mut self.counters[index];
        let wait = match step {
            Step::Charge => counter.charge(check.quota, check.cost, peek.at),
            Step::Leave => Micros(0),
        };
        let decision = counter.decision(check.quota, check.cost, peek.at, peek.admit);
        Some(Decision { wait, ..decision })
    }
}

/// Makes a check of the one partition that tests use.
pub fn check(quota: &Quota, mode: Mode, series_id: SeriesId, cost: u64) -> Check<'_> {
    Check {
        policy: 0,
        quota,
        series_id,
        partition_id: PartitionId::new(7),
        cost,
        mode,
        on_store_failure: OnStoreFailure::Local,
    }
}
