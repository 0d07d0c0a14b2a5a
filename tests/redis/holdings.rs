//! Units in flight that gateways hold at one Redis: never more than the quota, and none once all requests have ended.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::clock::{Clock, Micros};
use tollgate::limit::plan::{OnStoreFailure, PlanPolicy, SeriesId};
use tollgate::limit::{Algorithm, Check, Quota};
use tollgate::store::{Charge, Series, SeriesRole, Session, StoreVerdict};

use crate::gate::calls;
use crate::lease_fleet::{HASTY, PATIENT};
use crate::store_redis::{Bench, EVERYTHING, ONE, check, histories, run, within_turns};
use crate::support::START;
use crate::support::redis::{Cluster, Fault, Proxy, Server};

const LIMIT: u64 = 5;
const FIVE: Quota = Quota {
    limit: LIMIT,
    window: Micros(0),
    algorithm: Algorithm::InFlight,
    ..ONE
};
/// How long a gateway's announcement counts.
const LEASE: Micros = Micros::from_secs(15);

/// A gateway, and its network to the server.
struct Gateway {
    bench: Bench,
    proxy: Proxy,
    session: Session,
    units: SeriesId,
}

impl Gateway {
    /// Must be called on the runtime that is to send the commands. The server has `timeout` for a decision.
    fn start(server: &Server, clock: &Clock, timeout: Duration) -> Self {
        let proxy = Proxy::to(server.address());
        let bench = Bench::tireless(&proxy, timeout, clock.clone());
        Self {
            session: bench.store.session(),
            units: units_of(&bench),
            bench,
            proxy,
        }
    }

    fn check(&self, client: u128, cost: u64) -> Check<'static> {
        Check {
            series_id: self.units,
            cost,
            on_store_failure: OnStoreFailure::Closed,
            ..check(&FIVE, 0, client)
        }
    }

    /// Decides a request; returns the units that it holds if it is admitted.
    async fn request(&self, client: u128, cost: u64) -> Option<Charge> {
        (self.ask(client, cost, false).await).expect("Redis answers in time")
    }

    /// Decides a request, together with a quota that refuses it if `is_refused`; returns its units if it is admitted.
    ///
    /// # Errors
    /// If Redis does not answer in time.
    async fn ask(&self, client: u128, cost: u64, is_refused: bool) -> Result<Option<Charge>, ()> {
        let refusing = Check {
            policy: PlanPolicy(1),
            cost: 2,
            ..check(&ONE, 0, client)
        };
        let refusing = is_refused.then_some(refusing);
        let plan: Vec<_> = [self.check(client, cost)]
            .into_iter()
            .chain(refusing)
            .collect();
        match self.session.decide(&plan).await {
            StoreVerdict::Decided {
                verdict,
                mut charge,
                ..
            } => Ok(charge.take_held().filter(|_| verdict.admit)),
            StoreVerdict::Unavailable { .. } => Err(()),
        }
    }

    /// Gives back the units of a request that was decided but is not sent on.
    fn leave(&self, decided: StoreVerdict) {
        if let StoreVerdict::Decided { mut charge, .. } = decided
            && let Some(held) = charge.take_held()
        {
            self.end(held);
        }
    }

    fn end(&self, mut held: Charge) {
        self.session.settle_later(&mut held, |_| EVERYTHING);
    }

    /// Waits until all changes of holdings have been announced.
    async fn settled(&self) {
        assert_eq!(self.session.finish().await, 0);
    }

    /// Returns how many units are free, and how many each other holder has, sorted.
    async fn free(&self, client: u128) -> (u64, Vec<u64>) {
        let plan = [self.check(client, 0)];
        let peeked = loop {
            let peeked = self.session.peek_checks(&plan).await.remove(0);
            if !peeked.is_degraded {
                break peeked;
            }
        };
        let mut held: Vec<u64> = peeked.holders.iter().map(|one| one.units).collect();
        held.sort_unstable();
        (peeked.decision.remaining, held)
    }
}

