//! Policies of a fleet, with each gateway's numbers for them, and the gateways' routes and files.

use tollgate::clock::Micros;
use tollgate::limit::{Algorithm, OldestBucket, Quota};

use super::ledger::{Manner, Policy, REMEMBERED, RESERVE};
use super::scripted::Script;
use crate::support::fleet::{CLIENT, lines};
use crate::support::redis::Proxy;
use crate::support::{Config, Draws};

/// Number of gateways of a fleet.
pub const GATEWAYS: usize = 4;
/// Field with the team, which is the same for all clients.
pub const TEAM: &str = "X-Team";
/// Units that each key is charged at first: more than comes back later, so that no bucket becomes full again.
pub const FIRST: u64 = 500;
/// Windows longer than any test, whose edges no test can meet.
const HOUR: Micros = Micros::from_secs(3_600);
const WEEK: Micros = Micros::from_secs(7 * 24 * 3_600);

/// Draws the policies; returns them, and the gateway that has other numbers for them.
pub fn draw_policies(draws: &mut Draws) -> (Vec<Policy>, usize) {
    let other = draws.below(GATEWAYS);
    let mut policies = Vec::new();
    for (name, algorithm) in algorithms() {
        for manner in [Manner::Closed, Manner::Local, Manner::Body] {
            let word = format!("{manner:?}").to_lowercase();
            policies.push(Policy {
                name: format!("{name}-{word}"),
                manner,
                is_common: false,
                quotas: draw_quotas(draws, algorithm, manner, other),
            });
        }
    }
    let closed = |name: &str, is_common, quotas| Policy {
        name: name.to_owned(),
        manner: Manner::Closed,
        is_common,
        quotas,
    };
    let own = draw_quotas(draws, Algorithm::SlidingLog, Manner::Closed, other);
    let mut common = draw_quotas(draws, Algorithm::FixedWindow, Manner::Closed, other);
    for quota in &mut common {
        // Each of the other clients charges it at first, too.
        quota.limit += FIRST;
    }
    policies.push(closed("own", false, own));
    policies.push(closed("common", true, common));
    let paced = Quota {
        limit: 10,
        algorithm: Algorithm::LeakyBucket { queue: 50 },
        ..quota(HOUR, Algorithm::FixedWindow, 1)
    };
    policies.push(Policy {
        name: "paced".to_owned(),
        manner: Manner::Paced,
        is_common: false,
        quotas: vec![paced; GATEWAYS],
    });
    (policies, other)
}

fn algorithms() -> [(&'static str, Algorithm); 4] {
    let buckets = Algorithm::SlidingWindow {
        buckets: 10,
        oldest: OldestBucket::Weighted,
    };
    [
        ("fixed", Algorithm::FixedWindow),
        ("window", buckets),
        ("log", Algorithm::SlidingLog),
        ("gcra", Algorithm::Gcra { burst: 0 }),
    ]
}

/// Draws the quota of each gateway. For closed policies, there is room for only some requests, or for none.
fn draw_quotas(
    draws: &mut Draws,
    algorithm: Algorithm,
    manner: Manner,
    other: usize,
) -> Vec<Quota> {
    let is_closed = manner == Manner::Closed;
    // Limits; with gcra, limits and bursts.
    let (usual, others): (_, &[(u64, u64)]) = match (algorithm, is_closed) {
        (Algorithm::Gcra { .. }, true) => ((600, 520), &[(720, 10), (720, 608), (500, 500)]),
        (_, true) => (
            (FIRST + 20, 0),
            &[(10, 0), (FIRST + 8, 0), (FIRST + 100, 0)],
        ),
        (_, false) => ((4_000, 4_000), &[(3_200, 3_200), (5_000, 5_000)]),
    };
    let window = match algorithm {
        Algorithm::FixedWindow => WEEK,
        _ => HOUR,
    };
    let of = |(limit, burst)| match algorithm {
        Algorithm::Gcra { .. } => quota(window, Algorithm::Gcra { burst }, limit),
        _ => quota(window, algorithm, limit),
    };
    let mut quotas = vec![of(usual); GATEWAYS];
    quotas[other] = of(others[draws.below(others.len())]);
    quotas
}

fn quota(window: Micros, algorithm: Algorithm, limit: u64) -> Quota {
    Quota::of(algorithm, limit, window)
}

/// Returns the policies of each route: first one policy each, then `own` with `common`, then `own` with `paced`.
pub fn routes(policies: &[Policy]) -> Vec<Vec<usize>> {
    let [own, common, paced] = [3, 2, 1].map(|before| policies.len() - before);
    let mut routes: Vec<_> = (0..own).map(|policy| vec![policy]).collect();
    routes.extend([vec![own, common], vec![own, paced]]);
    routes
}

/// Returns the configuration of a gateway.
pub fn config(policies: &[Policy], gateway: usize, proxy: &Proxy, script: &Script) -> Config {
    let mut config = Config::to(script.url())
        .top("shutdown_grace = '100ms'")
        .with(&format!(
            "[log]\naccess = 'off'\nformat = 'json'\n[store]\nurl = 'redis://{}'\n\
             timeout = '150ms'\nmin_nodes = {GATEWAYS}\nrefusal_cache = '{}ms'\n\
             breaker = {{ failures = 1000, failure_ratio = 1.0 }}",
            proxy.address(),
            REMEMBERED / 1_000
        ));
    for policy in policies {
        let header =
            format!("cost = 'response-header:x-cost'\nreserve = {RESERVE}\nrefund_on = [503]");
        let more = match policy.manner {
            Manner::Closed => format!("{header}\non_store_failure = 'closed'"),
            Manner::Local => format!("{header}\non_store_failure = 'local'"),
            Manner::Body => format!(
                "cost = 'response-json:/n'\nreserve = {RESERVE}\nrefund_on = [503]\n\
                 on_store_failure = 'local'"
            ),
            Manner::Paced => "on_store_failure = 'closed'".to_owned(),
        };
        let mut lines = format!("{}\n{more}", lines(&policy.quotas[gateway]));
        if policy.is_common {
            lines = lines.replace(CLIENT, TEAM);
        }
        config = config.policy(&policy.name, &lines);
    }
    for (route, of_route) in routes(policies).iter().enumerate() {
        let names: Vec<_> = of_route
            .iter()
            .map(|policy| &policies[*policy].name)
            .collect();
        config = config.route(&format!("/{route}"), &format!("policies = {names:?}"));
    }
    config
}
