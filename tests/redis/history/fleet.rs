//! A whole fleet with all troubles at once: one gateway has other numbers than the rest, clocks are wrong, replies are
//! late, Redis is away while costs are reported, and a gateway ends before its requests do. In the end, Redis has
//! counted exactly what was admitted.

mod asking;
mod ledger;
mod numbers;
mod rig;
mod scripted;

use std::fmt::Write as _;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use self::asking::{Held, Request};
use self::ledger::Verdict;
use self::numbers::GATEWAYS;
use self::rig::{CLIENTS, CONNECTIONS, Rig};
use self::scripted::{Answering, Ending};
use super::recording::Watch;
use crate::support::Draws;
use crate::support::redis::Fault;

/// Number of threads that send requests at the same time.
const THREADS: usize = 6;
/// Number of requests of each thread in a phase.
const TURNS: usize = 10;
/// Number of requests whose answers are still awaited when Redis goes away, and of those decided while it is away.
const AWAITED: usize = 6;
/// Number of requests that are decided just before a gateway ends.
const LAST: usize = 12;
/// How many times a fleet is tried if the machine is too busy for a verdict.
const TRIES: usize = 3;
/// Later than a gateway's timeout, but sooner than it gives up the connection.
const LATE: Fault = Fault::Latency {
    by: Duration::from_millis(400),
    jitter: Duration::ZERO,
};
/// Some replies are late, others are not.
const UNSTEADY: Fault = Fault::Latency {
    by: Duration::from_millis(60),
    jitter: Duration::from_millis(300),
};

/// Why a run did not come to its end.
enum Stop {
    /// A gateway could not use Redis, though nothing was in its way.
    Busy,
    /// Something was counted or decided wrongly.
    Wrong(String),
}

/// One fleet, from its start to its end.
struct Run {
    rig: Rig,
    draws: Draws,
    seed: u64,
    /// Number of phases so far, which is also the index of the phase's gate at the origin.
    phase: usize,
    /// Number of requests that were decided while Redis was away.
    elsewhere: u64,
    /// Number of decisions for which the gateways that have ended could not use Redis.
    unasked: u64,
    story: String,
}

impl Run {
    #[track_caller]
    fn start(seed: u64) -> Self {
        let mut draws = Draws(seed);
        Self {
            rig: Rig::start(&mut draws),
            draws,
            seed,
            phase: 0,
            elsewhere: 0,
            unasked: 0,
            story: String::new(),
        }
    }

    fn run(&mut self) -> Result<(), Stop> {
        self.settle("the beginning")?;
        let first = self.draws.below(3);
        for phase in first..first + 3 {
            match phase % 3 {
                0 => self.be_calm()?,
                1 => self.be_late()?,
                _ => self.be_away()?,
            }
        }
        self.leave()?;
        self.end()
    }

    /// A phase in which nothing is wrong except numbers and clocks.
    fn be_calm(&mut self) -> Result<(), Stop> {
        let held = self.traffic(&self.rig.gateways());
        self.let_go(held);
        self.settle("a calm time")
    }

    /// A phase in which replies reach one gateway after it has decided without them.
    fn be_late(&mut self) -> Result<(), Stop> {
        let gateway = self.draw_gateway();
        let fault = [LATE, UNSTEADY][self.draws.below(2)];
        self.rig.proxies[gateway].set(fault);
        // This gateway gets as many requests as all others together.
        let mut asked = vec![gateway; GATEWAYS - 1];
        asked.extend(self.rig.gateways());
        let held = self.traffic(&asked);
        // The gateway knows what was charged when it learns the costs, or it does not know it yet.
        let is_known = self.draws.below(2) == 0;
        if is_known {
            self.rig.proxies[gateway].set(Fault::None);
            self.rig.wait_until_decided(gateway);
        }
        self.let_go(held);
        self.rig.proxies[gateway].set(Fault::None);
        let known = if is_known { "before" } else { "after" };
        self.settle(&format!(
            "late replies to gateway {gateway}, the last of them {known} costs were told"
        ))
    }