fn units_of(bench: &Bench) -> SeriesId {
    let units = Series::of("units", SeriesRole::Real, &FIVE);
    bench.store.series_id(&units)
}

/// Lets time pass, while these gateways go on working.
async fn pass(clock: &Clock, time: Micros, alive: impl Iterator<Item = &Gateway> + Clone) {
    const STEP: Micros = Micros::from_secs(4);
    let mut left = time;
    while left > Micros(0) {
        let step = left.min(STEP);
        clock.advance(step);
        left = Micros(left.0 - step.0);
        for gateway in alive.clone() {
            gateway.session.tick();
            gateway.settled().await;
        }
    }
}

/// Runs `story` with two gateways, whose server has `timeout` for a decision.
fn with_two(timeout: Duration, story: impl AsyncFnOnce(Gateway, Gateway, &Clock)) {
    let (server, clock) = (Server::start(), Clock::manual(START));
    run(async {
        let start = || Gateway::start(&server, &clock, timeout);
        story(start(), start(), &clock).await;
    });
}

#[test]
fn what_a_killed_gateway_held_comes_back_with_its_lease() {
    with_two(PATIENT, async |killed, other, clock| {
        let _held = killed.request(1, 4).await.expect("all is free");
        drop(killed);
        for seconds in [0, 5, 9] {
            pass(clock, Micros::from_secs(seconds), [&other].into_iter()).await;
            assert_eq!(other.free(1).await, (1, vec![4]));
        }
        pass(clock, Micros::from_secs(1), [&other].into_iter()).await;
        assert_eq!(other.free(1).await, (LIMIT, vec![]));
    });
}

#[test]
fn a_gateway_that_was_stopped_for_longer_says_again_what_it_holds_and_cuts_nobody() {
    with_two(PATIENT, async |stopped, other, clock| {
        let held = stopped.request(1, 4).await.expect("all is free");
        pass(clock, LEASE, [&other].into_iter()).await;
        // A whole quota is admitted by the other gateway in the meantime.
        let more = other.request(1, LIMIT).await.expect("all is free");
        pass(clock, Micros(1), [&stopped].into_iter()).await;
        assert_eq!(stopped.free(1).await, (0, vec![4, 5]));
        assert!(other.request(1, 1).await.is_none());
        other.end(more);
        other.settled().await;
        assert_eq!(stopped.free(1).await, (1, vec![4]));
        stopped.end(held);
        stopped.settled().await;
        assert_eq!(stopped.free(1).await, (LIMIT, vec![]));
    });
}

/// A client that never has more requests at once than it may is never refused.
#[test]
fn who_asks_for_what_has_just_come_back_gets_it() {
    with_two(PATIENT, async |one, other, _| {
        let mut held = one.request(1, LIMIT).await.expect("all is free");
        let workers = [one.bench.store.session(), one.bench.store.session()];
        for turn in 0..200 {
            one.end(held);
            let plan = [one.check(1, LIMIT)];
            let decided = workers[turn % 2].decide(&plan).await;
            let StoreVerdict::Decided { mut charge, .. } = decided else {
                panic!("Redis answers");
            };
            held = charge.take_held().expect("units");
            assert_eq!(other.free(1).await, (0, vec![5]), "turn {turn}");
        }
    });
}

#[test]
fn what_is_held_is_renewed_for_as_long_as_it_is_held() {
    with_two(PATIENT, async |one, other, clock| {
        let held = one.request(1, 4).await.expect("all is free");
        let both = [&one, &other].into_iter();
        pass(clock, Micros::from_secs(120), both).await;
        assert_eq!(other.free(1).await, (1, vec![4]));
        // The units are given back by another worker of the same gateway.
        let worker = one.bench.store.session();
        worker.settle_later(&mut { held }, |_| EVERYTHING);
        worker.finish().await;
        assert_eq!(other.free(1).await, (LIMIT, vec![]));
    });
}

