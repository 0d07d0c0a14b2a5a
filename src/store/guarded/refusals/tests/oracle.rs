//! What is refused from memory, held against a store.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::clock::Clock;
use crate::limit::{Align, LeavingBucket};
use crate::store::memory::MemoryStore;
use crate::store::outcome::Outcome;
use crate::store::series::{Role, Series, Shape};

/// A store of its own behind the remembered refusals.
struct Guarded {
    store: MemoryStore,
    refusals: Refusals,
    clock: Clock,
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let sliding = (
        1_u32..=10,
        prop::sample::select(
            &[
                LeavingBucket::Weighted,
                LeavingBucket::Whole,
                LeavingBucket::Dropped,
            ][..],
        ),
    )
        .prop_filter("divides the window", |(buckets, _)| {
            60_000_000 % buckets == 0
        })
        .prop_map(|(buckets, leaving)| Algorithm::SlidingWindow { buckets, leaving });
    prop_oneof![
        Just(Algorithm::FixedWindow),
        sliding,
        Just(Algorithm::SlidingLog),
        (1_u64..8).prop_map(|burst| Algorithm::Gcra { burst }),
        (0_u64..8).prop_map(|queue| Algorithm::LeakyBucket { queue }),
    ]
}

fn quotas() -> impl Strategy<Value = Vec<(Quota, Mode)>> {
    let mode = prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Shadow)];
    let one =
        (algorithms(), 1_u64..8, 1_u64..4, mode).prop_map(|(algorithm, limit, minutes, mode)| {
            let quota = Quota {
                limit,
                window: Micros::from_secs(minutes * 60),
                algorithm,
                count: Count::Admitted,
                align: Align::Epoch,
                can_come_back: true,
            };
            (quota, mode)
        });
    prop::collection::vec(one, 1..4)
}

/// Returns the quota as it is for one of two tiers that share its states.
fn tier(quota: &Quota, is_larger: bool) -> Quota {
    let larger = Quota {
        limit: quota.limit + 3,
        ..*quota
    };
    if is_larger { larger } else { *quota }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// What is refused from memory is refused by the store at that instant, whatever was asked in
    /// between, of this plan or of others that share its quotas.
    #[test]
    fn nothing_is_refused_that_the_store_would_admit(
        quotas in quotas(),
        steps in prop::collection::vec((0_u64..40_000_000, 0_u64..10, 0_usize..4, 0_u64..1_000, any::<bool>()), 1..80),
        cap in prop_oneof![Just(CAP), Just(Micros::from_secs(100))],
    ) {
        let clock = Clock::manual(START);
        let guarded = Guarded {
            store: MemoryStore::new(clock.clone(), 1 << 20),
            refusals: Refusals::new(),
            clock,
        };
        let series_ids: Vec<SeriesId> = quotas.iter().enumerate().map(|(index, (quota, _))| {
            guarded.store.series_id(&Series {
                policy: Arc::from(format!("p{index}")),
                role: Role::Real,
                shape: Shape::of(quota),
                window: quota.window,
            })
        }).collect();
        for (wait_us, cost, skipped, latency_us, is_larger) in steps {
            guarded.clock.advance(Micros(wait_us));
            // A plan of all quotas but one, or of all, of one tier or the other.
            let tier: Vec<_> = quotas.iter().map(|(quota, mode)| (tier(quota, is_larger), *mode)).collect();
            let plan: Vec<Check<'_>> = tier.iter().zip(&series_ids).enumerate()
                .filter(|(index, _)| *index != skipped || quotas.len() == 1)
                .map(|(_, ((quota, mode), series_id))| Check {
                    series_id: *series_id, mode: *mode, ..check(quota, cost)
                })
                .collect();
            let sent = guarded.clock.now();
            let recalled = guarded.refusals.recall(&plan, true, || sent);
            if let Recalled::Refused(_) = recalled {
                let peeks = guarded.store.peek(&plan);
                let refuses = |(check, peek): (&Check<'_>, &Decision)| {
                    check.mode == Mode::Enforce && !peek.admit
                };
                prop_assert!(plan.iter().zip(&peeks).any(refuses), "{peeks:?}");
                continue;
            }
            guarded.clock.advance(Micros(latency_us));
            let Outcome::Decided { verdict, .. } = guarded.store.decide(&plan) else {
                panic!("a local policy is always answered");
            };
            guarded.clock.advance(Micros(latency_us));
            let received = guarded.clock.now();
            let decisions = verdict.answers.iter().map(|answer| answer.decision);
            guarded.refusals.remember(&plan, decisions, Interval { sent, received }, cap);
            if let Recalled::Due = recalled {
                guarded.refusals.forget_admitted(&plan, &verdict);
            }
        }
    }
}
