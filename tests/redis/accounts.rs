//! Histories of balances, with failures: what was granted equals what was spent plus what is left, to the unit.

use futures_util::FutureExt;
use proptest::prelude::*;
use tollgate::clock::{Clock, Micros};
use tollgate::limit::plan::{OnStoreFailure, PlanPolicy, SeriesId};
use tollgate::limit::quota::COUNT_MAX;
use tollgate::limit::{Adjustment, Algorithm, Check, Quota};
use tollgate::store::{Charge, Series, SeriesRole, Session, StoreVerdict};

use crate::lease_fleet::HASTY;
use crate::store_redis::{Bench, TEN, check, histories, run};
use crate::support::redis::{Fault, Proxy, Server};
use crate::support::{PATIENCE, START};

/// Balance of a new client.
const INITIAL: u64 = 5;
const CREDITS: Quota = Quota {
    limit: COUNT_MAX,
    window: Micros(0),
    algorithm: Algorithm::Credits { initial: INITIAL },
    ..TEN
};

/// One thing that happens at one of two gateways.
#[derive(Clone, Debug)]
enum Event {
    /// An operator grants this many units.
    Grant(u64),
    /// A request of that cost, with a second quota (a window) in its plan if `is_limited`.
    Request { cost: u64, is_limited: bool },
    /// The same, but Redis' answer comes too late.
    Late { cost: u64, is_limited: bool },
    /// A client that leaves before Redis has answered.
    Leave { cost: u64 },
    /// A charge is settled: that many units more are spent, or, if negative, given back.
    Settle(prop::sample::Index, i64),
}

/// A gateway, and its network to the server.
struct Gateway {
    bench: Bench,
    proxy: Proxy,
    session: Session,
    credits: SeriesId,
}

/// A charge that can still be settled.
struct Standing {
    gateway: usize,
    charge: Charge,
    /// Units of the decision's charge that were not given back.
    charged: u64,
    /// Units that were spent in addition, without a decision.
    more: u64,
}

fn event() -> impl Strategy<Value = (usize, Event)> {
    let cost = 0..8_u64;
    let event = prop_oneof![
        2 => (1..10_u64).prop_map(Event::Grant),
        6 => (cost.clone(), any::<bool>())
            .prop_map(|(cost, is_limited)| Event::Request { cost, is_limited }),
        1 => (cost.clone(), any::<bool>())
            .prop_map(|(cost, is_limited)| Event::Late { cost, is_limited }),
        1 => cost.prop_map(|cost| Event::Leave { cost }),
        4 => (any::<prop::sample::Index>(), -6..6_i64)
            .prop_map(|(which, units)| Event::Settle(which, units)),
    ];
    (0..2_usize, event)
}

impl Gateway {
    /// Must be called on the runtime that is to send the commands.
    fn start(server: &Server) -> Self {
        let proxy = Proxy::to(server.address());
        let bench = Bench::tireless(&proxy, HASTY, Clock::manual(START));
        let credits = Series::of("credits", SeriesRole::Real, &CREDITS);
        let credits = bench.store.series_id(&credits);
        Self {
            session: bench.store.session(),
            bench,
            proxy,
            credits,
        }
    }

