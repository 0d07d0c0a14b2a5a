//! A fleet admits exactly the quota, however many clients send requests at once, and to whichever gateway.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Once;

use tollgate::clock::Micros;
use tollgate::limit::{Algorithm, Quota};

use crate::support::fleet::{CLIENT, algorithms};
use crate::support::redis::{Cluster, Sentinels, Server, listed};
use crate::support::{Client, Fleet, Metered, eventually, get};

const LIMIT: u64 = 100;
/// Number of requests for one key that are sent at once.
pub const CROWD: usize = 1_000;
/// Number of gateways that share one store.
const GATEWAYS: usize = 3;
/// A whole week, so that nothing ages while a test runs.
const WINDOW: Micros = Micros::from_secs(7 * 24 * 3600);
/// Time for a busy machine to decide. Requests that the store cannot decide are refused with 503.
const PATIENT: &str = "timeout = '10s'\nrefusal_cache = '1s'";

/// How many of a crowd's requests were answered in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub admitted: usize,
    /// Admitted but not answered yet, because they are in the queue of a leaky bucket.
    pub held: usize,
    pub refused: usize,
    pub other: usize,
}

/// One request of a crowd, on a connection of its own.
pub struct Asker {
    stream: TcpStream,
    answer: Vec<u8>,
}

fn quotas() -> Vec<Quota> {
    let quota = |algorithm| Quota::of(algorithm, LIMIT, WINDOW);
    algorithms(LIMIT).into_iter().map(quota).collect()
}

fn fleet(count: usize, store: &str) -> Fleet {
    let policy = "on_store_failure = 'closed'";
    Fleet::start(count, &quotas(), policy, store)
}

/// Returns the request for the quota with that index. Each quota has a client of its own, so that a
/// Cluster keeps them on several primaries.
fn request(quota: usize) -> String {
    format!("GET /{quota} HTTP/1.1\r\nHost: a.test\r\n{CLIENT}: key-{quota}\r\n\r\n")
}

/// Sends a crowd's requests to all gateways at once, and returns their connections.
#[track_caller]
pub fn crowd(fleet: &Fleet, request: &str) -> Vec<Asker> {
    static DESCRIPTORS: Once = Once::new();
    DESCRIPTORS.call_once(|| {
        let descriptors = rlimit::increase_nofile_limit(u64::MAX).expect("a limit");
        assert!(descriptors > 2 * CROWD as u64, "too few descriptors");
    });
    let gateways = fleet.addresses();
    let mut askers: Vec<Asker> = (0..CROWD)
        .map(|number| Asker::connect(gateways[number % gateways.len()]))
        .collect();
    for asker in &mut askers {
        asker.send(request);
    }
    askers
}

/// Sends a crowd's requests to all gateways at once, and returns how many were answered in each way.
#[track_caller]
fn ask_at_once(fleet: &Fleet, quota: usize) -> Tally {
    eventually("nobody is held any more who asked before", || {
        (held(fleet) == 0).then_some(())
    });
    let mut askers = crowd(fleet, &request(quota));
    eventually("every request is answered or held", || {
        let now = tally(&mut askers);
        (now.held == held(fleet)).then_some(now)
    })
}

/// Returns how many requests the gateways hold.
fn held(fleet: &Fleet) -> usize {
    let held = fleet.gateways.iter().map(|gateway| {
        let held = gateway.series::<usize>("tollgate_requests_delayed");
        held.expect("a gauge")
    });
    held.sum()
}

/// Returns how many of a crowd are held: all that a leaky bucket admits, except the first.
fn holdable(quota: usize) -> usize {
    match quotas()[quota].algorithm {
        Algorithm::LeakyBucket { queue } => usize::try_from(queue).expect("small"),
        _ => 0,
    }
}

/// Counts how a crowd's requests were answered so far.
pub fn tally(askers: &mut [Asker]) -> Tally {
    let mut tally = Tally::default();
    for asker in askers {
        match asker.status() {
            Some(200) => tally.admitted += 1,
            Some(429) => tally.refused += 1,
            Some(_) => tally.other += 1,
            None => tally.held += 1,
        }
    }
    tally
}

/// Fails unless a fleet admits exactly the units of each quota.
#[track_caller]
fn assert_exact(fleet: &Fleet) {
    let limit = usize::try_from(LIMIT).expect("small");
    for (index, quota) in quotas().iter().enumerate() {
        let held = holdable(index);
        let exact = Tally {
            admitted: limit - held,
            held,
            refused: CROWD - limit,
            other: 0,
        };
        let tally = ask_at_once(fleet, index);
        assert_eq!(tally, exact, "{quota:?}");
    }
}

#[test]
fn one_gateway_admits_exactly_the_quota_in_memory() {
    assert_exact(&fleet(1, "url = 'memory:'"));
}

