//! Histories of gateways that count by themselves and add up their counts, with failures: each gateway admits no more
//! than is left according to what it must know, and in the end Redis has counted what was spent.

use std::ops::RangeInclusive;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::clock::{Clock, Micros};
use tollgate::limit::{Algorithm, OldestBucket, Quota};

use crate::lease_fleet::{TICK, calendar_days, daily, tell_of_each};
use crate::support::redis::{Fault, Server};
use crate::synced::INTERVAL;
use crate::synced_fleet::{Lonely, Requests, SyncedFleet};

const LIMIT: u64 = 150;
/// How long a report waits for its answer, by the system's clock.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after which it is uncertain whether a report still waits.
const REPORT_TIME: Micros = Micros(800_000);

/// An event that happens at one of three gateways.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Requests, a moment after each other; if hurried, no background work is done in between.
    Burst {
        requests: Requests,
        is_hurried: bool,
    },
    /// That many milliseconds pass.
    Pass(u64),
    /// Redis is away for a gateway.
    Away(Away),
    /// A client that leaves after that many turns of the runtime, before its answer has come.
    Leave { turns: usize, cost: u64 },
    /// A charge is settled: that many units more are spent, or, if negative, given back.
    Settle(prop::sample::Index, i64),
    /// An operator resets the client, possibly while reports are under way.
    Reset { is_hurried: bool },
    /// The gateway is killed after such requests, and another one takes its place.
    Kill(Requests),
    /// The gateway ends, possibly just after its connection broke, and another one takes its place.
    Shutdown { requests: Requests, is_broken: bool },
    /// The clients' limit changes, or changes back.
    Number,
}

/// Redis is away for `ms` milliseconds, with requests before, at the beginning, at another gateway, and at the end.
#[derive(Clone, Copy, Debug)]
struct Away {
    how: Failure,
    requests: [Requests; 4],
    ms: u64,
    /// A charge that is partly given back in the meantime.
    settled: Option<(prop::sample::Index, i64)>,
    is_reset: bool,
}

/// How Redis is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Commands arrive in the end, and are answered.
    Slow,
    /// Commands arrive when nobody waits for an answer any more.
    Silent,
    /// Nothing arrives, and there is no connection.
    Refused,
    /// Commands arrive, but no answer does.
    Mute,
    /// Commands never arrive, and the connection breaks in the end.
    Lost,
}

fn requests(counts: impl Strategy<Value = u64>) -> impl Strategy<Value = Requests> {
    (counts, 1..4_u64).prop_map(|(count, cost)| Requests { count, cost })
}

fn away() -> impl Strategy<Value = Away> {
    let how = prop_oneof![
        12 => Just(Failure::Slow),
        // This one takes a second of real time.
        1 => Just(Failure::Silent),
        12 => Just(Failure::Refused),
        12 => Just(Failure::Mute),
        12 => Just(Failure::Lost),
    ];
    let ms = prop_oneof![1 => Just(0), 2 => 100..6_000_u64];
    let settled = prop::option::weighted(0.8, (any::<prop::sample::Index>(), -3..0_i64));
    let few = || requests(prop_oneof![Just(0), 1..10_u64]).boxed();
    let requests = [few(), few(), few(), requests(0..40_u64).boxed()];
    (how, requests, ms, settled, prop::bool::weighted(0.1)).prop_map(
        |(how, requests, ms, settled, is_reset)| Away {
            how,
            requests,
            ms,
            settled,
            is_reset,
        },
    )
}

fn event() -> impl Strategy<Value = (usize, Event)> {
    let settled = (any::<prop::sample::Index>(), -3..4_i64);
    let event = prop_oneof![
        12 => (requests(1..40_u64), any::<bool>())
            .prop_map(|(requests, is_hurried)| Event::Burst { requests, is_hurried }),
        // In this time, gateways still follow the client, and hear of each other.
        8 => (200..1_200_u64).prop_map(Event::Pass),
        2 => (1..3_000_u64).prop_map(Event::Pass),
        1 => (10_000..20_000_u64).prop_map(Event::Pass),
        2 => away().prop_map(Event::Away),
        2 => (0..30_usize, 1..4_u64).prop_map(|(turns, cost)| Event::Leave { turns, cost }),
        4 => settled.prop_map(|(which, units)| Event::Settle(which, units)),
        2 => any::<bool>().prop_map(|is_hurried| Event::Reset { is_hurried }),
        1 => requests(1..40_u64).prop_map(Event::Kill),
        1 => (requests(1..40_u64), prop::bool::weighted(0.3))
            .prop_map(|(requests, is_broken)| Event::Shutdown { requests, is_broken }),
        1 => Just(Event::Number),
    ];
    (0..3_usize, event)
}

