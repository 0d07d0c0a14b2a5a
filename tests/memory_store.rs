//! The memory store through its public face: one atomic step, a bound, and what gives way to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use futures_util::FutureExt;
use smallvec::SmallVec;
use tollgate::clock::{Clock, Micros, Timestamp};
use tollgate::limit::plan::{Mode, OnStoreFailure, Slot};
use tollgate::limit::tag::Tagger;
use tollgate::limit::{Algorithm, Ask, Count, Decision, Leaving, Quota, Retry, Tag, Verdict};
use tollgate::store::{Charge, MemoryStore, Outcome, Series, Store, Usage};

const ROOMY: u64 = 1 << 30;
const TIGHT: u64 = 96 << 10;
const WINDOW: Micros = Micros::from_secs(60);
/// Calls of `sweep` that pass over the whole store.
const WHOLE_SWEEP: usize = 33;

struct Gateway {
    store: Store,
    clock: Clock,
}

impl Gateway {
    fn new(bytes_max: u64) -> Self {
        // A window's start, so that nothing ages unless a test says so.
        let clock = Clock::manual(Timestamp(1_700_000_040 * 1_000_000));
        let store = Store::Memory(MemoryStore::new(clock.clone(), bytes_max));
        Self { store, clock }
    }

    fn memory(&self) -> &MemoryStore {
        let Store::Memory(memory) = &self.store;
        memory
    }

    fn usage(&self) -> Usage {
        self.memory().usage()
    }

    fn sweep(&self) {
        for _ in 0..WHOLE_SWEEP {
            self.memory().sweep();
        }
    }

    fn slot(&self, policy: &str, quota: &Quota) -> Slot {
        self.store.slot(&Series {
            policy: Arc::from(policy),
            shape: quota.algorithm.into(),
            window: quota.window,
        })
    }

    fn decide(&self, plan: &[Ask<'_>]) -> (Verdict, Charge) {
        match self.outcome(plan) {
            Outcome::Decided { verdict, charge } => (verdict, charge),
            Outcome::Unavailable { .. } => panic!("the store did not decide"),
        }
    }

    fn outcome(&self, plan: &[Ask<'_>]) -> Outcome {
        let outcome = self.store.decide(plan).now_or_never();
        outcome.expect("memory never waits")
    }

    fn admits(&self, ask: Ask<'_>) -> bool {
        self.decide(&[ask]).0.admit
    }

    fn look(&self, plan: &[Ask<'_>]) -> SmallVec<[Decision; 4]> {
        let looks = self.store.look(plan).now_or_never();
        looks.expect("memory never waits")
    }

    fn remaining(&self, ask: Ask<'_>) -> u64 {
        self.look(&[Ask { cost: 0, ..ask }])[0].remaining
    }

    fn release(&self, charge: Charge, amount: u64) -> Charge {
        let rest = self.store.release(charge, amount).now_or_never();
        rest.expect("memory never waits")
    }

    fn spend(&self, charge: &Charge, amount: u64) {
        let spent = self.store.spend(charge, amount).now_or_never();
        spent.expect("memory never waits");
    }

    fn reset(&self, ask: Ask<'_>) {
        let reset = self.store.reset(ask.slot, ask.tag).now_or_never();
        reset.expect("memory never waits");
    }

    /// Sends one request of each of `keys` clients; returns how many were admitted.
    fn flood(&self, ask: Ask<'_>, keys: std::ops::Range<u64>) -> u64 {
        let admitted = keys.filter(|key| {
            self.admits(Ask {
                tag: tag(*key),
                ..ask
            })
        });
        admitted.count() as u64
    }
}

fn quota(algorithm: Algorithm, limit: u64) -> Quota {
    let algorithm = match algorithm {
        Algorithm::Gcra { .. } => Algorithm::Gcra { burst: limit },
        Algorithm::LeakyBucket { .. } => Algorithm::LeakyBucket { queue: limit - 1 },
        other => other,
    };
    Quota {
        limit,
        window: WINDOW,
        algorithm,
        count: Count::Admitted,
    }
}

fn algorithms() -> [Algorithm; 5] {
    [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow {
            buckets: 10,
            leaving: Leaving::Weighted,
        },
        Algorithm::SlidingLog,
        Algorithm::Gcra { burst: 1 },
        Algorithm::LeakyBucket { queue: 0 },
    ]
}

fn ask(quota: &Quota, slot: Slot, key: u64) -> Ask<'_> {
    Ask {
        quota,
        slot,
        tag: tag(key),
        cost: 1,
        mode: Mode::Enforce,
        on_store_failure: OnStoreFailure::Local,
    }
}

fn tag(key: u64) -> Tag {
    let mut tagger = Tagger::new(&[7; 32]);
    tagger.part("key", &key.to_le_bytes());
    tagger.finish()
}

#[test]
fn threads_on_one_key_are_admitted_exactly_the_quota() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 1_000);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        admitted.fetch_add(gateway.admits(ask).into(), Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 1_000, "{algorithm:?}");
    }
}

