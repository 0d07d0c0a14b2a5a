//! Whatever a nemesis does, a fleet that counts locally in the meantime keeps its laws: it admits at most one more
//! quota per window while Redis fails, one more each time Redis loses its data, and nothing more while all is well. No
//! client is refused early, except by a charge that lost its race.

use std::fmt;
use std::thread;

use tollgate::clock::Micros;
use tollgate::limit::{Algorithm, OldestBucket, Quota};

use super::law::{Answer, History, Loss, Outage, Request, excesses, refusals};
use super::nemesis::{Prober, Realm, Trace, haunt};
use super::recording::{Watch, lacks_answers, record};
use crate::support::redis::{Cluster, Encryption, Proxy, Sentinels, Server};
use crate::support::{Fleet, fleet};

/// Units of each quota, chosen so that a gateway's share is more than one.
const LIMIT: u64 = 6;
/// Units of the quota with a long window, into which all failures of a test fall.
const LONG: u64 = 30;
/// Units of the quota that all clients share.
const COMMON: u64 = 12;
const WINDOW: Micros = Micros(400_000);
const HOUR: Micros = Micros::from_secs(3_600);
const GATEWAYS: usize = 2;
/// How long a gateway remembers a refusal, in microseconds.
const REMEMBERED: i64 = 100_000;
/// Longest time from the refusal that a charge met until its units are back, in microseconds.
const RETURN: i64 = 100_000;
/// Index of the path whose plans have two partitions: each client's own, and one that all clients share.
const PLAN: usize = 5;

/// Counts of one seed's decisions.
#[derive(Debug, Default)]
struct Tally {
    admitted: usize,
    refused: usize,
    /// Requests refused early by a charge that lost its race.
    early: usize,
    undecided: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            admitted,
            refused,
            early,
            undecided,
        } = self;
        write!(
            f,
            "{admitted} admitted, {refused} refused, {early} of them early by a charge that lost its race; \
             {undecided} decisions without Redis"
        )
    }
}

/// Returns the quota of each path; the last one is each client's own quota in the plans.
fn quotas() -> [Quota; PLAN + 1] {
    let whole = Algorithm::SlidingWindow {
        buckets: 5,
        oldest: OldestBucket::Whole,
    };
    let quota = |algorithm| Quota::of(algorithm, LIMIT, WINDOW);
    [
        quota(Algorithm::FixedWindow),
        quota(whole),
        quota(Algorithm::SlidingLog),
        quota(Algorithm::Gcra { burst: LIMIT }),
        Quota {
            limit: LONG,
            window: HOUR,
            ..quota(Algorithm::SlidingLog)
        },
        quota(Algorithm::SlidingLog),
    ]
}

fn common() -> Quota {
    Quota {
        limit: COMMON,
        ..quotas()[PLAN]
    }
}

#[track_caller]
fn start(realm: &Realm) -> Fleet {
    let store = format!(
        "url = '{}'\ntimeout = '300ms'\nmin_nodes = {GATEWAYS}\nrefusal_cache = '{}ms'\n\
         breaker = {{ failures = 3, cooldown = '100ms' }}",
        realm.url(),
        REMEMBERED / 1_000
    );
    let window = WINDOW.0 / 1_000;
    let log = |limit| format!("algorithm = 'sliding-log'\nquota = '{limit} per {window}ms'");
    let own = format!("{}\npartition = ['header:{}']", log(LIMIT), fleet::CLIENT);
    let config = fleet::config(&quotas()[..PLAN], "", &store)
        .policy("own", &own)
        .policy("common", &format!("{}\npartition = []", log(COMMON)))
        .policy("probe", Prober::POLICY)
        .route(&format!("/{PLAN}"), "policies = ['own', 'common']")
        .route(Prober::ROUTE, "policies = ['probe']");
    Fleet::of(GATEWAYS, &config)
}

/// Records what clients see while the nemesis of that seed is at work, and judges it.
#[track_caller]
fn keep_the_laws(seed: u64, realm: &Realm, bursts: u32) {
    let fleet = start(realm);
    let prober = Prober::start(&fleet, realm);
    let watch = Watch::start();
    let gateways = fleet.addresses();
    let (histories, trace) = thread::scope(|scope| {
        let quotas = quotas();
        let recording = scope.spawn(move || record(&gateways, &quotas, bursts, lacks_answers));
        let trace = haunt(realm, &prober, seed, watch, || recording.is_finished());
        (recording.join().expect("clients do not panic"), trace)
    });
    let mut tally = judge(histories, &trace, realm.is_one_server())
        .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{trace}"));
    tally.undecided = prober.undecided().iter().sum();
    println!("seed {seed}: {tally}\n{trace}");
}

