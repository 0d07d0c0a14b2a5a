//! Every store keeps the laws, whichever gateway gets the requests.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use tollgate::clock::Micros;
use tollgate::limit::{Algorithm, Count, Quota};

use super::law::{Answer, History, Loss, Request, Violation, violations};
use super::recording::{Watch, lacks_answers, record};
use crate::support::fleet::algorithms;
use crate::support::redis::{Cluster, Sentinels, Server, Value, listed};
use crate::support::{Fleet, Metered, Process, eventually};

/// Small, so that clients reach it on a busy machine, too.
const LIMIT: u64 = 6;
const BURSTS: u32 = 4;
/// Enough bursts that some usually come after a failover has ended.
const BURSTS_AROUND: u32 = 10;
/// Number of slots that move to one primary before others move to the next.
const MOVES_IN_A_ROW: usize = 50;
/// Number of gateways that share one store.
const GATEWAYS: usize = 3;
/// How much of the latest writes a replica may lack, in microseconds.
const REPLICATION_LAG: i64 = 1_000_000;
/// Long enough for a busy machine to decide.
const PATIENT: &str = "timeout = '5s'";
/// Number of decisions that each gateway has made before its store fails.
const DECISIONS: u64 = 100;
/// Only the store decides: without it, requests are refused.
const CLOSED: &str = "on_store_failure = 'closed'";

/// Returns a quota of each algorithm and shape, and two that also count refused requests.
fn quotas() -> Vec<Quota> {
    let quota = |algorithm, count| Quota {
        count,
        ..Quota::of(algorithm, LIMIT, Micros(500_000))
    };
    let each = algorithms(LIMIT)
        .into_iter()
        .map(|algorithm| match algorithm {
            // If all clients were held, no client would be left to be refused.
            Algorithm::LeakyBucket { .. } => Algorithm::LeakyBucket { queue: 2 },
            other => other,
        });
    let mut quotas: Vec<Quota> = each
        .map(|algorithm| quota(algorithm, Count::Admitted))
        .collect();
    quotas.extend([Algorithm::FixedWindow, Algorithm::SlidingLog].map(|x| quota(x, Count::All)));
    quotas
}

/// Fails unless every history has both answers, and breaks no law.
#[track_caller]
fn assert_lawful(histories: &[History], quotas: &[Quota]) {
    for (history, quota) in histories.iter().zip(quotas) {
        let [admitted, refused, unknown] = history.counts();
        assert!(
            admitted > 0 && refused > 0,
            "{admitted}, {refused} of {quota:?}"
        );
        assert_eq!(unknown, 0, "requests without an answer of {quota:?}");
        assert_eq!(violations(history, quota), [], "{quota:?}");
    }
}

#[test]
fn one_gateway_keeps_the_laws_in_memory() {
    let quotas = quotas();
    let fleet = Fleet::start(1, &quotas, "", "url = 'memory:'");
    let histories = record(&fleet.addresses(), &quotas, BURSTS, lacks_answers);
    assert_lawful(&histories, &quotas);
}

#[test]
fn three_gateways_keep_the_laws_on_one_redis() {
    let server = Server::start();
    let quotas = quotas();
    let store = format!("url = 'redis://{}'\n{PATIENT}", server.address());
    let fleet = Fleet::start(GATEWAYS, &quotas, CLOSED, &store);
    let histories = record(&fleet.addresses(), &quotas, BURSTS, lacks_answers);
    assert_lawful(&histories, &quotas);
}

