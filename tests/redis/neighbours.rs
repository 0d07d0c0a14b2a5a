//! Plans over several partitions of a Cluster: clients that are refused for one partition take
//! nothing from those that share the other one.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::gate::{CLIENT, Gate, calls};
use crate::support::redis::{Cluster, Fault, Value, listed};
use crate::support::{Answer, Client, Config, eventually, get};

/// Field with the tenant, whose quota several clients share.
const TENANT: &str = "x-tenant";
/// Only Redis decides: without it, requests are refused.
const CLOSED: &str = "on_store_failure = 'closed'";
/// Units of a tenant's quota.
const SHARED: usize = 5;
/// Number of requests at once whose refusal comes late: more than the tenant's quota has units.
const CROWD: usize = 8;
const ROUNDS: usize = 5;
/// Shortest real time for which a primary is held, so that commands to the others arrive.
const HELD: Duration = Duration::from_millis(20);
/// Latency of the slow network to a primary; half of it in each direction.
const SLOW: Duration = Duration::from_millis(600);

/// A gateway on a Cluster, with names whose primaries the test knows.
struct Tenancy {
    cluster: Cluster,
    gate: Gate,
    named: usize,
}

impl Tenancy {
    #[track_caller]
    fn start(cluster: Cluster) -> Self {
        Self::start_with(cluster, "")
    }

    /// Starts a gateway that allows each client two requests an hour, and each tenant five.
    #[track_caller]
    fn start_with(cluster: Cluster, store: &str) -> Self {
        let config = Config::to("builtin:echo")
            .policy(
                "tenant",
                &format!("quota = '{SHARED} per hour'\n{CLOSED}\npartition = ['header:{TENANT}']"),
            )
            .policy(
                "client",
                &format!("quota = '2 per hour'\n{CLOSED}\npartition = ['header:{CLIENT}']"),
            )
            .route("/tenant/*", "policies = ['tenant']")
            .route("/client/*", "policies = ['client']")
            .route("/both/*", "policies = ['tenant', 'client']");
        let nodes = listed(&cluster.addresses());
        let url = format!("url = 'redis+cluster://{nodes}'\ntimeout = '5s'\n{store}");
        let gate = Gate::start(config, &url);
        // Two connections at the same time belong to two workers, each of which has its own connections to Redis.
        let mut names = 0..;
        let mut both_workers = [0, 1].map(|_| Client::connect(gate.process.public));
        eventually("both workers know the primaries", || {
            for client in &mut both_workers {
                client.get(
                    "/client/1",
                    &format!("{CLIENT}: first-{:?}\r\n", names.next()),
                );
            }
            (gate.connections() >= 6).then_some(())
        });
        Self {
            cluster,
            gate,
            named: 0,
        }
    }

    /// Returns a new name that has spent one unit of its quota, and whose primary `fits`.
    #[track_caller]
    fn new_name(&mut self, policy: &str, field: &str, fits: impl Fn(usize) -> bool) -> String {
        loop {
            let before = self.keys_of(policy);
            self.named += 1;
            let name = format!("name-{}", self.named);
            let reply = self
                .gate
                .ask(&format!("/{policy}"), &format!("{field}: {name}\r\n"));
            let after = self.keys_of(policy);
            let place = before.iter().zip(&after).position(|(x, y)| x < y);
            if !reply.is_degraded && place.is_some_and(&fits) {
                return name;
            }
        }
    }

    /// Returns a new client that has spent its whole quota, and whose primary `fits`.
    #[track_caller]
    fn new_client_over_quota(&mut self, fits: impl Fn(usize) -> bool) -> String {
        let name = self.new_name("client", CLIENT, fits);
        let reply = self.gate.ask("/client", &format!("{CLIENT}: {name}\r\n"));
        assert_eq!(reply.answer.status, 200, "its last unit");
        name
    }

    /// Returns how many keys of a policy each primary has.
    fn keys_of(&self, policy: &str) -> Vec<usize> {
        let pattern = format!("*:{policy}");
        let primaries = self.cluster.nodes.iter().take(3);
        let count = |keys: Value| keys.list().len();
        primaries
            .map(|node| count(node.command(&["KEYS", &pattern])))
            .collect()
    }

    fn ask_both(&self, tenant: &str, client: &str) -> Answer {
        get(self.gate.process.public, "/both/1", &both(tenant, client))
    }
}

fn both(tenant: &str, client: &str) -> String {
    format!("{TENANT}: {tenant}\r\n{CLIENT}: {client}\r\n")
}

/// Sends a request for each of those clients, and leaves the answers on the wire.
fn send_all(gateway: SocketAddr, tenant: &str, clients: &[String]) -> Vec<Client> {
    let send = |name: &String| {
        let mut client = Client::connect(gateway);
        let fields = both(tenant, name);
        client.send(format!(
            "GET /both/1 HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"
        ));
        client
    };
    clients.iter().map(send).collect()
}

