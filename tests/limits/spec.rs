//! Runs the vectors of `tests/spec` (or of the directory named by `TOLLGATE_SPEC`) through every
//! implementation of the limits: each decision, to the microsecond.
//!
//! The cases of a single algorithm are plans of one quota. A [`Subject`] is what is under test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use futures_util::FutureExt;
use tollgate::clock::{Clock, Timestamp};
use tollgate::limit::plan::{Mode, SeriesId};
use tollgate::limit::{Adjustment, Charged, Check, Quota, Verdict};
use tollgate::store::{Charge, MemoryStore, Outcome, Role, Series, Session, Shape, Store};

use crate::ledger::{Quotas, check};
use crate::scripted::Scripted;
use crate::vectors::{Case, Expected, File, Step};

#[test]
fn pure_functions_reproduce_every_vector() {
    run(|quotas| Pure {
        quotas: Quotas::new(quotas),
        charges: Vec::new(),
    });
}

#[test]
fn memory_store_reproduces_every_vector() {
    run(InMemory::new);
}

#[test]
fn scripts_reproduce_every_vector_on_redis() {
    run(Scripted::new);
}

/// Something that decides a plan of fixed quotas, at times that may go back.
trait Subject {
    /// Decides and keeps the charge as the next one.
    fn decide(&mut self, now: Timestamp, cost: u64) -> Verdict;
    /// Gives back up to `amount` of the charge that the decision of that number made.
    fn release(&mut self, now: Timestamp, decision: usize, amount: u64);
    /// Spends in every quota of the plan.
    fn spend(&mut self, now: Timestamp, amount: u64);
}

/// The algorithms and the plan, without any store.
struct Pure {
    quotas: Quotas,
    charges: Vec<Vec<Option<Charged>>>,
}

impl Subject for Pure {
    fn decide(&mut self, now: Timestamp, cost: u64) -> Verdict {
        let verdict = self.quotas.decide(now, cost);
        let charged = verdict.answers.iter().map(|answer| answer.charged);
        self.charges.push(charged.collect());
        verdict
    }

    fn release(&mut self, now: Timestamp, decision: usize, amount: u64) {
        self.quotas
            .release(now, &mut self.charges[decision], amount);
    }

    fn spend(&mut self, now: Timestamp, amount: u64) {
        self.quotas.spend(now, amount);
    }
}

/// The memory store; each quota is a policy of its own.
struct InMemory {
    clock: Clock,
    session: Session,
    quotas: Vec<(Quota, Mode, SeriesId)>,
    charges: Vec<Charge>,
    /// A charge of nothing, which says into which quotas what is spent without asking goes.
    peek: Charge,
}

impl InMemory {
    fn new(quotas: Vec<(Quota, Mode)>) -> Self {
        let clock = Clock::manual(Timestamp(0));
        let store = Store::Memory(Arc::new(MemoryStore::new(clock.clone(), 1 << 20)));
        let series_id = |(index, (quota, mode)): (usize, (Quota, Mode))| {
            let series_id = store.series_id(&Series {
                policy: Arc::from(format!("policy-{index}")),
                role: Role::Real,
                shape: Shape::of(&quota),
                window: quota.window,
            });
            (quota, mode, series_id)
        };
        let mut subject = Self {
            quotas: quotas.into_iter().enumerate().map(series_id).collect(),
            clock,
            session: store.session(),
            charges: Vec::new(),
            peek: Charge::default(),
        };
        subject.decide(Timestamp(0), 0);
        subject.peek = subject.charges.remove(0);
        subject
    }
}

impl Subject for InMemory {
    fn decide(&mut self, now: Timestamp, cost: u64) -> Verdict {
        self.clock.set(now);
        let plan: Vec<Check<'_>> = (self.quotas.iter())
            .map(|(quota, mode, series_id)| check(quota, *mode, *series_id, cost))
            .collect();
        let Some(Outcome::Decided {
            verdict, charge, ..
        }) = self.session.decide(&plan).now_or_never()
        else {
            panic!("the memory store decides, and at once");
        };
        self.charges.push(charge);
        verdict
    }

    fn release(&mut self, now: Timestamp, decision: usize, amount: u64) {
        self.clock.set(now);
        let give_back = |_| Adjustment::GiveBack(amount);
        (self.session).settle_later(&mut self.charges[decision], give_back);
    }

    fn spend(&mut self, now: Timestamp, amount: u64) {
        self.clock.set(now);
        (self.session).settle_later(&mut self.peek, |_| Adjustment::Spend(amount));
    }
}

impl Subject for Scripted {
    fn decide(&mut self, now: Timestamp, cost: u64) -> Verdict {
        Self::decide(self, now, cost)
    }

    fn release(&mut self, now: Timestamp, decision: usize, amount: u64) {
        Self::release(self, now, decision, amount);
    }

    fn spend(&mut self, now: Timestamp, amount: u64) {
        Self::spend(self, now, amount);
    }
}

/// Runs every case of every file against a new subject and reports each case's first difference.
fn run<S: Subject>(subject: impl Fn(Vec<(Quota, Mode)>) -> S) {
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

fn toml_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.expect("a directory entry can be read").path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    files
}

fn run_case<S: Subject>(
    case: &Case,
    subject: impl Fn(Vec<(Quota, Mode)>) -> S,
) -> Result<(), String> {
    let mut subject = subject(case.quotas());
    // A release names a step; a charge belongs to a decision.
    let mut decision_of_step = Vec::new();
    let mut decisions = 0;
    for (number, step) in case.steps.iter().enumerate() {
        let now = |at_us: u64| Timestamp(case.start_us + at_us);
        decision_of_step.push(decisions);
        match step.clone().into() {
            Step::Decide {
                at_us,
                cost,
                expected,
            } => {
                decisions += 1;
                let found = found(&subject.decide(now(at_us), cost));
                if found != expected {
                    return Err(format!(
                        "step {number} ({step:?}):\n  expected {expected:?}\n  found    {found:?}"
                    ));
                }
            }
            Step::Release {
                at_us,
                step,
                amount,
            } => subject.release(now(at_us), decision_of_step[step], amount),
            Step::Spend { at_us, amount } => subject.spend(now(at_us), amount),
        }
    }
    Ok(())
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
