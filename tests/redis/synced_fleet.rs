//! Three gateways that count by themselves, each with its own network to Redis, and what they must know of each other.

use std::time::Duration;

use futures_util::future::join_all;
use proptest::prelude::*;
use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::{Adjustment, Quota};
use tollgate::store::Charge;

use crate::lease_fleet::{Fleet, GAP, Gateway, HASTY, TICK};
use crate::support::redis::{Fault, Proxy, Server};
use crate::synced::INTERVAL;
use crate::synced_ledger::Ledger;

/// How long a refusal is remembered.
const REMEMBERED: Micros = Micros(1_000_000);
/// Number of a busy client's requests after which background work may finish.
const UNHURRIED: u64 = 8;
/// Time that passes in short steps.
const SHORT: Micros = Micros(2_000_000);

/// That many requests of that cost.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    pub count: u64,
    pub cost: u64,
}

/// A charge that its gateway can still settle.
pub struct Standing {
    pub place: usize,
    pub charge: Charge,
    pub units: u64,
    pub charged_at: Timestamp,
    /// Whether a reset has made the charge void.
    pub is_over: bool,
}

/// A gateway for which Redis is away.
pub struct Lonely {
    pub place: usize,
    pub since: Timestamp,
    /// Its share once it has missed a second interval: the ledger's length at that time, and the units it may spend.
    pub share: Option<(usize, i64)>,
}

/// One of three gateways: its number in the ledger, the time at which all of its reports so far had last been answered,
/// and the time since which it has reported in every interval without a failure.
#[derive(Clone, Copy)]
pub struct Place {
    pub gateway: usize,
    pub quiet_at: Timestamp,
    pub regular_from: Timestamp,
}

/// Three gateways, and what they have admitted since the last reset.
pub struct SyncedFleet<'s> {
    pub fleet: Fleet<'s>,
    pub proxies: Vec<Proxy>,
    pub places: Vec<Place>,
    pub quota: Quota,
    pub client: u128,
    pub standing: Vec<Standing>,
    pub ledger: Ledger,
    pub lonely: Option<Lonely>,
    /// Time of the last change of the clients' limit.
    pub renumbered_at: Timestamp,
}

