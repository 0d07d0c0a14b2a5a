//! One connection of a gateway ends, or cannot be made: its worker decides alone, the others in Redis.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::gate::{CLIENT, Gate};
use crate::support::redis::Server;
use crate::support::{Client, Config, eventually};

/// Clients that ask all the time, each on its connection, and so always of the same worker.
const CLIENTS: usize = 16;
/// Most clients of one worker, if the gateway spreads connections halfway evenly.
const OF_ONE_WORKER: usize = CLIENTS * 3 / 4;
/// Those of the gateway to Redis: each of its two workers has one, and the admin port.
const CONNECTIONS: u64 = 3;
/// How often a connection is killed.
const KILLS: usize = 6;
/// Answers that each client waits for before and after something happens.
const ANSWERS: u64 = 50;

/// What one client was told so far.
#[derive(Default)]
struct Seen {
    answers: AtomicU64,
    /// Those without RateLimit fields: Redis did not decide them.
    degraded: AtomicU64,
}

/// A gateway of two workers under load.
struct Crowd<'a> {
    gate: &'a Gate,
    redis: &'a Server,
    seen: &'a [Seen],
}

/// Starts a gateway of two workers and clients, and runs `test` beside them.
fn under_load(test: impl FnOnce(&Crowd<'_>)) {
    let redis = Server::start();
    let policy = "quota = '1000000 per hour'\non_store_failure = 'open'";
    let policy = format!("{policy}\npartition = ['header:{CLIENT}']");
    let config = Config::to("builtin:echo").policy("p", &policy);
    let gate = Gate::start(
        config.route("/*", "policies = ['p']"),
        &format!("url = 'redis://{}'\ntimeout = '5s'", redis.address()),
    );
    gate.wait_for_connections(CONNECTIONS);
    let seen: Vec<Seen> = (0..CLIENTS).map(|_| Seen::default()).collect();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for seen in &seen {
            let mut client = Client::connect(gate.process.public);
            // Until it is answered, it may not have been given to a worker.
            seen.ask(&mut client);
            let ended = &ended;
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    seen.ask(&mut client);
                }
            });
        }
        let end = End(&ended);
        test(&Crowd {
            gate: &gate,
            redis: &redis,
            seen: &seen,
        });
        drop(end);
    });
}

/// Ends the clients, whatever becomes of the test.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Seen {
    fn ask(&self, client: &mut Client) {
        let answer = client.get("/", &format!("{CLIENT}: somebody\r\n"));
        assert_eq!(answer.status, 200);
        let is_degraded = answer.field("ratelimit").is_none();
        self.degraded
            .fetch_add(is_degraded.into(), Ordering::SeqCst);
        self.answers.fetch_add(1, Ordering::SeqCst);
    }
}

impl Crowd<'_> {
    /// Returns how many answers without Redis each client has seen.
    fn degraded(&self) -> Vec<u64> {
        let of = |seen: &Seen| seen.degraded.load(Ordering::SeqCst);
        self.seen.iter().map(of).collect()
    }

    /// Waits until every client has had many more answers.
    #[track_caller]
    fn go_on(&self) {
        let of = |seen: &Seen| seen.answers.load(Ordering::SeqCst);
        let before: Vec<u64> = self.seen.iter().map(of).collect();
        eventually("every client is answered", || {
            let mut both = self.seen.iter().zip(&before);
            both.all(|(seen, before)| of(seen) >= before + ANSWERS)
                .then_some(())
        });
    }

    /// Returns the server's ids of the connections of the gateway's workers.
    fn connections(&self) -> Vec<String> {
        let list = self
            .redis
            .command(&["CLIENT", "LIST", "TYPE", "normal"])
            .text();
        // Through the admin port's connection nothing is decided here.
        let of_gateway = list.lines().filter(|line| line.contains("cmd=evalsha"));
        let ids = of_gateway.filter_map(|line| line.split(' ').next()?.strip_prefix("id="));
        ids.map(str::to_owned).collect()
    }

    /// Kills a connection of the gateway, which is not let in again for a while; returns how many clients are decided
    /// without Redis meanwhile.
    #[track_caller]
    fn shut_out(&self, killed: &str) -> usize {
        self.go_on();
        let before = self.degraded();
        let all = (self.redis.command(&["CLIENT", "LIST"]).text().lines()).count();
        let rejected = || self.redis.figure("stats", "rejected_connections");
        let rejected_before = rejected();
        let most = (all - 1).to_string();
        self.redis.command(&["CONFIG", "SET", "maxclients", &most]);
        self.kill(killed);
        self.gate.wait_for_connections(CONNECTIONS - 1);
        eventually("it has tried to come back", || {
            (rejected() >= rejected_before + 3).then_some(())
        });
        self.go_on();
        self.gate.wait_for_connections(CONNECTIONS - 1);
        self.gate.assert_no_breaker_opened();
        let after = self.degraded();
        let hit = before.iter().zip(&after).filter(|(x, y)| x < y).count();
        assert!(
            hit <= OF_ONE_WORKER,
            "{hit} of {CLIENTS} were decided without Redis"
        );
        self.redis.command(&["CONFIG", "SET", "maxclients", "100"]);
        self.gate.wait_for_connections(CONNECTIONS);
        self.go_on();
        let before = self.degraded();
        self.go_on();
        assert_eq!(self.degraded(), before);
        hit
    }

    /// Kills a connection of the gateway.
    fn kill(&self, id: &str) {
        self.redis.command(&["CLIENT", "KILL", "ID", id]);
    }
}

#[test]
fn lost_connection_concerns_the_clients_of_its_worker_alone() {
    under_load(|crowd| {
        for turn in 0..KILLS {
            crowd.gate.wait_for_connections(CONNECTIONS);
            crowd.go_on();
            let before = crowd.degraded();
            let connections = crowd.connections();
            let killed = &connections[turn % connections.len()];
            crowd.kill(killed);
            eventually("another connection has replaced it", || {
                let now = crowd.connections();
                (now.len() == connections.len() && !now.contains(killed)).then_some(())
            });
            crowd.go_on();
            let after = crowd.degraded();
            let hit = before.iter().zip(&after).filter(|(x, y)| x < y).count();
            assert!(
                hit <= OF_ONE_WORKER,
                "{hit} of {CLIENTS} were decided without Redis"
            );
        }
        crowd.gate.assert_no_breaker_opened();
    });
}

#[test]
fn worker_that_is_let_in_no_more_takes_redis_from_no_other() {
    under_load(|crowd| {
        // One of them is the admin port's, which decides nothing.
        let connections = crowd.connections();
        let hits = connections.iter().map(|killed| crowd.shut_out(killed));
        let hits: Vec<usize> = hits.take_while(|hit| *hit == 0).collect();
        assert!(hits.len() < connections.len(), "nobody was hit");
    });
}