    fn plan(&self, client: u128, cost: u64, is_limited: bool) -> Vec<Check<'static>> {
        let balance = Check {
            quota: &CREDITS,
            series_id: self.credits,
            cost,
            on_store_failure: OnStoreFailure::Closed,
            ..check(&TEN, 0, client)
        };
        let window = Check {
            policy: PlanPolicy(1),
            cost,
            ..check(&TEN, 0, client)
        };
        let window = is_limited.then_some(window);
        [balance].into_iter().chain(window).collect()
    }

    /// Decides a request; returns its charge if it was admitted.
    async fn request(&self, client: u128, cost: u64, is_limited: bool) -> Option<Charge> {
        // Time passes, so that a remembered refusal does not answer this request.
        self.bench.clock.advance(Micros::from_secs(2));
        let plan = self.plan(client, cost, is_limited);
        match self.session.decide(&plan).await {
            StoreVerdict::Decided {
                verdict, charge, ..
            } if verdict.admit => Some(charge),
            StoreVerdict::Decided { .. } | StoreVerdict::Unavailable { .. } => None,
        }
    }

    /// Returns the balance, once everything is settled.
    async fn balance(&self, client: u128) -> i64 {
        assert_eq!(self.session.finish().await, 0);
        let plan = self.plan(client, 0, false);
        let answered = async {
            loop {
                let peeked = self.session.peek_checks(&plan).await.remove(0);
                if !peeked.is_degraded {
                    break peeked.decision;
                }
            }
        };
        let balance = tokio::time::timeout(PATIENCE, answered).await;
        let balance = balance.expect("Redis answers");
        balance.remaining.cast_signed() - balance.debt.cast_signed()
    }
}

async fn adds_up(gateways: &[Gateway; 2], client: u128, events: Vec<(usize, Event)>) -> (i64, i64) {
    let (mut granted, mut standing) = (INITIAL.cast_signed(), Vec::<Standing>::new());
    for (at, event) in events {
        let gateway = &gateways[at];
        let charge = match event {
            Event::Grant(credits) => {
                let plan = gateway.plan(client, 0, false);
                let adjusted = gateway
                    .session
                    .adjust(&plan, Adjustment::GiveBack(credits))
                    .await;
                adjusted.expect("nothing is wrong with the server");
                granted += credits.cast_signed();
                continue;
            }
            Event::Request { cost, is_limited } => {
                (gateway.request(client, cost, is_limited).await).map(|charge| (cost, charge))
            }
            Event::Late { cost, is_limited } => {
                gateway.proxy.set(Fault::BlackHole);
                let charge = gateway.request(client, cost, is_limited).await;
                gateway.proxy.set(Fault::None);
                // The late answer comes before the answers to later commands.
                gateway.session.peek(&gateway.plan(client, 0, false)).await;
                charge.map(|charge| (cost, charge))
            }
            Event::Leave { cost } => {
                let plan = gateway.plan(client, cost, false);
                // A remembered refusal answers at once; otherwise the command has been sent.
                drop(gateway.session.decide(&plan).now_or_never());
                None
            }
            Event::Settle(which, units) => {
                if let Some(one) = (!standing.is_empty()).then(|| which.index(standing.len())) {
                    standing[one].settle(gateways, units);
                }
                None
            }
        };
        standing.extend(charge.map(|(charged, charge)| Standing {
            gateway: at,
            charge,
            charged,
            more: 0,
        }));
    }
    for gateway in gateways {
        gateway.balance(client).await;
    }
    let spent: u64 = standing.iter().map(|one| one.charged + one.more).sum();
    (
        granted - spent.cast_signed(),
        gateways[0].balance(client).await,
    )
}

impl Standing {
    fn settle(&mut self, gateways: &[Gateway; 2], units: i64) {
        let amount = units.unsigned_abs();
        let adjustment = if units < 0 {
            // Units that were spent in addition are no charge, so they do not come back.
            self.charged -= amount.min(self.charged);
            Adjustment::GiveBack(amount)
        } else {
            self.more += amount;
            Adjustment::Spend(amount)
        };
        let session = &gateways[self.gateway].session;
        session.settle_later(&mut self.charge, |_| adjustment);
    }
}

#[test]
fn what_was_granted_is_what_was_spent_and_what_is_left() {
    let server = Server::start();
    histories(40, event(), |client, events| {
        let (mut expected, mut found) = (0, 0);
        run(async {
            let gateways = [Gateway::start(&server), Gateway::start(&server)];
            (expected, found) = adds_up(&gateways, client, events).await;
        });
        prop_assert_eq!(found, expected);
        Ok(())
    });
}