impl<'s> SyncedFleet<'s> {
    pub async fn start(server: &'s Server, quota: Quota, client: u128) -> Self {
        // Gateways of an earlier history, which began at the same time by the clock, are not part of this fleet.
        server.command(&["FLUSHALL"]);
        let proxies: Vec<_> = (0..3).map(|_| Proxy::to(server.address())).collect();
        let ways: Vec<_> = proxies.iter().map(Proxy::address).collect();
        let fleet = Fleet::start(server, &ways, HASTY).await;
        fleet.meet().await;
        let (mut ledger, now) = (Ledger::new(INTERVAL), fleet.clock.now());
        let place = |_| Place {
            gateway: ledger.join(now),
            quiet_at: now,
            regular_from: now,
        };
        Self {
            places: (0..3).map(place).collect(),
            fleet,
            proxies,
            quota,
            client,
            standing: Vec::new(),
            ledger,
            lonely: None,
            renumbered_at: Timestamp(0),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.fleet.clock.now()
    }

    /// Lets a moment pass, after which each gateway may begin to report.
    pub fn advance(&self, by: Micros) {
        self.fleet.clock.advance(by);
        for gateway in &self.fleet.gateways {
            gateway.session.tick();
        }
    }

    pub fn is_away(&self, place: usize) -> bool {
        (self.lonely.as_ref()).is_some_and(|lonely| lonely.place == place)
    }

    /// Waits until all calls to Redis at this moment have been answered, except those of a gateway for which it is
    /// away.
    pub async fn quiet(&mut self) {
        let here = (0..3).filter(|place| !self.is_away(*place));
        let here: Vec<_> = here.collect();
        join_all((here.iter()).map(|place| self.fleet.gateways[*place].quiet())).await;
        let now = self.now();
        for place in here {
            let place = &mut self.places[place];
            let before = std::mem::replace(&mut place.quiet_at, now);
            if before >= place.regular_from {
                self.ledger.answered(place.gateway, before, now);
            }
        }
    }

    /// Lets time pass, while the gateways go on working; of longer times, only the end passes in short steps.
    pub async fn pass(&mut self, time: Micros) {
        let mut left = time.0;
        while left > 0 {
            let step = left.min(if left > SHORT.0 {
                4 * TICK.0
            } else {
                2 * TICK.0
            });
            self.advance(Micros(step));
            self.quiet().await;
            left -= step;
        }
    }

    /// Decides a request of that cost; returns whether it was decided.
    pub async fn request(&mut self, place: usize, cost: u64) -> bool {
        let (now, quota, by) = (self.now(), self.quota, self.places[place].gateway);
        self.notice_absence(place);
        let gateway = &self.fleet.gateways[place];
        let plan = [gateway.synced(&quota, self.client, cost)];
        match gateway.ask(&plan).await {
            Ok(Some(charge)) => {
                self.ledger.add(by, now, now, cost.cast_signed());
                self.standing.push(Standing {
                    place,
                    charge,
                    units: cost,
                    charged_at: now,
                    is_over: false,
                });
                self.assert_law(place);
                true
            }
            Ok(None) => {
                self.assert_refused_rightly(place, cost);
                true
            }
            Err(()) => {
                // If it was charged, the charge comes back.
                self.come_and_go(place, cost);
                if self.is_away(place) {
                    self.ledger.lost_units(cost);
                }
                false
            }
        }
    }

    /// Records a gateway's share of what is left, once it has missed a second interval.
    pub fn notice_absence(&mut self, place: usize) {
        let (now, by) = (self.now(), self.places[place].gateway);
        let left = self.quota.limit.cast_signed() - self.ledger.known_to(by);
        let missed = Micros(2 * INTERVAL.0);
        if let Some(lonely) = &mut self.lonely
            && lonely.place == place
            && now.since(lonely.since) >= missed
        {
            let share = (self.ledger.len(), left.max(0) / 3);
            lonely.share.get_or_insert(share);
        }
    }

    pub fn assert_law(&self, place: usize) {
        let by = self.places[place].gateway;
        let (known, limit) = (self.ledger.known_to(by), self.quota.limit);
        assert!(known <= limit.cast_signed(), "{known} of {limit} admitted");
        let lonely = self.lonely.as_ref().filter(|lonely| lonely.place == place);
        if let Some((from, share)) = lonely.and_then(|lonely| lonely.share) {
            let spent = self.ledger.spent_since(from, by);
            assert!(spent <= share, "{spent} admitted alone, of {share}");
        }
    }

    pub fn assert_refused_rightly(&self, place: usize, cost: u64) {
        let (now, at) = (self.now(), &self.places[place]);
        // A refusal is remembered for a while.
        let is_regular = at.quiet_at >= at.regular_from + REMEMBERED;
        if !is_regular || self.is_away(place) || now.since(self.renumbered_at) <= REMEMBERED {
            return;
        }
        let known = self.ledger.known_max(at.gateway).cast_unsigned();
        assert!(
            known + cost > self.quota.limit,
            "refused though at most {known} are counted"
        );
    }

    /// Records units that come back, if they were charged at all.
    pub fn come_and_go(&mut self, place: usize, cost: u64) {
        let (now, by) = (self.now(), self.places[place].gateway);
        self.ledger.add(by, now, now, cost.cast_signed());
        self.ledger.add(by, now, now, -cost.cast_signed());
    }

    pub async fn burst(&mut self, place: usize, requests: Requests, is_hurried: bool) {
        for number in 1..=requests.count {
            self.advance(GAP);
            if !self.request(place, requests.cost).await && self.is_away(place) {
                break;
            }
            if !is_hurried && number.is_multiple_of(UNHURRIED) {
                self.quiet().await;
            }
        }
    }

    /// Replaces a gateway that has ended by a new one.
    pub async fn replace(&mut self, place: usize, server: &Server) {
        self.standing.retain(|one| one.place != place);
        // Whatever the old gateway was still sending never arrives.
        self.proxies[place] = Proxy::to(server.address());
        let way = self.proxies[place].address();
        self.fleet.gateways[place] = Gateway::start(way, &self.fleet.clock, HASTY).await;
        let now = self.now();
        self.places[place] = Place {
            gateway: self.ledger.join(now),
            quiet_at: now,
            regular_from: now,
        };
        // The new gateway learns how many there are.
        self.advance(Micros(0));
        self.quiet().await;
    }

    /// Resets the client at one gateway, and lets all know of it at once.
    pub async fn reset(&mut self, place: usize, is_hurried: bool) {
        if !is_hurried {
            self.quiet().await;
        }
        let quota = self.quota;
        let check = self.fleet.gateways[place].exact(&quota, self.client, 0);
        // A charge in the same microsecond as a reset could not be given back.
        self.fleet.clock.advance(Micros(1));
        let when = loop {
            let session = &self.fleet.gateways[place].session;
            if let Ok(when) = session.reset(&[check.series_id], check.partition_id).await {
                break when;
            }
        };
        for gateway in &self.fleet.gateways {
            let series_id = gateway.exact(&quota, self.client, 0).series_id;
            (gateway.bench.store).note_reset(series_id, check.partition_id, when);
        }
        self.fleet.clock.advance(Micros(1));
        let telling = self.places.iter().enumerate();
        let telling = telling.filter(|(place, _)| is_hurried || self.is_away(*place));
        let telling: Vec<_> = telling.map(|(_, place)| place.gateway).collect();
        self.ledger.reset(&telling, when);
        self.standing.iter_mut().for_each(|one| one.is_over = true);
        self.quiet().await;
    }

    /// Settles one of the charges made by the gateways at these places.
    pub fn settle(
        &mut self,
        which: prop::sample::Index,
        units: i64,
        places: std::ops::Range<usize>,
    ) {
        let now = self.now();
        let standing = self.standing.iter_mut();
        let mut standing: Vec<_> = standing.filter(|one| places.contains(&one.place)).collect();
        if standing.is_empty() {
            return;
        }
        let one = standing.swap_remove(which.index(standing.len()));
        let (by, amount) = (self.places[one.place].gateway, units.unsigned_abs());
        let adjustment = if units < 0 {
            let back = amount.min(one.units);
            one.units -= back;
            if !one.is_over {
                self.ledger
                    .add(by, one.charged_at, now, -back.cast_signed());
            }
            Adjustment::GiveBack(amount)
        } else {
            self.ledger.add(by, now, now, units);
            Adjustment::Spend(amount)
        };
        let session = &self.fleet.gateways[one.place].session;
        session.settle_later(&mut one.charge, |_| adjustment);
    }

    pub fn break_connection(&self, place: usize) {
        self.proxies[place].set(Fault::Refuse);
        self.proxies[place].reset_all();
    }

    /// Ends a gateway properly, after breaking its connection if `is_broken`.
    pub async fn shut_down(&mut self, place: usize, is_broken: bool) {
        let (gateway, now) = (self.places[place].gateway, self.now());
        let session = &self.fleet.gateways[place].session;
        assert_eq!(session.finish().await, 0, "charges not settled");
        if is_broken {
            self.break_connection(place);
        }
        let mended = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.proxies[place].set(Fault::None);
        };
        let (unreported, ()) = tokio::join!(session.report_all(), mended);
        assert_eq!(unreported, 0, "quotas not reported");
        if is_broken {
            self.ledger.lost_answer(gateway, now);
        }
        self.ledger.reported_all(gateway, now);
    }
}
