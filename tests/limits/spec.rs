//! Runs the vectors of `tests/spec` (or of the directory named by `TOLLGATE_SPEC`) through every
//! implementation of the limits: each decision, to the microsecond.
//!
//! The cases of a single algorithm are plans of one quota. A [`Subject`] is what is under test.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use futures_util::FutureExt;
use tollgate::clock::{Clock, Timestamp};
use tollgate::limit::plan::{PlanPolicy, SeriesId};
use tollgate::limit::{Adjustment, Charged, Decision, Verdict};
use tollgate::store::{Charge, MemoryStore, SeriesStates, Session, Store, StoreVerdict};

use crate::ledger::{Quotas, Rows};
use crate::scripted::Scripted;
use crate::support::toml_files;
use crate::vectors::{Case, Decide, Expected, File, Step, adjustment_by, decision};

#[test]
fn pure_functions_reproduce_every_vector() {
    run(Pure::new);
}

#[test]
fn memory_store_reproduces_every_vector() {
    run(InMemory::new);
}

#[test]
fn memory_stores_that_pass_their_counters_on_reproduce_every_vector() {
    run_if(has_no_units_in_flight, |rows| InMemory {
        passes_on: true,
        ..InMemory::new(rows)
    });
}

#[test]
fn scripts_reproduce_every_vector_on_redis() {
    run(Scripted::new);
}

/// Returns whether no quota counts units in flight. These are not handed over: each process counts its own requests.
fn has_no_units_in_flight(rows: &Rows) -> bool {
    let mut quotas = rows.quotas.iter();
    !quotas.any(|(quota, _)| quota.is_in_flight())
}

/// Something that decides plans of fixed quotas, at times that may go back.
pub trait Subject {
    /// Decides a plan of these quotas, and keeps its charge, which is the next by number.
    fn decide(&mut self, now: Timestamp, of: &[usize], cost: u64) -> Verdict;
    /// Settles what the decision of that number charged these quotas.
    fn settle(
        &mut self,
        now: Timestamp,
        decision: usize,
        of: &[usize],
        adjustment: &dyn Fn(PlanPolicy) -> Adjustment,
    );
    /// Spends `amount` in every quota, without asking.
    fn spend(&mut self, now: Timestamp, amount: u64);
}

/// The algorithms and the plan, without any store.
pub struct Pure {
    quotas: Quotas,
    charges: Vec<Vec<Option<Charged>>>,
}

impl Pure {
    pub fn new(rows: Rows) -> Self {
        Self {
            quotas: Quotas::new(rows),
            charges: Vec::new(),
        }
    }
}

impl Subject for Pure {
    fn decide(&mut self, now: Timestamp, of: &[usize], cost: u64) -> Verdict {
        let verdict = self.quotas.decide_some(now, of, cost);
        let charged = verdict.answers.iter().map(|answer| answer.charged);
        self.charges.push(charged.collect());
        verdict
    }

    fn settle(
        &mut self,
        now: Timestamp,
        decision: usize,
        of: &[usize],
        adjustment: &dyn Fn(PlanPolicy) -> Adjustment,
    ) {
        (self.quotas).settle(now, &mut self.charges[decision], of, adjustment);
    }

    fn spend(&mut self, now: Timestamp, amount: u64) {
        self.quotas.spend(now, amount);
    }
}

/// The memory store, perhaps with a hand-over before each step.
struct InMemory {
    clock: Clock,
    session: Session,
    rows: Rows,
    /// Series ids by row.
    series_ids: Vec<SeriesId>,
    charges: Vec<Charge>,
    /// A charge of nothing in every quota, through which units are spent without asking.
    nothing: Charge,
    /// Whether each step has a new memory store, to which the one before has handed its counters over.
    passes_on: bool,
}

impl InMemory {
    fn new(rows: Rows) -> Self {
        let clock = Clock::manual(Timestamp(0));
        let store = Store::Memory(Arc::new(MemoryStore::new(clock.clone(), 1 << 20)));
        let series_id = |row| store.series_id(&rows.series_of(row));
        let mut subject = Self {
            series_ids: rows.all().into_iter().map(series_id).collect(),
            rows,
            clock,
            session: store.session(),
            charges: Vec::new(),
            nothing: Charge::default(),
            passes_on: false,
        };
        subject.decide(Timestamp(0), &subject.rows.all(), 0);
        subject.nothing = subject.charges.remove(0);
        subject
    }

    /// Sets the clock to the time of the next step, and hands the counters over if each step has its own store.
    fn begin(&mut self, now: Timestamp) {
        if self.passes_on {
            self.pass_on();
        }
        self.clock.set(now);
    }

    fn pass_on(&mut self) {
        let Session::Memory(old) = &self.session else {
            panic!("counters in memory");
        };
        let new = MemoryStore::new(self.clock.clone(), 1 << 20);
        let plan = self.rows.plan(&self.rows.all(), 0);
        let counted = plan.iter().zip(self.rows.all()).map(|(check, row)| {
            let series = self.rows.series_of(row);
            let series_id = new.series_id(&series);
            (series, (series_id, check.quota))
        });
        let counted: HashMap<_, _> = counted.collect();
        for states in (0..old.parts()).flat_map(|index| old.part(index)) {
            let sent = postcard::to_stdvec(&states).expect("plain data");
            let received: SeriesStates = postcard::from_bytes(&sent).expect("the same data");
            let (series_id, quota) = counted[&received.series];
            new.adopt(series_id, quota, received);
        }
        self.session = Session::Memory(Arc::new(new));
    }
}

