//! What becomes of a decision whose answer came too late: its request was decided without it, and Redis may have
//! charged it all the same.

use tollgate::limit::plan::OnStoreFailure::{self, Closed, Local, Open};
use tollgate::limit::{Adjustment, Check, Count, PartitionId, Quota};
use tollgate::store::{Outcome, Role, Session};

use crate::settling::LEAKY;
use crate::store_redis::{Bench, EVERYTHING, TEN, check, comes_to_be, decide, left, quota, run};
use crate::support::redis::{Fault, Proxy, Server};

const FOUR_BACK: Adjustment = Adjustment::GiveBack(4);
const ALL: Quota = quota(10, Count::All);

/// When a charge is adjusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// While the answer is still on its way.
    Before,
    /// Once it has come.
    After,
}
use When::{After, Before};

/// Lets Redis know the script of such a plan: what is asked by its digest alone is else not executed.
async fn know_script(session: &Session, plan: &[Check<'_>]) {
    let mut plan = plan.to_vec();
    for check in &mut plan {
        check.partition_id = PartitionId::new(99);
    }
    while decide(session, &plan).await.2 {}
}

/// Lets a request be decided while nothing arrives; what was asked then arrives.
async fn decide_late(session: &Session, proxy: &Proxy, plan: &[Check<'_>]) -> Outcome {
    proxy.set(Fault::BlackHole);
    session.decide(plan).await
}

#[test]
fn late_decision_is_settled_as_its_request_is() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let bench = Bench::behind(&proxy);
    run(async {
        let session = bench.store.session();
        while decide(&session, &[check(&TEN, 1, 1)]).await.2 {}
        let cases: [(&Quota, OnStoreFailure, &[(When, Adjustment)], u64); 12] = [
            (&TEN, Local, &[], 4),
            (&TEN, Local, &[(Before, EVERYTHING)], 10),
            (&TEN, Local, &[(After, EVERYTHING)], 10),
            (&TEN, Local, &[(Before, FOUR_BACK)], 8),
            (&TEN, Local, &[(Before, FOUR_BACK), (After, EVERYTHING)], 10),
            (&TEN, Local, &[(Before, FOUR_BACK), (Before, FOUR_BACK)], 10),
            (&TEN, Local, &[(Before, Adjustment::Spend(3))], 1),
            (&TEN, Local, &[(After, Adjustment::Spend(3))], 1),
            (&TEN, Open, &[], 4),
            (&TEN, Open, &[(Before, EVERYTHING)], 10),
            (&TEN, Open, &[(After, EVERYTHING)], 10),
            (&TEN, Closed, &[], 10),
        ];
        for (tag, (quota, on_store_failure, adjustments, expected)) in (2..).zip(cases) {
            let case = format!("{on_store_failure:?}, {adjustments:?}");
            let plan = [Check {
                cost: 6,
                on_store_failure,
                ..check(quota, 0, tag)
            }];
            let mut charge = match decide_late(&session, &proxy, &plan).await {
                Outcome::Decided {
                    verdict,
                    charge,
                    is_degraded,
                } => {
                    assert!(verdict.admit && is_degraded, "{case}");
                    assert!(charge.is_charged(0), "{case}");
                    Some(charge)
                }
                Outcome::Unavailable { .. } => None,
            };
            for when in [Before, After] {
                let adjustments = adjustments.iter().filter(|(at, _)| *at == when);
                for &(_, adjustment) in adjustments {
                    let charge = charge.as_mut().expect("it was admitted");
                    session.settle_later(charge, |_| adjustment);
                }
                if when == Before {
                    proxy.set(Fault::None);
                    // Answers come in order, so the late one is before this.
                    left(&session, plan[0]).await;
                }
            }
            session.finish().await;
            assert_eq!(left(&session, plan[0]).await, expected, "{case}");
        }
    });
}

#[test]
fn late_decision_spends_nothing_for_a_request_that_was_refused_without_it() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let bench = Bench::behind(&proxy);
    run(async {
        let session = bench.store.session();
        let plan = [
            Check {
                cost: 6,
                ..check(&TEN, 0, 2)
            },
            Check {
                policy: 1,
                ..check(&ALL, 1, 2)
            },
        ];
        know_script(&session, &plan).await;
        // Here there is no room for another one; there it is forgotten.
        let Outcome::Decided { verdict, .. } = decide_late(&session, &proxy, &plan).await else {
            panic!("no policy is closed");
        };
        assert!(verdict.admit);
        proxy.set(Fault::None);
        comes_to_be(&session, plan[0], 4).await;
        server.command(&["FLUSHDB"]);
        let Outcome::Decided { verdict, .. } = decide_late(&session, &proxy, &plan).await else {
            panic!("no policy is closed");
        };
        assert!(!verdict.admit);
        proxy.set(Fault::None);
        left(&session, plan[0]).await;
        session.finish().await;
        assert_eq!(left(&session, plan[0]).await, 10);
        assert_eq!(left(&session, plan[1]).await, 10);
    });
}

#[test]
fn late_refusal_keeps_what_is_counted_of_every_request() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let bench = Bench::behind(&proxy);
    run(async {
        let session = bench.store.session();
        let plan = [
            Check {
                cost: 6,
                ..check(&TEN, 0, 2)
            },
            Check {
                policy: 1,
                ..check(&ALL, 1, 2)
            },
        ];
        while decide(&session, &plan).await.2 {}
        let Outcome::Decided {
            verdict,
            mut charge,
            ..
        } = decide_late(&session, &proxy, &plan).await
        else {
            panic!("no policy is closed");
        };
        assert!(verdict.admit, "this node has counted nothing yet");
        session.settle_later(&mut charge, |_| EVERYTHING);
        proxy.set(Fault::None);
        left(&session, plan[0]).await;
        session.finish().await;
        assert_eq!(left(&session, plan[0]).await, 4);
        assert_eq!(left(&session, plan[1]).await, 8);
    });
}

#[test]
fn place_of_a_client_that_leaves_stays_taken_also_where_the_answer_is_late() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let bench = Bench::behind(&proxy);
    run(async {
        let session = bench.store.session();
        let leaky = bench.series(Role::Real, &LEAKY);
        let plan = [
            Check {
                cost: 6,
                ..check(&LEAKY, leaky, 2)
            },
            Check {
                policy: 1,
                cost: 6,
                ..check(&TEN, 1, 2)
            },
        ];
        know_script(&session, &plan).await;
        let Outcome::Decided { charge, .. } = decide_late(&session, &proxy, &plan).await else {
            panic!("no policy is closed");
        };
        session.settle_later(&mut charge.without_places(), |_| EVERYTHING);
        proxy.set(Fault::None);
        left(&session, plan[0]).await;
        session.finish().await;
        assert_eq!(left(&session, plan[0]).await, 4);
        assert_eq!(left(&session, plan[1]).await, 10);
    });
}