    /// A phase in which one gateway loses Redis while answers are awaited, and learns their costs before Redis is back.
    fn be_away(&mut self) -> Result<(), Stop> {
        // Often the gateway by whose clock all charges are old.
        let gateways = [self.draw_gateway(), self.rig.furthest_ahead()];
        let gateway = gateways[self.draws.below(2)];
        let mut held = Vec::new();
        for _ in 0..AWAITED {
            let request = self.draw_request(gateway, false, Some(self.phase));
            held.extend(self.rig.hold(request));
        }
        // Nothing may be under way when the connections end, because nobody could tell what became of it.
        self.settle_while_held(&format!("answers awaited at gateway {gateway}"))?;
        let proxy = &self.rig.proxies[gateway];
        proxy.set(Fault::Refuse);
        proxy.reset_all();
        self.rig.wait_for_connections(gateway, 0);
        for _ in 0..AWAITED {
            let request = self.draw_request(gateway, true, None);
            assert_eq!(self.rig.ask(request), Verdict::Admitted, "it counts itself");
            self.rig.was_elsewhere();
            self.elsewhere += 1;
        }
        let mut others = self.rig.gateways();
        others.retain(|other| *other != gateway);
        held.extend(self.traffic(&others));
        self.let_go(held);
        self.rig.proxies[gateway].set(Fault::None);
        self.rig.wait_for_connections(gateway, CONNECTIONS);
        self.settle(&format!("Redis away from gateway {gateway}"))
    }

    /// A phase in which one gateway ends before its requests do.
    fn leave(&mut self) -> Result<(), Stop> {
        let gateway = self.draw_gateway();
        let mut open = Vec::new();
        for ending in [Ending::Mute, Ending::Stream, Ending::Stream, Ending::Mute] {
            let mut request = self.draw_request(gateway, true, None);
            request.answering = request.answering.with(ending);
            open.push(self.rig.leave_open(request));
        }
        let mut paced = self.draw_request(gateway, true, None);
        paced.route = self.rig.paced_route();
        self.rig.ask(paced);
        open.extend(self.rig.leave_waiting(gateway, paced.client));
        // Some of Redis' last replies may be late, and arrive after the gateway was told to end.
        let is_late = self.draws.below(2) == 0;
        if is_late {
            self.rig.proxies[gateway].set(LATE);
            self.ask_last(gateway);
        }
        self.unasked += self.rig.unasked(gateway);
        let process = self.rig.take(gateway);
        let held = thread::scope(|scope| {
            let ending = scope.spawn(|| Rig::end(process));
            let held = self.traffic(&self.rig.gateways());
            ending.join().expect("it ends well");
            held
        });
        drop(open);
        self.let_go(held);
        let late = if is_late {
            ", with replies to come"
        } else {
            ""
        };
        self.settle(&format!("the end of gateway {gateway}{late}"))
    }

    /// Sends many requests to a gateway at the same time.
    #[track_caller]
    fn ask_last(&mut self, gateway: usize) {
        let last: Vec<_> = (0..LAST)
            .map(|_| {
                let request = self.draw_request(gateway, false, None);
                self.rig.send(request)
            })
            .collect();
        for one in last {
            self.rig.read(one);
        }
    }

    /// Ends all gateways, and checks that Redis' counts are right and that no request was misjudged.
    fn end(&mut self) -> Result<(), Stop> {
        self.check_busy()?;
        for gateway in self.rig.gateways() {
            Rig::end(self.rig.take(gateway));
        }
        let differences = self.rig.differences();
        if !differences.is_empty() {
            return Err(self.wrong("the end of all", &differences));
        }
        let misjudged = self.rig.ledger().misjudged();
        let misjudged: Vec<_> = misjudged.iter().map(|asked| format!("{asked:?}")).collect();
        if !misjudged.is_empty() {
            return Err(self.wrong("the end of all, misjudged", &misjudged));
        }
        self.tell();
        Ok(())
    }

    fn tell(&self) {
        use Verdict::{Admitted, Elsewhere, Refused, Undecided};
        let ledger = self.rig.ledger();
        let count = |verdict| ledger.count(verdict);
        let [admitted, refused, undecided, elsewhere] =
            [Admitted, Refused, Undecided, Elsewhere].map(count);
        println!(
            "seed {}: {admitted} admitted, {refused} refused, {undecided} refused without a decision, \
             {elsewhere} admitted while Redis was away",
            self.seed
        );
    }