/// The primary that would refuse is stopped, so nobody knows of the refusal yet. The tenant's quota must be whole for
/// all others, and no refusal may be remembered for them.
#[test]
fn neighbour_is_admitted_while_a_primary_that_refuses_others_is_held() {
    let mut it = Tenancy::start(Cluster::start(3, 0));
    let held = 0;
    for round in 0..ROUNDS {
        let crowd: Vec<String> = (0..CROWD)
            .map(|_| it.new_client_over_quota(|at| at == held))
            .collect();
        let elsewhere = |at| at != held;
        let neighbours: Vec<String> = (0..SHARED - 1)
            .map(|_| it.new_name("client", CLIENT, elsewhere))
            .collect();
        let tenant = it.new_name("tenant", TENANT, elsewhere);
        let before: u64 = it.cluster.nodes[1..].iter().map(calls).sum();

        it.cluster.nodes[held].stop();
        let mut waiting = send_all(it.gate.process.public, &tenant, &crowd);
        eventually("the crowd is asked about elsewhere", || {
            let now: u64 = it.cluster.nodes[1..].iter().map(calls).sum();
            (now > before).then_some(())
        });
        thread::sleep(HELD);
        let answers = neighbours.iter().map(|name| it.ask_both(&tenant, name));
        let answers: Vec<Answer> = answers.collect();
        it.cluster.nodes[held].resume();

        for client in &mut waiting {
            assert_eq!(client.answer().status, 429);
        }
        for answer in answers {
            assert_eq!(
                answer.status,
                200,
                "round {round}: {:?}",
                answer.field("retry-after")
            );
        }
    }
    assert_eq!(it.gate.decisions("late") + it.gate.decisions("failed"), 0);
}

/// When a crowd peeks, the quota has room, and only its charges collide. The cause of their refusals is gone at once,
/// so these must not be remembered, though this gateway remembers refusals for longer than the test waits.
///
/// That also holds for a worker that peeked before another worker's charge was given back, and reads the reply after
/// that.
#[test]
fn refusal_that_only_a_charge_met_is_not_remembered() {
    let mut it = Tenancy::start_with(Cluster::start(3, 0), "refusal_cache = '1m'");
    for round in 0..ROUNDS {
        let one = it.new_name("client", CLIENT, |at| at == 0);
        let neighbours: Vec<String> = (0..SHARED - 2)
            .map(|_| it.new_name("client", CLIENT, |_| true))
            .collect();
        let tenant = it.new_name("tenant", TENANT, |at| at != 0);
        let crowd = vec![one; CROWD];
        let mut waiting = send_all(it.gate.process.public, &tenant, &crowd);
        let statuses = waiting.iter_mut().map(|client| client.answer().status);
        let admitted = statuses.filter(|status| *status == 200).count();
        // None, if the request with the last unit found the tenant's quota full of the others' charges.
        assert!(
            admitted <= 1,
            "{admitted} have the client's last unit, in round {round}"
        );
        for name in &neighbours {
            // Units of a charge that lost its race may still be on their way back.
            eventually("the neighbour is admitted", || {
                (it.ask_both(&tenant, name).status == 200).then_some(())
            });
        }
    }
}

/// A charge loses its race while the other partition's primary is unreachable: its units there come
/// back when that primary does.
#[test]
fn what_cannot_be_given_back_at_once_comes_back_when_its_primary_does() {
    let mut cluster = Cluster::start(3, 0);
    cluster.put_behind_proxies();
    let mut it = Tenancy::start(cluster);
    let (slow, lost) = (0, 1);
    eventually("a charge loses its race", || {
        let client = it.new_name("client", CLIENT, |at| at == slow);
        let tenant = it.new_name("tenant", TENANT, |at| at == lost);
        if !lose_a_race(&it, &client, &tenant, slow, lost) {
            return None;
        }
        // Until then, a worker may decide alone.
        eventually("both workers have all connections again", || {
            (it.gate.connections() >= 6).then_some(())
        });
        let others: Vec<String> = (0..SHARED - 1)
            .map(|_| it.new_name("client", CLIENT, |_| true))
            .collect();
        for name in others {
            eventually("what was spent is back", || {
                (it.ask_both(&tenant, &name).status == 200).then_some(())
            });
        }
        assert_eq!(
            it.gate
                .ask("/tenant", &format!("{TENANT}: {tenant}\r\n"))
                .answer
                .status,
            429
        );
        Some(())
    });
    let dropped = it.gate.samples(&["dropped"]);
    assert!(dropped.iter().all(|(_, value)| *value == 0), "{dropped:?}");
}

/// Has another request spend the last unit of `client` between peek and charge of one that also charges `tenant`, and
/// cuts off the tenant's primary after its charge. Returns whether it happened that way.
fn lose_a_race(it: &Tenancy, client: &str, tenant: &str, slow: usize, lost: usize) -> bool {
    let public = it.gate.process.public;
    let [by, jitter] = [SLOW, Duration::ZERO];
    it.cluster.proxies[slow].set(Fault::Latency { by, jitter });
    let before = calls(&it.cluster.nodes[lost]);
    let mut plan = send_all(public, tenant, &[client.to_owned()]);
    // The peek is on its way, and the other request arrives after it.
    thread::sleep(SLOW / 6);
    let mut other = Client::asking(public, "/client/1", &format!("{CLIENT}: {client}\r\n"));
    // One call for the peek, and one for the charge.
    eventually("the tenant has been charged", || {
        (calls(&it.cluster.nodes[lost]) >= before + 2).then_some(())
    });
    it.cluster.proxies[lost].set(Fault::Refuse);
    it.cluster.proxies[lost].reset_all();
    let status = plan[0].answer().status;
    it.cluster.proxies[slow].set(Fault::None);
    // Units that are given back by now have nowhere to go.
    thread::sleep(HELD);
    it.cluster.proxies[lost].set(Fault::None);
    let other = other.answer().status;
    assert!(
        [status, other].contains(&200),
        "{status} {other}: nobody has the last unit"
    );
    status == 429
}