fn judge(histories: Vec<History>, trace: &Trace, is_one_step: bool) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for (path, (history, quota)) in histories.into_iter().zip(quotas()).enumerate() {
        let counts @ [admitted, refused, unknown] = history.counts();
        if unknown > 0 || admitted == 0 || refused == 0 {
            return Err(format!(
                "{counts:?} admitted, refused, without an answer: path {path}"
            ));
        }
        tally.admitted += admitted;
        tally.refused += refused;
        check_excess(&history, &quota, trace).map_err(|error| format!("path {path}: {error}"))?;
        let calm = calmed(&history, trace);
        let early = refusals(&calm, &quota);
        if path == PLAN {
            check_excess(&together(&history), &common(), trace)?;
            tally.early = early_refusals(&calm, &early, is_one_step)?;
        } else if !early.is_empty() {
            return Err(format!("refused early: {early:?} of {quota:?}"));
        }
    }
    Ok(tally)
}

/// Fails if more was admitted than the quota and the failures allow.
fn check_excess(history: &History, quota: &Quota, trace: &Trace) -> Result<(), String> {
    let losses = trace.events.iter().filter(|event| event.deed.is_loss());
    let losses = losses.map(|event| Loss {
        since: event.since,
        until: event.until,
        units: quota.limit,
    });
    let history = History {
        losses: losses.collect(),
        outages: outages(trace),
        ..history.clone()
    };
    match excesses(&history, quota)[..] {
        [] => Ok(()),
        ref some => Err(format!("{some:?} of {quota:?}")),
    }
}

fn outages(trace: &Trace) -> Vec<Outage> {
    let events = trace.events.iter().filter(|event| event.deed.is_outage());
    let spans = events.map(|event| (event.since, event.until));
    let spans = spans.chain(trace.busy.iter().copied());
    spans
        .map(|(since, until)| Outage { since, until })
        .collect()
}

/// Returns the history with the answers during failures turned into unknown ones, because their units may have been
/// spent in Redis or not, and as late as the end of the failure.
fn calmed(history: &History, trace: &Trace) -> History {
    let mut calm = history.clone();
    let outages = outages(trace);
    for request in &mut calm.requests {
        for outage in &outages {
            if request.sent <= outage.until && request.received >= outage.since {
                request.answer = Answer::Unknown;
                request.received = request.received.max(outage.until);
            }
        }
    }
    calm
}

/// Returns the history of the quota that all clients share.
fn together(history: &History) -> History {
    let mut all = history.clone();
    all.requests.iter_mut().for_each(|request| request.key = 0);
    all
}

/// Counts the plans that were refused though both quotas had room. Fails if this is not explained by plans that were
/// refused at the same time, and that may have been charged for a moment.
fn early_refusals(
    history: &History,
    of_own: &[(Request, u64)],
    is_one_step: bool,
) -> Result<usize, String> {
    let of_common = refusals(&together(history), &common());
    let mut count = 0;
    for (request, own_spent) in of_own {
        let same = |other: &&(Request, u64)| {
            Request {
                key: request.key,
                ..other.0
            } == *request
        };
        let Some((_, common_spent)) = of_common.iter().find(same) else {
            continue;
        };
        let others = history.requests.iter().filter(|other| {
            let until = other.received + RETURN + REMEMBERED;
            let is_beside = other.sent <= request.received && until >= request.sent;
            is_beside && other.answer == Answer::Refused && other != &request
        });
        let others: Vec<&Request> = others.collect();
        let of_same_client = others.iter().filter(|x| x.key == request.key).count() as u64;
        let is_explained =
            own_spent + of_same_client >= LIMIT || common_spent + others.len() as u64 >= COMMON;
        if is_one_step || !is_explained {
            let spent = (own_spent, common_spent, others.len());
            return Err(format!("refused early: {request:?}, spent {spent:?}"));
        }
        count += 1;
    }
    Ok(count)
}

fn single() -> Realm {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    Realm::Single { server, proxy }
}

fn cluster(replicas: usize) -> Realm {
    let lines = ["cluster-require-full-coverage no"];
    let mut cluster = Cluster::start_with(3, replicas, Encryption::None, &lines);
    cluster.put_behind_proxies();
    Realm::Cluster(cluster)
}

/// Number of bursts of requests in a quick test, and in a drill.
const FEW: u32 = 6;
const MANY: u32 = 12;

#[test]
fn nemesis_of_seed_4_has_one_redis_break_no_law() {
    keep_the_laws(4, &single(), FEW);
}

#[test]
fn nemesis_of_seed_9_has_one_redis_break_no_law() {
    keep_the_laws(9, &single(), FEW);
}

#[test]
fn nemesis_of_seed_3_has_a_cluster_break_no_law() {
    keep_the_laws(3, &cluster(0), FEW);
}

/// `scripts/drill/nemesis` runs it for a hundred seeds.
#[test]
#[ignore = "a drill: it takes as long as its seeds"]
fn nemesis_of_any_seed_has_no_store_break_a_law() {
    let seed = std::env::var("SEED").expect("SEED says which");
    let seed: u64 = seed.parse().expect("SEED is a number");
    let realm = match seed % 4 {
        0 => single(),
        1 => Realm::Sentinels(Sentinels::start()),
        _ => cluster(1),
    };
    keep_the_laws(seed, &realm, MANY);
}