/// Slots keep moving together with their keys, and no request is lost or counted twice.
#[test]
fn three_gateways_keep_the_laws_while_a_cluster_is_resharded() {
    let cluster = Cluster::start(3, 0);
    let quotas = quotas();
    let url = format!("redis+cluster://{}", listed(&cluster.addresses()));
    let fleet = Fleet::start(
        GATEWAYS,
        &quotas,
        CLOSED,
        &format!("url = '{url}'\n{PATIENT}"),
    );
    let gateways = fleet.addresses();
    let histories = thread::scope(|scope| {
        let recording = scope.spawn(|| record(&gateways, &quotas, BURSTS_AROUND, lacks_answers));
        let mut moves = 0;
        while !recording.is_finished() {
            // In one direction for a while, like `redis-cli --cluster reshard`.
            let to = moves / MOVES_IN_A_ROW % 3;
            let from = &cluster.nodes[(to + 1 + moves % 2) % 3];
            if let Value::Bytes(key) = from.command(&["RANDOMKEY"]) {
                let series_id = cluster.slot_of(&String::from_utf8_lossy(&key));
                cluster.move_slot(series_id, &cluster.nodes[to]);
            }
            moves += 1;
            thread::sleep(Duration::from_millis(5));
        }
        assert!(moves > MOVES_IN_A_ROW, "{moves} moves");
        recording.join().expect("clients do not panic")
    });
    assert_lawful(&histories, &quotas);
}

/// A failover may forget a quota for each key, and requests that are decided while it lasts may have no answer.
#[test]
fn three_gateways_keep_the_laws_across_a_failover() {
    let group = Sentinels::start();
    let url = format!("redis+sentinel://{}/main", listed(&group.addresses()));
    keep_the_laws_across(&url, || {
        group.fail_over();
    });
}

/// The same if a primary of a Cluster is killed.
#[test]
fn three_gateways_keep_the_laws_across_the_loss_of_a_primary() {
    let cluster = Cluster::start(3, 1);
    let url = format!("redis+cluster://{}", listed(&cluster.addresses()));
    keep_the_laws_across(&url, || {
        let replica = cluster.replicas_of(&cluster.nodes[0])[0];
        cluster.nodes[0].kill();
        cluster.wait_for_primary(replica);
        cluster.wait_until_whole();
    });
}

/// Fails unless three gateways on that store keep every law before, during and after its failover.
#[track_caller]
fn keep_the_laws_across(url: &str, fail_over: impl FnOnce()) {
    let quotas = quotas();
    let store = format!("url = '{url}'\ntimeout = '500ms'\nbreaker = {{ cooldown = '200ms' }}");
    let fleet = Fleet::start(GATEWAYS, &quotas, CLOSED, &store);
    let watch = Watch::start();
    let gateways = fleet.addresses();
    let over = OnceLock::new();
    let lacks_end = |history: &History, _: &Quota| {
        let is_after = |x: &Request| {
            let is_over = over.get().is_some_and(|over| x.sent > *over);
            is_over && x.answer == Answer::Admitted
        };
        !history.requests.iter().any(is_after)
    };
    let (mut histories, loss) = thread::scope(|scope| {
        let recording = scope.spawn(|| record(&gateways, &quotas, BURSTS_AROUND, lacks_end));
        eventually("every gateway has much to decide", || {
            let answered = "tollgate_store_decisions_total{result=\"answered\"}";
            let decided = |gateway: &Process| gateway.series(answered).unwrap_or(0);
            let decided = fleet.gateways.iter().map(decided);
            (decided.min() > Some(DECISIONS)).then_some(())
        });
        let since = watch.now();
        fail_over();
        let loss = Loss {
            since: since - REPLICATION_LAG,
            until: *over.get_or_init(|| watch.now()),
            units: LIMIT,
        };
        (recording.join().expect("clients do not panic"), loss)
    });
    for (history, quota) in histories.iter_mut().zip(&quotas) {
        history.losses = vec![loss];
        let is_after = |x: &&Request| x.sent > loss.until && x.answer == Answer::Admitted;
        assert!(history.requests.iter().any(|x| is_after(&x)), "{quota:?}");
        assert_eq!(violations(history, quota), [], "{quota:?}");
    }
}

#[test]
fn gateways_that_share_nothing_are_found_out() {
    let quotas = quotas();
    let fleet = Fleet::start(2, &quotas, "", "url = 'memory:'");
    let is_sound = |history: &History, quota: &Quota| {
        let found = violations(history, quota);
        !(found.iter()).any(|x| matches!(x, Violation::Excess { .. }))
    };
    let histories = record(&fleet.addresses(), &quotas, BURSTS, is_sound);
    for (history, quota) in histories.iter().zip(&quotas) {
        assert!(!is_sound(history, quota), "nothing is said of {quota:?}");
    }
}