#[test]
fn plan_over_two_shards_never_charges_one_without_the_other() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let (wide, narrow) = (quota(algorithm, 2_000), quota(algorithm, 700));
        let user = ask(&wide, gateway.slot("user", &wide), 1);
        let tenant = ask(&narrow, gateway.slot("tenant", &narrow), 2);
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for plan in [
                [user, tenant],
                [tenant, user],
                [user, tenant],
                [tenant, user],
            ] {
                let (gateway, admitted) = (&gateway, &admitted);
                scope.spawn(move || {
                    for _ in 0..500 {
                        admitted.fetch_add(gateway.decide(&plan).0.admit.into(), Relaxed);
                    }
                });
            }
        });
        let left = [gateway.remaining(user), gateway.remaining(tenant)];
        assert_eq!(
            (admitted.into_inner(), left),
            (700, [1_300, 0]),
            "{algorithm:?}"
        );
    }
}

#[test]
fn refused_or_looked_at_newcomer_takes_no_memory_for_its_state() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 5);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        assert!(!gateway.admits(Ask { cost: 6, ..ask }));
        assert!(gateway.admits(Ask { cost: 0, ..ask }));
        assert_eq!(gateway.remaining(ask), 5);
        assert_eq!(gateway.usage().partitions, 0, "{algorithm:?}");
    }
}

#[test]
fn look_tells_what_a_request_would_be_answered_and_spends_nothing() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 5);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        for left in (0..5).rev() {
            let looked = gateway.look(&[ask]);
            let (verdict, _) = gateway.decide(&[ask]);
            assert_eq!(
                verdict.answers[0].decision,
                Some(looked[0]),
                "{algorithm:?}"
            );
            assert_eq!(looked[0].remaining, left, "{algorithm:?}");
        }
        assert!(!gateway.look(&[ask])[0].admit, "{algorithm:?}");
    }
}

#[test]
fn refused_client_stays_refused_while_new_keys_flood_a_full_store() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(TIGHT);
        let quota = quota(algorithm, 3);
        let slot = gateway.slot("p", &quota);
        let victim = ask(&quota, slot, 1);
        assert_eq!(gateway.flood(victim, 1..2), 1);
        while gateway.admits(victim) {}
        for step in 0..20 {
            gateway.clock.advance(Micros(110_000));
            gateway.flood(victim, 1_000 * step + 10..1_000 * (step + 1));
            gateway.memory().sweep();
            // gcra and leaky-bucket give units back as they go; the rest wait for the window.
            if !matches!(
                algorithm,
                Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. }
            ) {
                assert!(!gateway.admits(victim), "{algorithm:?}");
            }
        }
        assert!(!gateway.admits(victim), "{algorithm:?}");
        let usage = gateway.usage();
        // Each shard may have let one newcomer's heap pass before it saw the store full.
        assert!(usage.bytes <= TIGHT + 1_024, "{algorithm:?}: {usage:?}");
        assert!(usage.overflowed > 0, "{algorithm:?}: {usage:?}");
    }
}