impl Subject for InMemory {
    fn decide(&mut self, now: Timestamp, of: &[usize], cost: u64) -> Verdict {
        self.begin(now);
        let mut plan = self.rows.plan(of, cost);
        for (check, &row) in plan.iter_mut().zip(of) {
            check.series_id = self.series_ids[row];
        }
        let Some(StoreVerdict::Decided {
            verdict, charge, ..
        }) = self.session.decide(&plan).now_or_never()
        else {
            panic!("the memory store decides, and at once");
        };
        self.charges.push(charge);
        verdict
    }

    fn settle(
        &mut self,
        now: Timestamp,
        decision: usize,
        _of: &[usize],
        adjustment: &dyn Fn(PlanPolicy) -> Adjustment,
    ) {
        self.begin(now);
        (self.session).settle_later(&mut self.charges[decision], adjustment);
    }

    fn spend(&mut self, now: Timestamp, amount: u64) {
        self.begin(now);
        (self.session).settle_later(&mut self.nothing, |_| Adjustment::Spend(amount));
    }
}

impl Subject for Scripted {
    fn decide(&mut self, now: Timestamp, of: &[usize], cost: u64) -> Verdict {
        self.decide_some(now, of, cost)
    }

    fn settle(
        &mut self,
        now: Timestamp,
        decision: usize,
        of: &[usize],
        adjustment: &dyn Fn(PlanPolicy) -> Adjustment,
    ) {
        Self::settle(self, now, decision, of, adjustment);
    }

    fn spend(&mut self, now: Timestamp, amount: u64) {
        Self::spend(self, now, amount);
    }
}

/// Runs every case of every file against a new subject and reports each case's first difference.
fn run<S: Subject>(subject: impl Fn(Rows) -> S) {
    run_if(|_| true, subject);
}

/// As [`run`], but only for the cases that the subject supports.
fn run_if<S: Subject>(is_for: impl Fn(&Rows) -> bool, subject: impl Fn(Rows) -> S) {
    let directory = env::var_os("TOLLGATE_SPEC").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec"),
        PathBuf::from,
    );
    let mut failures = Vec::new();
    let mut cases = 0;
    for file in toml_files(&directory) {
        let text = fs::read_to_string(&file).expect("a vector file can be read");
        let parsed: File = toml::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: not a vector file: {error}", file.display()));
        for case in parsed.case {
            if !is_for(&case.rows()) {
                continue;
            }
            cases += 1;
            if let Err(difference) = run_case(&case, &subject) {
                failures.push(format!("{}: {}: {difference}", file.display(), case.name));
            }
        }
    }
    assert!(cases > 0, "{} holds no case", directory.display());
    assert!(
        failures.is_empty(),
        "{} of {cases} cases differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// A decision, and the quotas that it was asked of.
struct Decided {
    of: Vec<usize>,
    verdict: Verdict,
}

fn run_case<S: Subject>(case: &Case, subject: impl Fn(Rows) -> S) -> Result<(), String> {
    let rows = case.rows();
    let mut subject = subject(rows.clone());
    // A settlement names a step; a charge belongs to a decision.
    let mut decision_of_step = Vec::new();
    let mut decided: Vec<Decided> = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        let now = |at_us: u64| Timestamp(case.start_us + at_us);
        decision_of_step.push(decided.len());
        let (found, expected) = match step.clone() {
            Step::Decide(Decide {
                at_us,
                cost,
                of,
                expected,
            }) => {
                let of = of.unwrap_or_else(|| rows.all());
                let verdict = subject.decide(now(at_us), &of, cost);
                let found = found(&verdict);
                decided.push(Decided { of, verdict });
                (found, expected)
            }
            Step::Release {
                at_us,
                release,
                amount,
            } => {
                let (of, decision) = (rows.all(), decision_of_step[release]);
                let give_back = |_| Adjustment::GiveBack(amount);
                subject.settle(now(at_us), decision, &of, &give_back);
                continue;
            }
            Step::Spend { at_us, spend } => {
                subject.spend(now(at_us), spend);
                continue;
            }
            Step::Settle {
                at_us,
                settle,
                units,
                told,
            } => {
                let index = decision_of_step[settle];
                let settled = &decided[index];
                let adjustment = |PlanPolicy(policy)| {
                    let named = units.iter().find(|(named, _)| *named == policy);
                    named.map_or(Adjustment::NONE, |(_, units)| adjustment_by(*units))
                };
                subject.settle(now(at_us), index, &settled.of, &adjustment);
                let mut found = found(&settled.verdict);
                found.decisions = settled.adjusted(&rows, adjustment);
                let expected = Expected {
                    decisions: told.into_iter().map(decision).collect(),
                    ..self::found(&settled.verdict)
                };
                (found, expected)
            }
        };
        if found != expected {
            return Err(format!(
                "step {number} ({step:?}):\n  expected {expected:?}\n  found    {found:?}"
            ));
        }
    }
    Ok(())
}

impl Decided {
    /// Returns what a client is told once the charge is settled.
    fn adjusted(
        &self,
        rows: &Rows,
        adjustment: impl Fn(PlanPolicy) -> Adjustment,
    ) -> Vec<Decision> {
        let answers = self.of.iter().zip(&self.verdict.answers);
        let decisions = answers.map(|(&row, answer)| {
            let decision = answer.decision.expect("nothing fails here");
            let adjustment = adjustment(PlanPolicy(rows.policies[row]));
            answer.charged.map_or(decision, |charged| {
                adjustment.adjusted(decision, &rows.quotas[row].0, charged.amount)
            })
        });
        decisions.collect()
    }
}

fn found(verdict: &Verdict) -> Expected {
    Expected {
        admit: verdict.admit,
        retry: verdict.retry,
        wait: verdict.wait,
        decisions: (verdict.answers.iter())
            .map(|answer| answer.decision.expect("nothing fails here"))
            .collect(),
    }
}