#[test]
fn three_gateways_admit_exactly_the_quota_on_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let url = format!("redis+cluster://{}", listed(&cluster.addresses()));
    assert_exact(&fleet(GATEWAYS, &format!("url = '{url}'\n{PATIENT}")));
}

/// The new primary knows only what was replicated, and admits the rest of the quota. So the fleet
/// admits beyond the quota exactly what the lost primary had not passed on.
#[test]
fn failover_admits_the_quota_and_what_was_lost_and_no_more() {
    let group = Sentinels::start();
    let url = format!("redis+sentinel://{}/main", listed(&group.addresses()));
    let fleet = fleet(GATEWAYS, &format!("url = '{url}'\ntimeout = '5s'"));
    let (kept, lost) = (40, 30);
    ask_in_turn(&fleet, kept);

    let old = group.primary().expect("nothing has failed yet");
    old.wait_for_replicas(2);
    // From now on, the replicas get no more updates.
    old.command(&["ACL", "SETUSER", "harness", "-psync", "-sync"]);
    old.command(&["CLIENT", "KILL", "TYPE", "replica"]);
    ask_in_turn(&fleet, lost);
    old.kill();
    group.wait_for_another_than(old);
    // Another failover would lose what is decided from now on.
    group.keep_primary();
    wait_until_decided(&fleet);

    let limit = usize::try_from(LIMIT).expect("small");
    for index in 0..quotas().len() {
        if holdable(index) == 0 {
            let tally = ask_at_once(&fleet, index);
            assert_eq!((tally.held, tally.other), (0, 0), "{tally:?}");
            let admitted = kept + lost + tally.admitted;
            assert_eq!(admitted, limit + lost, "of {:?}", quotas()[index]);
        }
    }
}

/// Each gateway admits its share by itself, once it knows how many gateways there are: together at most one more quota.
#[test]
fn fleet_admits_exactly_the_quota_on_one_redis_and_at_most_one_more_once_that_is_lost() {
    let server = Server::start();
    let store = format!(
        "url = 'redis://{}'\ntimeout = '5s'\nrefusal_cache = '0s'",
        server.address()
    );
    let fleet = Fleet::start(GATEWAYS, &quotas(), "on_store_failure = 'local'", &store);
    for gateway in &fleet.gateways {
        gateway.wait_for_metric(&format!("tollgate_store_nodes {GATEWAYS}\n"));
    }
    assert_exact(&fleet);
    server.kill();
    let share = usize::try_from(LIMIT).expect("small") / GATEWAYS;
    for index in (0..quotas().len()).filter(|index| holdable(*index) == 0) {
        let tally = ask_at_once(&fleet, index);
        let shared = Tally {
            admitted: share * GATEWAYS,
            refused: CROWD - share * GATEWAYS,
            ..Tally::default()
        };
        assert_eq!(tally, shared, "{:?}", quotas()[index]);
    }
}

/// Sends `count` requests, one after the other, for each quota that does not hold requests; all must be admitted.
#[track_caller]
fn ask_in_turn(fleet: &Fleet, count: usize) {
    let gateways = fleet.addresses();
    let mut clients: Vec<_> = gateways.iter().map(|x| Client::connect(*x)).collect();
    for index in (0..quotas().len()).filter(|index| holdable(*index) == 0) {
        for turn in 0..count {
            let answer = clients[turn % gateways.len()].ask(request(index));
            assert_eq!(answer.status, 200, "request {turn} of quota {index}");
        }
    }
}

/// Waits until every gateway has the store decide again; uses a client that no test counts.
#[track_caller]
fn wait_until_decided(fleet: &Fleet) {
    for gateway in &fleet.gateways {
        eventually("each worker uses the new primary", || {
            let answer = get(gateway.public, "/0", &format!("{CLIENT}: another\r\n"));
            let metrics = gateway.metrics();
            // One connection for each of the two workers, and one for the admin port.
            let connected = "tollgate_store_connections 3\n";
            (answer.status != 503 && metrics.contains(connected)).then_some(())
        });
    }
}

impl Asker {
    fn connect(gateway: SocketAddr) -> Self {
        let stream = TcpStream::connect(gateway).expect("the gateway accepts connections");
        Self {
            stream,
            answer: Vec::new(),
        }
    }

    fn send(&mut self, request: &str) {
        let sent = self.stream.write_all(request.as_bytes());
        sent.expect("the gateway reads what it is sent");
        let mute = self.stream.set_nonblocking(true);
        mute.expect("a socket can be asked without waiting");
    }

    /// Returns the status of the answer, if that has arrived.
    #[track_caller]
    fn status(&mut self) -> Option<u16> {
        let mut buffer = [0; 1_024];
        match self.stream.read(&mut buffer) {
            Ok(length) => self.answer.extend_from_slice(&buffer[..length]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        let line = String::from_utf8_lossy(&self.answer);
        line.split(' ').nth(1)?.parse().ok()
    }
}