#[test]
fn a_unit_takes_two_calls_and_what_is_due_together_is_announced_together() {
    const CLIENTS: u128 = 130;
    let (server, clock) = (Server::start(), Clock::manual(START));
    run(async {
        let gateway = Gateway::start(&server, &clock, PATIENT);
        let end = gateway.request(0, 1).await.expect("all is free");
        gateway.end(end);
        gateway.session.tick();
        gateway.settled().await;
        let before = calls(&server);
        let mut held = Vec::new();
        for client in 0..CLIENTS {
            held.extend(gateway.request(client, 1).await);
        }
        assert_eq!(calls(&server) - before, 130);
        // The gateway announces itself, too.
        clock.advance(Micros::from_secs(5));
        gateway.session.tick();
        gateway.settled().await;
        assert_eq!(calls(&server) - before, 130 + 3 + 1);
        for charge in held {
            gateway.end(charge);
        }
        gateway.settled().await;
        assert_eq!(calls(&server) - before, 130 + 3 + 1 + 3);
        // Now one after the other.
        for client in 0..CLIENTS {
            let held = gateway.request(client, 1).await.expect("all is free");
            gateway.end(held);
            gateway.settled().await;
        }
        assert_eq!(calls(&server) - before, 130 + 3 + 1 + 3 + 2 * 130);
    });
}

/// While Redis is away, held units stay held; new ones are decided locally, and announced when Redis is back.
#[test]
fn what_was_admitted_while_redis_was_away_counts_when_it_is_back() {
    with_two(Duration::from_millis(300), async |one, other, _| {
        let held = one.request(1, 3).await.expect("all is free");
        one.proxy.set(Fault::BlackHole);
        let local = Check {
            on_store_failure: OnStoreFailure::Local,
            ..one.check(1, 4)
        };
        let open = Check {
            on_store_failure: OnStoreFailure::Open,
            ..one.check(2, 3)
        };
        let mut admitted = Vec::new();
        for (check, expected) in [(local, true), (local, false), (open, true)] {
            let decided = one.session.decide(&[check]).await;
            let StoreVerdict::Decided {
                verdict,
                mut charge,
                is_degraded: true,
            } = decided
            else {
                panic!("Redis decided: {decided:?}");
            };
            assert_eq!(verdict.admit, expected);
            admitted.extend(charge.take_held().filter(|_| expected));
        }
        assert_eq!(admitted.len(), 2);
        assert_eq!(other.free(1).await.1, [3]);
        one.proxy.set(Fault::None);
        one.settled().await;
        assert_eq!(other.free(1).await, (0, vec![7]));
        assert_eq!(other.free(2).await, (2, vec![3]));
        for charge in admitted.into_iter().chain([held]) {
            one.end(charge);
        }
        one.settled().await;
        for client in [1, 2] {
            assert_eq!(other.free(client).await, (LIMIT, vec![]));
        }
    });
}

/// The units of one client and the window of another are in different slots.
#[test]
fn a_plan_over_several_slots_holds_its_units_or_none() {
    let cluster = Cluster::start(3, 0);
    let bench = Bench::on_cluster(&cluster);
    run(async {
        let session = bench.store.session();
        let units = Check {
            series_id: units_of(&bench),
            cost: 3,
            ..check(&FIVE, 0, 1)
        };
        let free = async || {
            session.finish().await;
            let peeked = session.peek_checks(&[Check { cost: 0, ..units }]).await;
            peeked[0].decision.remaining
        };
        let mut windows = (2..).map(|client| Check {
            policy: PlanPolicy(1),
            ..check(&ONE, 0, client)
        });
        for _ in 0..8 {
            let plan = [units, windows.next().expect("there are more")];
            let decided = session.decide(&plan).await;
            let StoreVerdict::Decided {
                verdict,
                mut charge,
                ..
            } = decided
            else {
                panic!("Redis answers");
            };
            assert!(verdict.admit);
            let mut held = charge.take_held().expect("units");
            assert_eq!(free().await, 2);
            // A refusal by either quota costs the other nothing.
            let refused = [units, windows.next().expect("there are more")];
            let spent = [Check { cost: 1, ..units }, plan[1]];
            for plan in [refused, spent] {
                let StoreVerdict::Decided { verdict, .. } = session.decide(&plan).await else {
                    panic!("Redis answers");
                };
                assert!(!verdict.admit);
            }
            let left = session
                .peek(&[Check {
                    cost: 0,
                    ..refused[1]
                }])
                .await;
            assert_eq!((free().await, left[0].remaining), (2, 1));
            session.settle_later(&mut held, |_| EVERYTHING);
            assert_eq!(free().await, LIMIT);
        }
    });
}