/// Returns quotas of every algorithm that gateways can add up, from which nothing comes back while a test runs. There
/// are so many buckets that each history uses several.
fn quotas() -> Vec<Quota> {
    let daily = |algorithm| Quota {
        algorithm,
        ..daily(LIMIT)
    };
    let hourly = |oldest| Quota {
        window: Micros::from_secs(3_600),
        ..daily(Algorithm::SlidingWindow {
            buckets: 360,
            oldest,
        })
    };
    vec![
        daily(Algorithm::FixedWindow),
        daily(calendar_days()),
        hourly(OldestBucket::Weighted),
        hourly(OldestBucket::Whole),
        hourly(OldestBucket::Dropped),
    ]
}

impl SyncedFleet<'_> {
    async fn leave(&mut self, place: usize, turns: usize, cost: u64) {
        self.come_and_go(place, cost);
        let quota = self.quota;
        let gateway = &self.fleet.gateways[place];
        let plan = [gateway.synced(&quota, self.client, cost)];
        gateway.leave(turns, &plan).await;
        self.quiet().await;
    }

    async fn away(&mut self, place: usize, away: Away) {
        let [before, first, elsewhere, last] = away.requests;
        self.burst(place, before, true).await;
        let system = Clock::system();
        let (began, began_at) = (system.now(), self.now());
        match away.how {
            Failure::Slow | Failure::Silent | Failure::Lost => {
                self.proxies[place].set(Fault::BlackHole);
            }
            Failure::Refused => self.break_connection(place),
            Failure::Mute => self.proxies[place].set(Fault::Cut { after: 0 }),
        }
        // Earlier answers arrive in this time.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let by = self.places[place].gateway;
        self.lonely = Some(Lonely {
            place,
            since: self.now(),
            share: None,
        });
        self.burst(place, first, true).await;
        if let Some((which, units)) = away.settled {
            self.settle(which, units, place..place + 1);
        }
        let other = (place + 1) % 3;
        self.burst(other, elsewhere, false).await;
        self.pass(Micros(away.ms * 1_000)).await;
        if away.is_reset {
            self.reset(other, false).await;
        }
        self.burst(place, last, true).await;
        if away.how == Failure::Silent {
            tokio::time::sleep(REPORT_TIMEOUT + Duration::from_millis(50)).await;
        }
        if away.how == Failure::Lost {
            self.break_connection(place);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let is_late = system.now().since(began) > REPORT_TIME;
        if away.how != Failure::Slow || is_late {
            // A report under way began as soon as it was due, or soon after a reset.
            let due_at = began_at + INTERVAL + TICK + TICK;
            let by_then = if away.is_reset { self.now() } else { due_at };
            self.ledger.lost_answer(by, by_then);
        }
        self.proxies[place].set(Fault::None);
        self.lonely = None;
        self.places[place].regular_from = self.now() + INTERVAL + TICK;
        self.fleet.gateways[place].quiet().await;
        self.quiet().await;
    }

    async fn happen(&mut self, server: &Server, place: usize, event: Event) {
        match event {
            Event::Burst {
                requests,
                is_hurried,
            } => self.burst(place, requests, is_hurried).await,
            Event::Pass(ms) => self.pass(Micros(ms * 1_000)).await,
            Event::Away(away) => self.away(place, away).await,
            Event::Leave { turns, cost } => self.leave(place, turns, cost).await,
            Event::Settle(which, units) => {
                self.settle(which, units, 0..3);
                self.quiet().await;
            }
            Event::Reset { is_hurried } => self.reset(place, is_hurried).await,
            Event::Kill(requests) => {
                self.burst(place, requests, true).await;
                self.ledger.killed(self.places[place].gateway);
                self.replace(place, server).await;
            }
            Event::Shutdown {
                requests,
                is_broken,
            } => {
                self.burst(place, requests, true).await;
                self.shut_down(place, is_broken).await;
                self.replace(place, server).await;
            }
            Event::Number => {
                self.quota.limit = 3 * LIMIT - self.quota.limit;
                self.renumbered_at = self.now();
            }
        }
    }
}

/// Runs a history; returns the least and the most units that Redis may have counted, and what it has counted.
async fn ends(
    server: &Server,
    quota: Quota,
    client: u128,
    events: Vec<(usize, Event)>,
) -> (RangeInclusive<i64>, i64) {
    let mut history = SyncedFleet::start(server, quota, client).await;
    for (place, event) in events {
        history.happen(server, place, event).await;
    }
    history.pass(Micros::from_secs(4)).await;
    for place in 0..3 {
        history.shut_down(place, false).await;
    }
    let (least, most) = history.ledger.counted();
    let counted = history.fleet.counted(&quota, client).await;
    (least..=most, counted.cast_signed())
}

#[test]
fn each_gateway_keeps_the_quota_as_far_as_it_has_heard_and_all_that_was_spent_is_counted() {
    tell_of_each(&quotas(), event, ends);
}
