//! Histories of gateways that buy units ahead, with failures: never more than the quota is admitted, and no units are
//! lost, except those that a killed gateway held.

use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::future::join_all;
use proptest::prelude::*;
use tollgate::clock::Micros;
use tollgate::limit::{Adjustment, Algorithm, Quota};
use tollgate::store::Charge;

use crate::lease_fleet::{Fleet, GAP, Gateway, of_each_algorithm, tell_of_each};
use crate::support::redis::{Fault, Proxy, Server};

const LIMIT: u64 = 300;
/// Part of the limit that all gateways together may hold ahead, in percent.
const OVERSHOOT: u32 = 30;
/// How long the server has for a decision. A gateway suspects a slower server, and soon abandons the connection with
/// everything under way on it, so this is longer than a server stands still on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Most units that each of the three gateways may hold.
const HELD_MAX: u64 = 30;

/// An event that happens at one of three gateways.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// That many requests of that cost, a moment after each other; if hurried, no background work is done in between.
    Burst {
        requests: u64,
        cost: u64,
        is_hurried: bool,
    },
    /// That many milliseconds pass.
    Pass(u64),
    /// Redis is away while that many requests come, or until one is not answered in time.
    Away { requests: u64, cost: u64 },
    /// The connection ends while requests are being decided.
    Break { requests: u64, cost: u64 },
    /// A client that leaves after that many turns of the runtime, before its answer has come.
    Leave { turns: usize, cost: u64 },
    /// A charge is settled: that many units more are spent, or, if negative, given back.
    Settle(prop::sample::Index, i64),
    /// An operator resets the client's quota.
    Reset,
    /// The gateway is killed after such requests, and another one takes its place.
    Kill { requests: u64, cost: u64 },
    /// The gateway ends properly, and another one takes its place.
    Shutdown { requests: u64 },
}

fn event() -> impl Strategy<Value = (usize, Event)> {
    let (requests, cost) = (1..40_u64, 1..4_u64);
    let many = (requests.clone(), cost.clone());
    let event = prop_oneof![
        12 => (many.clone(), any::<bool>()).prop_map(|((requests, cost), is_hurried)| Event::Burst {
            requests,
            cost,
            is_hurried,
        }),
        4 => (100..3_000_u64).prop_map(Event::Pass),
        1 => (10_000..20_000_u64).prop_map(Event::Pass),
        1 => many.clone().prop_map(|(requests, cost)| Event::Away { requests, cost }),
        1 => many.clone().prop_map(|(requests, cost)| Event::Break { requests, cost }),
        1 => many.prop_map(|(requests, cost)| Event::Kill { requests, cost }),
        2 => (0..30_usize, cost).prop_map(|(turns, cost)| Event::Leave { turns, cost }),
        4 => (any::<prop::sample::Index>(), -3..4_i64)
            .prop_map(|(which, units)| Event::Settle(which, units)),
        2 => Just(Event::Reset),
        1 => requests.prop_map(|requests| Event::Shutdown { requests }),
    ];
    (0..3_usize, event)
}

/// A charge that its gateway can still settle.
struct Standing {
    gateway: usize,
    charge: Charge,
    units: u64,
    /// Whether a reset has made the charge void.
    is_over: bool,
}

/// Three gateways, and what they have admitted since the last reset.
struct History<'s> {
    fleet: Fleet<'s>,
    proxies: Vec<Proxy>,
    quota: Quota,
    client: u128,
    standing: Vec<Standing>,
    admitted: u64,
    /// Units that were spent in addition, without a decision.
    more: u64,
    /// Most units that may be counted though nobody has them any more.
    lost_max: u64,
}

impl<'s> History<'s> {
    async fn start(server: &'s Server, quota: Quota, client: u128) -> Self {
        // Gateways of an earlier history, which began at the same time by the clock, are not part of this fleet.
        server.command(&["FLUSHALL"]);
        let proxies: Vec<_> = (0..3).map(|_| Proxy::to(server.address())).collect();
        let ways: Vec<_> = proxies.iter().map(Proxy::address).collect();
        let fleet = Fleet::start(server, &ways, TIMEOUT).await;
        fleet.meet().await;
        Self {
            fleet,
            proxies,
            quota,
            client,
            standing: Vec::new(),
            admitted: 0,
            more: 0,
            lost_max: 0,
        }
    }

    /// Decides a request of that cost; returns false if Redis was asked and did not answer in time.
    async fn request(&mut self, at: usize, cost: u64) -> bool {
        let (gateway, quota) = (&self.fleet.gateways[at], self.quota);
        let plan = [gateway.leased(&quota, OVERSHOOT, self.client, cost)];
        let asked = gateway.ask(&plan).await;
        let is_answered = asked.is_ok();
        if let Ok(Some(charge)) = asked {
            self.admitted += cost;
            self.standing.push(Standing {
                gateway: at,
                charge,
                units: cost,
                is_over: false,
            });
        }
        is_answered
    }

    async fn burst(&mut self, at: usize, requests: u64, cost: u64, is_hurried: bool) {
        for _ in 0..requests {
            self.fleet.clock.advance(GAP);
            self.request(at, cost).await;
            if !is_hurried {
                self.fleet.gateways[at].quiet().await;
            }
        }
    }

    /// Replaces a gateway that has ended by a new one.
    async fn replace(&mut self, at: usize, server: &Server) {
        self.standing.retain(|one| one.gateway != at);
        // Whatever the old gateway was still sending never arrives.
        self.proxies[at] = Proxy::to(server.address());
        let way = self.proxies[at].address();
        self.fleet.gateways[at] = Gateway::start(way, &self.fleet.clock, TIMEOUT).await;
    }