/// An event that happens to one of two clients, at one of three gateways.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A request of that cost, which another quota refuses if `is_refused`.
    Request { cost: u64, is_refused: bool },
    /// A request of that cost whose answer from Redis comes too late.
    Late { cost: u64 },
    /// A client that leaves before Redis has answered.
    Leave { cost: u64 },
    /// One of the requests ends.
    End(prop::sample::Index),
    /// That many milliseconds pass.
    Pass(u64),
    /// The gateway stands still until its leases have ended.
    Stall,
    /// The gateway is killed, and another one takes its place.
    Kill,
    /// The server forgets everything.
    Flush,
}

fn event() -> impl Strategy<Value = (usize, u128, Event)> {
    let cost = 0..4_u64;
    let event = prop_oneof![
        10 => (cost.clone(), prop::bool::weighted(0.2))
            .prop_map(|(cost, is_refused)| Event::Request { cost, is_refused }),
        1 => cost.clone().prop_map(|cost| Event::Late { cost }),
        2 => cost.prop_map(|cost| Event::Leave { cost }),
        10 => any::<prop::sample::Index>().prop_map(Event::End),
        2 => (0..20_000_u64).prop_map(Event::Pass),
        1 => Just(Event::Stall),
        1 => Just(Event::Kill),
        1 => Just(Event::Flush),
    ];
    (0..3_usize, 0..2_u128, event)
}

/// A request that holds units.
struct Held {
    gateway: usize,
    client: u128,
    units: u64,
    charge: Charge,
}

/// Three gateways, the units that their requests hold, and the units that may be held beyond the quota.
struct History<'s> {
    server: &'s Server,
    clock: Clock,
    gateways: Vec<Gateway>,
    clients: u128,
    held: Vec<Held>,
    /// Units that a client may hold beyond the quota: those of ended leases, and those that Redis forgot.
    beyond: BTreeMap<u128, u64>,
    /// Time until which Redis may still count units that nobody holds.
    dead_until: Option<tollgate::clock::Timestamp>,
}

