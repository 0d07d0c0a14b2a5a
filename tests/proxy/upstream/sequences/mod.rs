//! Exchanges in a row and side by side, with everything that can go wrong between a worker and its origins.
//!
//! A sequence is drawn from a seed (`plan`): which client asks for what and when, how each answer is framed, cut into
//! pieces, cut short, or followed by bytes that nobody asked for, and how its connection ends. `origin` plays it, and
//! fails the test if it reads anything that was not sent; `client` fails it if it gets anything that is not its own.
//! `SEQUENCES_SEED` and `SEQUENCES_CASES` choose the seeds; `scripts/drill/sequences` tries many.

mod answers;
mod client;
mod origin;
mod plan;

use std::cell::RefCell;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::harness::{Gateway, worker};
use client::Outcome;
use origin::{Seen, Shared};
use plan::{AnswerFraming, End, Exchange, Leaves, Sequence, UploadEnd};

/// Law: after any sequence of answers, cuts, early ends and reuse, each client got its own answer or an error, never
/// another's, and never a truncated one that looks whole. An origin sees only what was sent: whole, or cut off by the
/// connection's end; twice only if it is repeatable, on a fresh connection, and only if no byte of an answer came. An
/// answer that was sent properly arrives.
#[test]
fn each_client_gets_its_own_answer_or_an_error() {
    let number = |name: &str, usual: u64| {
        let told = env::var(name);
        told.map_or(usual, |value| value.parse().expect("a number"))
    };
    let first = number("SEQUENCES_SEED", 0);
    let cases = number("SEQUENCES_CASES", 300);
    let (mut whole, mut all) = (0, 0);
    for seed in first..first + cases {
        let played = catch_unwind(AssertUnwindSafe(|| play(seed)));
        // The panic has been printed.
        let outcomes =
            played.unwrap_or_else(|_| panic!("the seed is {seed}: {:?}", Sequence::draw(seed)));
        all += outcomes.len();
        whole += outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Whole))
            .count();
    }
    assert!(whole >= all / 3, "only {whole} of {all} are answered");
}

/// Plays the sequence of that seed, checks it, and returns how each exchange ended.
fn play(seed: u64) -> Vec<Outcome> {
    worker(async {
        let sequence = Sequence::draw(seed);
        let shared = Rc::new(Shared {
            seen: RefCell::new(vec![Seen::default(); sequence.exchanges.len()]),
            sequence,
        });
        let played = timeout(HANGS_AFTER, outcomes(&shared)).await;
        let outcomes = played.unwrap_or_else(|_| panic!("it hangs: {:#?}", shared.seen));
        for (exchange, outcome) in shared.sequence.exchanges.iter().zip(&outcomes) {
            check(exchange, &shared.seen.borrow()[exchange.nonce], outcome);
        }
        outcomes
    })
}

/// Lets every client send its requests, and returns their outcomes when all connections have ended.
async fn outcomes(shared: &Rc<Shared>) -> Vec<Outcome> {
    let mut listeners = Vec::new();
    for _ in 0..shared.sequence.origins {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    }
    let addresses: Vec<_> = listeners
        .iter()
        .map(|listener| listener.local_addr().expect("an address"))
        .collect();
    let gateway = Rc::new(Gateway::with(&addresses, |_| ()));
    let connections = Rc::new(RefCell::new(JoinSet::new()));
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let (shared, connections) = (Rc::clone(shared), Rc::clone(&connections));
        accepting
            .spawn_local(async move { origin::accept(&listener, &shared, &connections).await });
    }
    let mut clients = JoinSet::new();
    for client in shared.sequence.clients.clone() {
        let (shared, gateway) = (Rc::clone(shared), Rc::clone(&gateway));
        clients.spawn_local(async move {
            let mut outcomes = Vec::new();
            for exchange in &shared.sequence.exchanges[client.clone()] {
                // Moves the clock on, so that connections have been idle for a while.
                gateway.pass(Duration::from_millis(1));
                outcomes.push(client::ask(&gateway, exchange).await);
            }
            (client.start, outcomes)
        });
    }
    let mut outcomes = clients.join_all().await;
    outcomes.sort_by_key(|(first, _)| *first);
    drop(gateway);
    accepting.shutdown().await;
    let mut connections = connections.take();
    while let Some(ended) = connections.join_next().await {
        if let Err(error) = ended {
            resume_unwind(error.into_panic());
        }
    }
    outcomes
        .into_iter()
        .flat_map(|(_, outcomes)| outcomes)
        .collect()
}

/// Checks an exchange for what neither its client nor its origins can see alone.
fn check(exchange: &Exchange, seen: &Seen, outcome: &Outcome) {
    let error = match outcome {
        Outcome::Error(error) => error,
        Outcome::Left | Outcome::Whole => "no error",
    };
    let shown = || format!("{exchange:?} {seen:?} {error}");
    match seen.arrivals[..] {
        [] | [_] => {}
        [_, 0] if exchange.is_repeatable() => {}
        _ => panic!("sent again: {}", shown()),
    }
    let stays = exchange.client.leaves == Leaves::Never && exchange.upload.end == UploadEnd::Whole;
    let is_whole = matches!(outcome, Outcome::Whole);
    if seen.is_served && stays {
        assert!(is_whole, "a proper answer is lost: {}", shown());
    }
    let script = &exchange.script;
    if script.framing == AnswerFraming::Close && script.end == End::Reset && !exchange.is_bodiless()
    {
        assert!(!is_whole, "a reset ends it properly: {}", shown());
    }
}

/// Yields `count` times to all tasks that are ready.
async fn turns(count: usize) {
    for _ in 0..count {
        yield_now().await;
    }
}

/// After this time a sequence hangs; it is far longer than any sequence takes.
const HANGS_AFTER: Duration = Duration::from_secs(30);