    async fn reset(&mut self, at: usize) {
        // Calls under way would reach the server after the reset but, by the gateways' clock, be dated before it.
        join_all(self.fleet.gateways.iter().map(Gateway::quiet)).await;
        let quota = self.quota;
        let check = self.fleet.gateways[at].exact(&quota, self.client, 0);
        let series_ids = [check.series_id];
        // A charge in the same microsecond as a reset could not be given back.
        self.fleet.clock.advance(Micros(1));
        let reset = async {
            let session = &self.fleet.gateways[at].session;
            loop {
                let reset = session.reset(&series_ids, check.partition_id).await;
                if let Ok(when) = reset {
                    break when;
                }
            }
        };
        let when = reset.await;
        for (other, gateway) in self.fleet.gateways.iter().enumerate() {
            if other != at {
                let series_id = gateway.exact(&quota, self.client, 0).series_id;
                (gateway.bench.store).note_reset(series_id, check.partition_id, when);
            }
        }
        self.fleet.clock.advance(Micros(1));
        (self.admitted, self.more) = (0, 0);
        self.standing.iter_mut().for_each(|one| one.is_over = true);
        self.lost_max = 0;
    }

    fn settle(&mut self, which: prop::sample::Index, units: i64) -> Option<usize> {
        let index = (!self.standing.is_empty()).then(|| which.index(self.standing.len()))?;
        let one = &mut self.standing[index];
        let amount = units.unsigned_abs();
        let adjustment = if units < 0 {
            let back = amount.min(one.units);
            one.units -= back;
            self.admitted -= if one.is_over { 0 } else { back };
            Adjustment::GiveBack(amount)
        } else if one.is_over {
            Adjustment::NONE
        } else {
            self.more += amount;
            Adjustment::Spend(amount)
        };
        let session = &self.fleet.gateways[one.gateway].session;
        session.settle_later(&mut one.charge, |_| adjustment);
        Some(one.gateway)
    }

    async fn away(&mut self, at: usize, requests: u64, cost: u64) {
        self.proxies[at].set(Fault::BlackHole);
        for _ in 0..requests {
            if !self.request(at, cost).await {
                break;
            }
        }
        self.proxies[at].set(Fault::None);
        self.fleet.gateways[at].quiet().await;
    }

    async fn leave(&self, at: usize, turns: usize, cost: u64) {
        let (gateway, quota) = (&self.fleet.gateways[at], self.quota);
        let plan = [gateway.leased(&quota, OVERSHOOT, self.client, cost)];
        gateway.leave(turns, &plan).await;
        gateway.quiet().await;
    }

    async fn happen(&mut self, server: &Server, at: usize, event: Event) {
        match event {
            Event::Burst {
                requests,
                cost,
                is_hurried,
            } => self.burst(at, requests, cost, is_hurried).await,
            Event::Pass(ms) => self.fleet.pass(Micros(ms * 1_000)).await,
            Event::Away { requests, cost } => self.away(at, requests, cost).await,
            Event::Break { requests, cost } => {
                self.burst(at, requests, cost, true).await;
                self.proxies[at].reset_all();
                self.request(at, cost).await;
                self.fleet.gateways[at].quiet().await;
                self.lost_max += HELD_MAX + cost;
            }
            Event::Leave { turns, cost } => self.leave(at, turns, cost).await,
            Event::Settle(which, units) => {
                if let Some(gateway) = self.settle(which, units) {
                    self.fleet.gateways[gateway].quiet().await;
                }
            }
            Event::Reset => self.reset(at).await,
            Event::Kill { requests, cost } => {
                self.burst(at, requests, cost, true).await;
                self.replace(at, server).await;
                self.lost_max += HELD_MAX;
            }
            Event::Shutdown { requests } => {
                let gateway = &self.fleet.gateways[at];
                assert_eq!(gateway.session.finish().await, 0);
                assert_eq!(gateway.held(), 0);
                self.burst(at, requests, 1, true).await;
                assert_eq!(self.fleet.gateways[at].held(), 0);
                self.replace(at, server).await;
            }
        }
        let held: Vec<_> = self.fleet.gateways.iter().map(Gateway::held).collect();
        assert!(held.iter().all(|held| *held <= HELD_MAX), "{held:?} held");
        assert!(self.admitted <= LIMIT, "{} admitted", self.admitted);
    }
}

/// Runs a history; returns the least and the most units that Redis may have counted, and what it has counted.
async fn ends(
    server: &Server,
    quota: Quota,
    client: u128,
    events: Vec<(usize, Event)>,
) -> (RangeInclusive<i64>, i64) {
    let mut history = History::start(server, quota, client).await;
    for (at, event) in events {
        history.happen(server, at, event).await;
    }
    history.fleet.idle().await;
    // Settlements for which a busy machine had no time are sent a moment later.
    for gateway in &history.fleet.gateways {
        assert_eq!(gateway.session.finish().await, 0);
    }
    let is_bucket = matches!(quota.algorithm, Algorithm::Gcra { .. });
    let most = if is_bucket { LIMIT } else { u64::MAX };
    let spent = history.admitted + history.more;
    let counted = history.fleet.counted(&quota, client).await;
    let least = spent.min(most).cast_signed();
    let most = (spent + history.lost_max).min(most).cast_signed();
    (least..=most, counted.cast_signed())
}

#[test]
fn never_more_than_the_quota_is_admitted_and_what_was_is_what_is_counted() {
    tell_of_each(&of_each_algorithm(LIMIT), event, ends);
}