#[test]
fn newcomers_of_a_full_store_share_one_quota() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(0);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        assert_eq!(gateway.flood(ask, 0..100), 3, "{algorithm:?}");
        assert_eq!(gateway.remaining(ask), 0, "{algorithm:?}");
        assert_eq!(gateway.usage().overflowed, 100, "{algorithm:?}");
        let (other, other_quota) = (gateway.slot("q", &quota), quota);
        let other = Ask {
            slot: other,
            quota: &other_quota,
            ..ask
        };
        assert_eq!(gateway.flood(other, 0..100), 3, "each slot has its own");
    }
}

#[test]
fn charge_of_the_overflow_partition_comes_back_to_it() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(0);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        let (_, charge) = gateway.decide(&[Ask { cost: 3, ..ask }]);
        assert_eq!(gateway.flood(ask, 2..10), 0, "{algorithm:?}");
        let _rest = gateway.release(charge, 2);
        assert_eq!(gateway.flood(ask, 2..10), 2, "{algorithm:?}");
    }
}

#[test]
fn open_policy_of_a_full_store_admits_uncounted() {
    let gateway = Gateway::new(0);
    let quota = quota(Algorithm::FixedWindow, 1);
    let open = Ask {
        on_store_failure: OnStoreFailure::Open,
        ..ask(&quota, gateway.slot("p", &quota), 1)
    };
    for _ in 0..3 {
        let (verdict, charge) = gateway.decide(&[open]);
        assert!(verdict.admit);
        assert_eq!(verdict.answers[0].decision, None);
        assert_eq!(charge, Charge::default());
    }
    assert_eq!(gateway.usage().partitions, 0);
}

#[test]
fn closed_policy_of_a_full_store_is_unavailable_and_charges_nobody() {
    let gateway = Gateway::new(0);
    let quota = quota(Algorithm::FixedWindow, 1);
    let local = ask(&quota, gateway.slot("local", &quota), 1);
    let closed = Ask {
        on_store_failure: OnStoreFailure::Closed,
        ..ask(&quota, gateway.slot("closed", &quota), 1)
    };
    let outcome = gateway.outcome(&[local, closed]);
    assert!(
        matches!(outcome, Outcome::Unavailable { .. }),
        "{outcome:?}"
    );
    assert_eq!(gateway.remaining(local), 1);
    let shadow = Ask {
        mode: Mode::Shadow,
        ..closed
    };
    assert!(gateway.admits(shadow), "a shadow quota never refuses");
}

#[test]
fn full_shard_makes_room_from_idle_state_by_itself() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(8 << 10);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        // Tags without their high bits all fall into one shard.
        let one_shard = |key| Ask {
            tag: Tag(tag(key).0 & u128::from(u64::MAX)),
            ..ask
        };
        let is_admitted = |key: &u64| gateway.admits(one_shard(*key));
        let clients = (0..1_000).filter(is_admitted).count() as u64;
        let full = gateway.usage();
        gateway.clock.advance(Micros(2 * WINDOW.0));
        let newcomers = (1_000..1_000 + clients / 2).filter(is_admitted).count() as u64;
        let left = gateway.usage();
        assert_eq!(newcomers, clients / 2, "{algorithm:?}");
        assert_eq!(left.overflowed, full.overflowed, "{algorithm:?}");
        assert!(full.overflowed > 0, "{algorithm:?}: {full:?}");
    }
}

#[test]
fn idle_state_gives_its_memory_back() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        gateway.flood(ask, 0..5_000);
        let held = gateway.usage();
        gateway.sweep();
        assert_eq!(
            (gateway.usage(), held.partitions),
            (held, 5_000),
            "live state stays"
        );
        gateway.clock.advance(Micros(2 * WINDOW.0));
        gateway.sweep();
        assert_eq!(gateway.usage(), Usage::default(), "{algorithm:?}");
    }
}

#[test]
fn table_shrinks_around_the_few_that_are_left() {
    let gateway = Gateway::new(ROOMY);
    let quota = quota(Algorithm::FixedWindow, 3);
    let ask = ask(&quota, gateway.slot("p", &quota), 1);
    gateway.flood(ask, 0..50_000);
    let held = gateway.usage();
    gateway.clock.advance(WINDOW);
    gateway.flood(ask, 0..5_000);
    gateway.sweep();
    let left = gateway.usage();
    assert_eq!(left.partitions, 5_000);
    assert!(left.bytes * 4 < held.bytes, "{left:?} of {held:?}");
}