impl History<'_> {
    fn held(&self, client: u128, is_meant: impl Fn(&Held) -> bool) -> u64 {
        let held = self
            .held
            .iter()
            .filter(|one| one.client == client && is_meant(one));
        held.map(|one| one.units).sum()
    }

    /// Records that Redis no longer counts these units, until they are announced again.
    fn forgotten(&mut self, is_meant: impl Fn(&Held) -> bool + Copy) {
        for client in [self.clients, self.clients + 1] {
            *self.beyond.entry(client).or_default() += self.held(client, is_meant);
        }
    }

    async fn settled(&self) {
        for gateway in &self.gateways {
            gateway.settled().await;
        }
    }

    /// Whether Redis counts exactly the units that are held.
    fn is_exact(&self) -> bool {
        self.dead_until
            .is_none_or(|until| self.clock.now() >= until)
    }

    async fn happen(&mut self, at: usize, client: u128, event: Event) {
        let (client, gateway) = (self.clients + client, &self.gateways[at]);
        match event {
            Event::Request { cost, is_refused } => {
                self.settled().await;
                let Ok(held) = gateway.ask(client, cost, is_refused).await else {
                    // A busy machine was too slow.
                    return self.settled().await;
                };
                let total = self.held(client, |_| true) + cost;
                let fits = total <= LIMIT && !is_refused;
                let is_admitted = held.is_some();
                if self.is_exact() {
                    assert_eq!(is_admitted, fits, "{total} units with {cost}");
                } else if is_admitted {
                    let beyond = self.beyond.get(&client).copied().unwrap_or(0);
                    assert!(total <= LIMIT + beyond, "{total} units, {beyond} beyond");
                }
                self.held.extend(held.map(|charge| Held {
                    gateway: at,
                    client,
                    units: cost,
                    charge,
                }));
            }
            Event::Late { cost } => {
                gateway.proxy.set(Fault::BlackHole);
                assert!(gateway.ask(client, cost, false).await.is_err());
                gateway.proxy.set(Fault::None);
                self.settled().await;
            }
            Event::Leave { cost } => {
                let plan = [gateway.check(client, cost)];
                let turns = usize::try_from(cost * 7).expect("few");
                let deciding = Box::pin(gateway.session.decide(&plan));
                if let Some(decided) = within_turns(turns, deciding).await {
                    // The client leaves when the answer has come.
                    gateway.leave(decided);
                }
                self.settled().await;
            }
            Event::End(which) => {
                if !self.held.is_empty() {
                    let ended = self.held.swap_remove(which.index(self.held.len()));
                    self.gateways[ended.gateway].end(ended.charge);
                }
            }
            Event::Pass(ms) => pass(&self.clock, Micros(ms * 1_000), self.gateways.iter()).await,
            Event::Stall => {
                self.forgotten(|held| held.gateway == at);
                let others = self.gateways.iter().enumerate();
                let others = others.filter(|(index, _)| *index != at).map(|(_, one)| one);
                pass(&self.clock, LEASE, others).await;
                // The gateway may admit requests before it has announced its units again.
                self.dead_until = Some(self.clock.now() + Micros(1));
                pass(&self.clock, Micros(1), self.gateways.iter()).await;
            }
            Event::Kill => {
                self.held.retain(|held| held.gateway != at);
                self.gateways[at] = Gateway::start(self.server, &self.clock, HASTY);
                self.dead_until = Some(self.clock.now() + LEASE);
            }
            Event::Flush => {
                self.settled().await;
                self.forgotten(|_| true);
                self.server.command(&["FLUSHALL"]);
                self.dead_until = Some(self.clock.now() + Micros::from_secs(8));
            }
        }
    }
}

async fn nothing_is_left(
    server: &Server,
    clients: u128,
    events: Vec<(usize, u128, Event)>,
) -> Vec<(u64, Vec<u64>)> {
    let clock = Clock::manual(START);
    let gateway = || Gateway::start(server, &clock, HASTY);
    let gateways = vec![gateway(), gateway(), gateway()];
    let mut history = History {
        server,
        clock: clock.clone(),
        gateways,
        clients,
        held: Vec::new(),
        beyond: BTreeMap::new(),
        dead_until: None,
    };
    for (at, client, event) in events {
        history.happen(at, client, event).await;
    }
    for held in std::mem::take(&mut history.held) {
        history.gateways[held.gateway].end(held.charge);
    }
    history.settled().await;
    if !history.is_exact() {
        clock.advance(LEASE);
    }
    let mut found = Vec::new();
    for gateway in &history.gateways {
        found.push(gateway.free(clients).await);
        found.push(gateway.free(clients + 1).await);
    }
    found
}

#[test]
fn after_every_history_nothing_is_held_and_no_more_than_there_is_was() {
    let server = Server::start();
    histories(40, event(), |clients, events| {
        let mut found = Vec::new();
        run(async { found = nothing_is_left(&server, clients, events).await });
        prop_assert_eq!(found, vec![(LIMIT, vec![]); 6]);
        Ok(())
    });
}
