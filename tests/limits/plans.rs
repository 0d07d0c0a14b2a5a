//! Whole plans on each store, compared with a model that looks at each quota by itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tollgate::clock::{Clock, Micros, Timestamp};
use tollgate::limit::plan::{CheckMode, PlanPolicy, SeriesId};
use tollgate::limit::{
    Adjustment, Algorithm, Align, AnyState, Charged, Check, CheckResult, Count, OldestBucket,
    PartitionId, Quota, Retry, Verdict,
};
use tollgate::store::settings::{Address, Deployment, Location, RedisSettings, Settings};
use tollgate::store::{Charge, MemoryStore, Series, SeriesRole, Session, Store, StoreVerdict};

use crate::scripted::shared;
use crate::traffic::START;

const PARTITIONS: u128 = 3;
/// Clients: a partition has two, one with the policies' own quotas and one with those of an override.
const CLIENTS: u128 = 2 * PARTITIONS;
const POLICIES: usize = 4;

/// A policy: its real quotas, then its candidates.
#[derive(Clone, Debug)]
struct Policy {
    rows: Vec<(Quota, CheckMode)>,
    /// The limit of all its quotas for clients with an override, which are every other one.
    overridden: u64,
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    /// Policies in the route's order, each with the client that the request has under it.
    Request {
        asked: Vec<(usize, u128)>,
        cost: u64,
    },
    /// Settles an earlier charge, with an adjustment for each policy.
    Settle {
        of: prop::sample::Index,
        adjustments: [Adjustment; POLICIES],
    },
    /// A reload changes the limit that overrides give.
    Reload { overridden: u64 },
}

/// A policy, one of its quotas, and a partition.
type Place = (usize, usize, u128);

/// The state of each quota by itself, and what each plan charged.
#[derive(Default)]
struct Model {
    counters: HashMap<Place, AnyState>,
    charges: Vec<Vec<ModelCharge>>,
}

/// What a plan charged a quota; `order` is the index of its policy in that plan.
struct ModelCharge {
    place: Place,
    order: u16,
    quota: Quota,
    charged: Option<Charged>,
}

/// One store under a clock that the test moves.
struct Subject {
    store: Store,
    session: Session,
    clock: Clock,
    runtime: Option<LocalRuntime>,
}

/// The verdict follows from each quota by itself: if an enforced one refuses, the plan is refused; a quota that counts
/// all is always charged; a candidate is charged unless another policy refuses; other quotas are charged if they and
/// the plan admit. Settling changes, by policy, what was charged.
#[test]
fn verdict_is_what_each_quota_says_by_itself() {
    for subject in [Subject::memory(), Subject::redis()] {
        let cases = ProptestConfig::with_cases(150);
        let strategy = (
            prop::collection::vec(policy(), POLICIES),
            prop::collection::vec((0..20_000_000_u64, event()), 1..60),
        );
        let ran = TestRunner::new(cases).run(&strategy, |(policies, events)| {
            subject.agrees(policies, events)
        });
        if let Err(difference) = ran {
            panic!("{difference}");
        }
    }
}

impl Policy {
    /// Returns a quota as it applies to a client.
    fn quota(&self, row: usize, client: u128) -> Quota {
        let (own, _) = self.rows[row];
        let limit = self.overridden;
        let overridden = Quota {
            limit,
            algorithm: match own.algorithm {
                Algorithm::Gcra { .. } => Algorithm::Gcra { burst: limit },
                Algorithm::LeakyBucket { .. } => Algorithm::LeakyBucket { queue: limit - 1 },
                Algorithm::Credits { .. } => Algorithm::Credits { initial: limit },
                other => other,
            },
            ..own
        };
        if client % 2 == 1 { overridden } else { own }
    }
}