#[test]
fn charge_comes_back_once_and_in_parts() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 10);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        let (_, charge) = gateway.decide(&[Ask { cost: 4, ..ask }]);
        let charge = gateway.release(charge, 1);
        assert_eq!(gateway.remaining(ask), 7, "{algorithm:?}");
        let charge = gateway.release(charge, 100);
        assert_eq!(gateway.remaining(ask), 10, "{algorithm:?}");
        let (_, _stays) = gateway.decide(&[Ask { cost: 5, ..ask }]);
        let _nothing = gateway.release(charge, 100);
        assert_eq!(gateway.remaining(ask), 5, "{algorithm:?}");
    }
}

#[test]
fn spend_reaches_every_quota_of_the_plan_shadow_ones_too() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let (real, candidate) = (quota(algorithm, 10), quota(algorithm, 2));
        let real = ask(&real, gateway.slot("real", &real), 1);
        let shadow = Ask {
            mode: Mode::Shadow,
            ..ask(&candidate, gateway.slot("candidate", &candidate), 1)
        };
        let (_, charge) = gateway.decide(&[real, shadow]);
        gateway.spend(&charge, 3);
        let left = [gateway.remaining(real), gateway.remaining(shadow)];
        assert_eq!(left, [6, 0], "{algorithm:?}");
    }
}

#[test]
fn reset_makes_one_partition_whole_and_no_other() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 1);
        let slot = gateway.slot("p", &quota);
        let (one, two) = (ask(&quota, slot, 1), ask(&quota, slot, 2));
        assert_eq!(gateway.flood(one, 1..3), 2);
        gateway.reset(one);
        assert_eq!(
            [one, two].map(|ask| gateway.remaining(ask)),
            [1, 0],
            "{algorithm:?}"
        );
        assert_eq!(gateway.usage().partitions, 1, "{algorithm:?}");
    }
}

#[test]
fn retain_keeps_live_series_and_drops_the_rest_with_their_memory() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 1);
        let [kept, dropped] = ["kept", "dropped"].map(|policy| gateway.slot(policy, &quota));
        gateway.flood(ask(&quota, kept, 0), 0..100);
        let alone = gateway.usage();
        gateway.flood(ask(&quota, dropped, 0), 0..100);
        gateway.store.retain(&[kept]);
        assert_eq!(gateway.usage(), alone, "{algorithm:?}");
        assert_eq!(
            gateway.flood(ask(&quota, kept, 0), 0..100),
            0,
            "{algorithm:?}"
        );
        assert_eq!(
            gateway.flood(ask(&quota, dropped, 0), 0..100),
            100,
            "{algorithm:?}"
        );
    }
}

#[test]
fn changed_number_keeps_its_counters_and_a_changed_shape_starts_afresh() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let (before, after) = (quota(algorithm, 10), quota(algorithm, 12));
        let slot = gateway.slot("p", &before);
        assert_eq!(gateway.slot("p", &after), slot);
        assert!(gateway.admits(Ask {
            cost: 10,
            ..ask(&before, slot, 1)
        }));
        let refused = Ask {
            cost: 5,
            ..ask(&after, slot, 1)
        };
        assert!(!gateway.admits(refused), "{algorithm:?}");
        let shorter = Quota {
            window: Micros::from_secs(30),
            ..after
        };
        assert_ne!(gateway.slot("p", &shorter), slot);
    }
}

#[test]
fn refusal_says_when_and_the_store_keeps_its_word() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        while gateway.admits(ask) {}
        let Retry::After(retry) = gateway.decide(&[ask]).0.retry else {
            panic!("the cost fits one day");
        };
        gateway.clock.advance(Micros(retry.0 - 1));
        assert!(!gateway.admits(ask), "{algorithm:?}");
        gateway.clock.advance(Micros(1));
        gateway.sweep();
        assert!(gateway.admits(ask), "{algorithm:?}");
    }
}
