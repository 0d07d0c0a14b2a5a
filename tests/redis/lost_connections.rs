//! One connection of a gateway ends, or cannot be made: its worker decides alone, and the others in Redis.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::gate::{CLIENT, Gate};
use crate::support::redis::Server;
use crate::support::{Client, Config, eventually};

/// Clients that send requests all the time, each on its own connection, and so always to the same worker.
const CLIENTS: usize = 16;
/// Most clients that one worker may have, if the gateway spreads connections roughly evenly.
const OF_ONE_WORKER: usize = CLIENTS * 3 / 4;
/// Connections of the gateway to Redis: one of each of its two workers, and the admin port's.
const CONNECTIONS: u64 = 3;
/// How many times a connection is killed.
const KILLS: usize = 6;
/// Number of answers that each client waits for before and after something happens.
const ANSWERS: u64 = 50;

/// Counts of the answers that one client got.
#[derive(Default)]
struct Seen {
    answers: AtomicU64,
    /// Answers without RateLimit fields, which means that Redis did not decide them.
    degraded: AtomicU64,
}

/// A gateway with two workers, under load.
struct Crowd<'a> {
    gate: &'a Gate,
    redis: &'a Server,
    seen: &'a [Seen],
}

/// Starts a gateway with two workers, and clients, and runs `test` while they send requests.
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
            // Until its first answer, a connection may not have been given to a worker.
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

/// Ends the clients when it is dropped, whether the test succeeds or not.
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
    /// Returns how many answers each client got that Redis did not decide.
    fn degraded(&self) -> Vec<u64> {
        let of = |seen: &Seen| seen.degraded.load(Ordering::SeqCst);
        self.seen.iter().map(of).collect()
    }

    /// Waits until every client has got many more answers.
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

    /// Returns the server's ids of the connections on which the gateway last called a script.
    fn connections(&self) -> Vec<String> {
        let list = self
            .redis
            .command(&["CLIENT", "LIST", "TYPE", "normal"])
            .text();
        // The admin port's connection decides nothing here.
        let of_gateway = list.lines().filter(|line| line.contains("cmd=evalsha"));
        let ids = of_gateway.filter_map(|line| line.split(' ').next()?.strip_prefix("id="));
        ids.map(str::to_owned).collect()
    }

    /// Kills a connection of the gateway, and does not let it back in for a while. Returns how many clients were
    /// decided without Redis in the meantime.
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

    /// Kills the connection with that id.
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
        // If one of them is the admin port's, its loss affects no client.
        let connections = crowd.connections();
        let hits = connections.iter().map(|killed| crowd.shut_out(killed));
        let hits: Vec<usize> = hits.take_while(|hit| *hit == 0).collect();
        assert!(hits.len() < connections.len(), "nobody was hit");
    });
}