impl Model {
    fn decide(
        &mut self,
        policies: &[Policy],
        now: Timestamp,
        asked: &[(usize, u128)],
        cost: u64,
    ) -> Verdict {
        let mut found = Vec::new();
        for (order, &(policy, client)) in (0..).zip(asked) {
            for (row, &(_, mode)) in policies[policy].rows.iter().enumerate() {
                let quota = policies[policy].quota(row, client);
                let place = (policy, row, client / 2);
                let counter = self.counters.entry(place);
                let counter = counter.or_insert_with(|| AnyState::new(&quota));
                let at = counter.arrive(&quota, now + quota.phase(partition_id(place)));
                let admits = counter.admits(&quota, cost, at);
                found.push((place, order, mode, quota, at, admits));
            }
        }
        let refusing: Vec<u16> = (found.iter())
            .filter(|(_, _, mode, .., admits)| *mode == CheckMode::Enforce && !admits)
            .map(|(_, order, ..)| *order)
            .collect();
        let admit = refusing.is_empty();
        let mut verdict = Verdict {
            admit,
            retry: Retry::NOW,
            wait: Micros(0),
            answers: smallvec::SmallVec::new(),
        };
        let over: HashSet<(u16, CheckMode)> = (found.iter())
            .filter(|(.., admits)| !admits)
            .map(|(_, order, mode, ..)| (*order, *mode))
            .collect();
        let mut spent = Vec::new();
        for (place, order, mode, quota, at, admits) in found {
            let is_in_the_way = |policy: &u16| mode != CheckMode::Candidate || *policy != order;
            let counts = !over.contains(&(order, mode)) && !refusing.iter().any(is_in_the_way);
            let counter = self.counters.get_mut(&place).expect("it was looked at");
            let mut charged = None;
            if counts || quota.count == Count::All {
                charged = Some(counter.charge(&quota, cost, at));
            }
            let mut decision = counter.decision(&quota, cost, at, admits);
            if admit && mode == CheckMode::Enforce {
                decision.wait = charged.map_or(Micros(0), |charged| quota.wait(&charged));
                verdict.wait = verdict.wait.max(decision.wait);
            }
            if !admits && mode == CheckMode::Enforce {
                verdict.retry = verdict.retry.max(decision.retry);
            }
            let charged = charged.filter(|_| admit && admits);
            spent.push(ModelCharge {
                place,
                order,
                quota,
                charged,
            });
            verdict.answers.push(CheckResult {
                decision: Some(decision),
                charged,
            });
        }
        self.charges.push(spent);
        verdict
    }

    fn settle(&mut self, now: Timestamp, of: usize, adjustment: impl Fn(PlanPolicy) -> Adjustment) {
        for charge in &mut self.charges[of] {
            let (place, quota) = (charge.place, &charge.quota);
            let Some(charged) = &mut charge.charged else {
                continue;
            };
            let counter = self.counters.get_mut(&place).expect("it was charged");
            let at = counter.arrive(quota, now + quota.phase(partition_id(place)));
            match adjustment(PlanPolicy(charge.order)) {
                Adjustment::GiveBack(amount) => {
                    let amount = amount.min(charged.amount);
                    counter.release(quota, *charged, amount, at);
                    charged.amount -= amount;
                }
                Adjustment::Spend(amount) => counter.spend(quota, amount, at),
            }
        }
    }
}

impl Subject {
    fn memory() -> Self {
        let clock = Clock::manual(START);
        let store = Store::Memory(Arc::new(MemoryStore::new(clock.clone(), 1 << 30)));
        Self {
            session: store.session(),
            store,
            clock,
            runtime: None,
        }
    }

    fn redis() -> Self {
        let clock = Clock::manual(START);
        let server = shared().address();
        let address = Address {
            host: server.ip().to_string().into(),
            port: server.port(),
        };
        let redis = RedisSettings::plain(Deployment::Single(address));
        let settings = Settings {
            location: Location::Redis(redis),
            timeout: Duration::from_secs(20),
            refusal_cache: Duration::ZERO,
            ..Settings::default()
        };
        let memory = Arc::new(MemoryStore::new(clock.clone(), 1 << 20));
        let store = Store::open(&settings, memory, clock.clone(), &[9; 32]);
        let runtime = (Builder::new_current_thread().enable_all())
            .build_local(LocalOptions::default())
            .expect("a runtime");
        Self {
            session: runtime.block_on(async { store.session() }),
            store,
            clock,
            runtime: Some(runtime),
        }
    }

