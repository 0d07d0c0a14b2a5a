//! Every store keeps the laws, whichever gateway is asked.

use tollgate::clock::Micros;
use tollgate::limit::{Algorithm, Count, Quota};

use super::law::{Answer, History, Violation, violations};
use super::recording::record;
use crate::support::Fleet;
use crate::support::fleet::algorithms;

/// Small, so that clients on a busy machine reach it too.
const LIMIT: u64 = 6;
const BURSTS: u32 = 4;

/// A quota of each algorithm and shape, and two that count refused requests too.
fn quotas() -> Vec<Quota> {
    let quota = |algorithm, count| Quota {
        limit: LIMIT,
        window: Micros(500_000),
        algorithm,
        count,
    };
    let each = algorithms(LIMIT)
        .into_iter()
        .map(|algorithm| match algorithm {
            // Few may be held, or all clients are, and nobody is left to be refused.
            Algorithm::LeakyBucket { .. } => Algorithm::LeakyBucket { queue: 2 },
            other => other,
        });
    let mut quotas: Vec<Quota> = each
        .map(|algorithm| quota(algorithm, Count::Admitted))
        .collect();
    quotas.extend([Algorithm::FixedWindow, Algorithm::SlidingLog].map(|x| quota(x, Count::All)));
    quotas
}

/// Fails unless every history has seen both answers and no law broken.
#[track_caller]
fn assert_lawful(histories: &[History], quotas: &[Quota]) {
    for (history, quota) in histories.iter().zip(quotas) {
        let count = |answer| {
            let such = history.requests.iter().filter(|x| x.answer == answer);
            such.count()
        };
        let counts = [Answer::Admitted, Answer::Refused, Answer::Unknown].map(count);
        assert!(counts[0] > 0 && counts[1] > 0, "{counts:?} of {quota:?}");
        assert_eq!(counts[2], 0, "requests without an answer of {quota:?}");
        assert_eq!(violations(history, quota), [], "{quota:?}");
    }
}

#[test]
fn one_gateway_keeps_the_laws_in_memory() {
    let quotas = quotas();
    let fleet = Fleet::start(1, &quotas, "", "url = 'memory:'");
    let histories = record(&fleet.addresses(), &quotas, BURSTS);
    assert_lawful(&histories, &quotas);
}

#[test]
fn gateways_that_share_nothing_are_found_out() {
    let quotas = quotas();
    let fleet = Fleet::start(2, &quotas, "", "url = 'memory:'");
    let histories = record(&fleet.addresses(), &quotas, BURSTS);
    for (history, quota) in histories.iter().zip(&quotas) {
        let found = violations(history, quota);
        let excess = found.iter().any(|x| matches!(x, Violation::Excess { .. }));
        assert!(excess, "nothing is said of {quota:?}");
    }
}