    /// Lets many clients send requests to these gateways; returns the requests whose answers the origin holds back.
    #[track_caller]
    fn traffic(&self, gateways: &[usize]) -> Vec<Held> {
        thread::scope(|scope| {
            let start = |thread| {
                let number = (self.seed << 16) + (self.phase << 8) as u64 + thread;
                scope.spawn(move || self.ask_often(gateways, Draws(number)))
            };
            let running: Vec<_> = (0..THREADS as u64).map(start).collect();
            let ends = running.into_iter().map(ScopedJoinHandle::join);
            let all = ends.flat_map(|end| end.expect("clients do not panic"));
            all.collect()
        })
    }

    #[track_caller]
    fn ask_often(&self, gateways: &[usize], mut draws: Draws) -> Vec<Held> {
        let mut held = Vec::new();
        for _ in 0..TURNS {
            let gate = (draws.below(8) == 0).then_some(self.phase);
            let request = Request {
                gateway: gateways[draws.below(gateways.len())],
                route: self.rig.draw_route(&mut draws, false),
                client: draws.below(CLIENTS),
                answering: Answering::draw(&mut draws, gate),
            };
            if gate.is_some() {
                held.extend(self.rig.hold(request));
            } else {
                self.rig.ask(request);
            }
        }
        held
    }

    /// Draws a request; with `is_local`, its gateway must not refuse it while Redis is away.
    fn draw_request(&mut self, gateway: usize, is_local: bool, gate: Option<usize>) -> Request {
        Request {
            gateway,
            route: self.rig.draw_route(&mut self.draws, is_local),
            client: self.draws.below(CLIENTS),
            answering: Answering::draw(&mut self.draws, gate),
        }
    }

    fn draw_gateway(&mut self) -> usize {
        let all = self.rig.gateways();
        all[self.draws.below(all.len())]
    }

    /// Has the origin send the answers that it has held back in this phase.
    #[track_caller]
    fn let_go(&self, held: Vec<Held>) {
        self.rig.script.open(self.phase);
        for one in held {
            self.rig.read(one);
        }
    }

    /// Ends the phase, and waits until Redis has counted everything admitted so far.
    fn settle(&mut self, after: &str) -> Result<(), Stop> {
        self.phase += 1;
        self.settle_while_held(after)
    }

    fn settle_while_held(&mut self, after: &str) -> Result<(), Stop> {
        writeln!(self.story, "    {after}").expect("a string takes text");
        let differences = self.rig.settle();
        if differences.is_empty() {
            return Ok(());
        }
        self.check_busy()?;
        Err(self.wrong(after, &differences))
    }

    /// Stops if a gateway could not use Redis, though nothing was in its way.
    fn check_busy(&self) -> Result<(), Stop> {
        let running = self.rig.gateways().into_iter();
        let unasked: u64 = running.map(|gateway| self.rig.unasked(gateway)).sum();
        if unasked + self.unasked != self.elsewhere || self.rig.has_given_up() {
            return Err(Stop::Busy);
        }
        Ok(())
    }

    fn wrong(&self, after: &str, found: &[String]) -> Stop {
        let (seed, cast, story) = (self.seed, self.rig.cast(), &self.story);
        let found = found.join("\n");
        Stop::Wrong(format!(
            "seed {seed}, {cast}:\n{story}after {after}:\n{found}"
        ))
    }
}

/// Fails unless Redis counts exactly what a fleet admits.
#[track_caller]
fn count_what_is_admitted(seed: u64) {
    for _ in 0..TRIES {
        match Run::start(seed).run() {
            Ok(()) => return,
            Err(Stop::Busy) => println!("seed {seed}: a machine too busy to tell"),
            Err(Stop::Wrong(wrong)) => panic!("{wrong}"),
        }
    }
    panic!("{TRIES} times the machine was too busy to tell");
}

#[test]
fn fleet_of_seed_1_counts_what_it_admits_to_the_unit() {
    count_what_is_admitted(1);
}

#[test]
fn fleet_of_seed_2_counts_what_it_admits_to_the_unit() {
    count_what_is_admitted(2);
}

/// `scripts/drill/fleet` runs it for a hundred seeds.
#[test]
#[ignore = "a drill: it takes as long as its seeds"]
fn fleet_of_any_seed_counts_what_it_admits_to_the_unit() {
    let seed = std::env::var("SEED").expect("SEED says which");
    count_what_is_admitted(seed.parse().expect("SEED is a number"));
}