    fn agrees(
        &self,
        mut policies: Vec<Policy>,
        events: Vec<(u64, Event)>,
    ) -> Result<(), TestCaseError> {
        let series_ids = self.series_ids(&policies);
        let (mut model, mut charges) = (Model::default(), Vec::new());
        for (wait_us, event) in events {
            self.clock.advance(Micros(wait_us));
            let now = self.clock.now();
            match event {
                Event::Request { asked, cost } => {
                    let expected = model.decide(&policies, now, &asked, cost);
                    let (verdict, charge) = self.decide(&policies, &series_ids, &asked, cost);
                    prop_assert_eq!(verdict, expected);
                    charges.push(charge);
                }
                Event::Settle { of, adjustments } if !charges.is_empty() => {
                    let of = of.index(charges.len());
                    let adjustment = |policy| adjustments[usize::from(policy)];
                    model.settle(now, of, adjustment);
                    self.settle(&mut charges[of], adjustment);
                }
                Event::Settle { .. } => {}
                Event::Reload { overridden } => {
                    for policy in &mut policies {
                        policy.overridden = overridden;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns series ids for the policies, under names that no other case uses.
    fn series_ids(&self, policies: &[Policy]) -> Vec<Vec<SeriesId>> {
        static CASES: AtomicU64 = AtomicU64::new(0);
        let case = CASES.fetch_add(1, Relaxed);
        let series_id = |index: usize, (quota, mode): &(Quota, CheckMode)| {
            let role = match mode {
                CheckMode::Candidate => SeriesRole::Candidate,
                _ => SeriesRole::Real,
            };
            let series = Series::of(format!("case-{case}-{index}"), role, quota);
            self.store.series_id(&series)
        };
        let of = |(index, policy): (usize, &Policy)| {
            let rows = policy.rows.iter();
            rows.map(|row| series_id(index, row)).collect()
        };
        policies.iter().enumerate().map(of).collect()
    }

    fn decide(
        &self,
        policies: &[Policy],
        series_ids: &[Vec<SeriesId>],
        asked: &[(usize, u128)],
        cost: u64,
    ) -> (Verdict, Charge) {
        let rows: Vec<_> = (0..)
            .zip(asked)
            .flat_map(|(order, &(policy, client))| {
                let row = move |row| {
                    let quota = policies[policy].quota(row, client);
                    (order, (policy, row, client / 2), quota)
                };
                (0..policies[policy].rows.len()).map(row)
            })
            .collect();
        let plan: Vec<Check<'_>> = (rows.iter())
            .map(|(order, place, quota)| Check {
                policy: PlanPolicy(*order),
                cost,
                mode: policies[place.0].rows[place.1].1,
                ..Check::of(quota, series_ids[place.0][place.1], partition_id(*place))
            })
            .collect();
        match self.wait(self.session.decide(&plan)) {
            StoreVerdict::Decided {
                verdict,
                charge,
                is_degraded: false,
            } => (verdict, charge),
            other => panic!("the store did not decide: {other:?}"),
        }
    }

    fn settle(&self, charge: &mut Charge, adjustment: impl Fn(PlanPolicy) -> Adjustment) {
        self.wait(async {
            self.session.settle_later(charge, adjustment);
            self.session.finish().await;
        });
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => futures_util::FutureExt::now_or_never(future).expect("memory never waits"),
        }
    }
}

/// The partition id depends on the client alone, not on the policy or quota.
fn partition_id((_, _, partition): Place) -> PartitionId {
    PartitionId::new((partition + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn policy() -> impl Strategy<Value = Policy> {
    let oldest = prop::sample::select(vec![
        OldestBucket::Weighted,
        OldestBucket::Whole,
        OldestBucket::Dropped,
    ]);
    let sliding = (prop::sample::select(vec![1, 2, 10]), oldest);
    let algorithm = prop_oneof![
        Just(Algorithm::FixedWindow),
        sliding.prop_map(|(buckets, oldest)| Algorithm::SlidingWindow { buckets, oldest }),
        Just(Algorithm::SlidingLog),
        (1..8_u64).prop_map(|burst| Algorithm::Gcra { burst }),
        (0..8_u64).prop_map(|queue| Algorithm::LeakyBucket { queue }),
        (0..40_u64).prop_map(|initial| Algorithm::Credits { initial }),
    ];
    let count = prop_oneof![3 => Just(Count::Admitted), 1 => Just(Count::All)];
    let align = prop_oneof![Just(Align::Epoch), Just(Align::Spread)];
    let mode = prop_oneof![3 => Just(CheckMode::Enforce), 1 => Just(CheckMode::Shadow)];
    let real = prop::collection::vec(1..12_u64, 1..3);
    let candidates = prop::collection::vec(1..12_u64, 0..3);
    let limits = (real, candidates, 1..12_u64);
    (algorithm, count, align, mode, limits).prop_map(
        |(algorithm, count, align, mode, (real, candidates, overridden))| {
            let never_all = matches!(
                algorithm,
                Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } | Algorithm::Credits { .. }
            );
            // The quotas of a policy differ in their windows.
            let row = |(minutes, limit): (u64, u64), mode| {
                let quota = Quota {
                    count: if never_all { Count::Admitted } else { count },
                    align,
                    ..Quota::of(algorithm, limit, Micros::from_secs(60 * minutes))
                };
                (quota, mode)
            };
            let real = (1..).zip(real).map(|quota| row(quota, mode));
            let candidates = (1..)
                .zip(candidates)
                .map(|quota| row(quota, CheckMode::Candidate));
            Policy {
                rows: real.chain(candidates).collect(),
                overridden,
            }
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let order = Just((0..POLICIES).collect::<Vec<_>>()).prop_shuffle();
    let clients = prop::collection::vec(0..CLIENTS, POLICIES);
    let request =
        (order, 1..=POLICIES, clients, 0..6_u64).prop_map(|(order, count, clients, cost)| {
            Event::Request {
                asked: order.into_iter().zip(clients).take(count).collect(),
                cost,
            }
        });
    let adjustment = prop_oneof![
        (0..8_u64).prop_map(Adjustment::GiveBack),
        (0..8_u64).prop_map(Adjustment::Spend),
    ];
    let settle = (
        any::<prop::sample::Index>(),
        prop::array::uniform4(adjustment),
    );
    prop_oneof![
        12 => request,
        1 => (1..12_u64).prop_map(|overridden| Event::Reload { overridden }),
        3 => settle.prop_map(|(of, adjustments)| Event::Settle { of, adjustments }),
    ]
}
