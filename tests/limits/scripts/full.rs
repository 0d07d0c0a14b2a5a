//! A server whose memory is full: it goes on counting the clients that it knows, and takes no new ones.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::plan::{CheckMode, SeriesId};
use tollgate::limit::{Algorithm, CheckResult, Quota, Verdict};
use tollgate::store::redis::wire::{
    self, Call, Intent, Replies, Reply, Script, Settlement, SettlementStep, time_argument,
};

use super::lockstep::{Tick, is_sound, peeks, plans, tick};
use crate::in_memory::{algorithms, quota_of};
use crate::ledger::{Quotas, Rows};
use crate::scripted::Scripted;
use crate::support::redis::{Server, Value};
use crate::traffic::{Cost, START};

/// One thing that happens to a plan.
#[derive(Clone, Debug)]
enum Event {
    Decide(Cost),
    Peek(Cost),
    /// Gives back a share of an earlier charge.
    Release(proptest::sample::Index, Cost),
    Spend(Cost),
    Reset,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// On a full server, quotas that have a key are decided and settled as the pure functions say, to the microsecond,
    /// as if they were the whole plan; quotas without a key stay without one.
    #[test]
    fn full_server_decides_exactly_what_it_knows(
        rows in plans().prop_filter("what is without a key is left out", can_be_left_out),
        events in proptest::collection::vec((full(), tick(), event()), 1..50),
    ) {
        let server = server().lock();
        agree(&server.expect("no other test uses it"), &rows, events)?;
    }
}

fn agree(
    server: &Server,
    rows: &Rows,
    events: Vec<(bool, Tick, Event)>,
) -> Result<(), TestCaseError> {
    let mut lua = Scripted::on(server, rows.clone());
    let mut rust = Quotas::new(rows.clone());
    let (mut now, first) = (START, &rows.quotas[0].0);
    for (is_full, tick, event) in events {
        now = tick.from(now, first);
        set_full(&mut lua, is_full);
        let known = known(&mut lua);
        let takes_part: Vec<bool> = known.iter().map(|&known| known || !is_full).collect();
        let mut part = part(&rust, &takes_part);
        match event {
            Event::Decide(cost) => {
                let cost = cost.of(first);
                let verdict = spread(part.decide(now, cost), &takes_part);
                prop_assert_eq!(lua.decide(now, cost), verdict);
            }
            Event::Peek(cost) => {
                let cost = cost.of(first);
                let peeks = peeks(&rust, now, cost).into_iter().zip(&takes_part);
                let peeks = peeks.map(|(peek, takes_part)| takes_part.then_some(peek));
                prop_assert_eq!(lua.peeks(now, cost).to_vec(), peeks.collect::<Vec<_>>());
            }
            Event::Release(index, amount) if !lua.charges.is_empty() => {
                let decision = index.index(lua.charges.len());
                let amount = amount.of(first);
                let charges = lua.charges[decision].iter().zip(&takes_part);
                let mut charges: Vec<_> = charges
                    .filter_map(|(charged, takes_part)| takes_part.then_some(*charged))
                    .collect();
                part.release(now, &mut charges, amount);
                lua.release(now, decision, amount);
            }
            Event::Release(..) => {}
            Event::Spend(amount) => {
                part.spend(now, amount.of(first));
                lua.spend(now, amount.of(first));
            }
            Event::Reset => {
                part = Quotas::new(part.rows);
                lua.reset(now);
            }
        }
        put_back(&mut rust, part, &takes_part);
        let after = self::known(&mut lua);
        for (index, (&known, &after)) in known.iter().zip(&after).enumerate() {
            prop_assert!(known || !after || !is_full, "a key was made, quota {index}");
            prop_assert!(is_sound(&mut lua, index), "quota {index}");
        }
        let left = peeks(&rust, now, 0).into_iter().zip(after);
        let left = left.map(|(peek, known)| (known || !is_full).then_some(peek));
        prop_assert_eq!(lua.peeks(now, 0).to_vec(), left.collect::<Vec<_>>());
    }
    Ok(())
}

/// Returns for each quota whether it has a key.
fn known(lua: &mut Scripted) -> Vec<bool> {
    let keys: Vec<_> = (0..lua.rows.quotas.len())
        .map(|index| lua.key(index))
        .collect();
    let exists = |key: Box<[u8]>| lua.command(&[b"EXISTS".as_slice(), &key]).integer() == 1;
    keys.into_iter().map(exists).collect()
}

/// Returns only the quotas that take part.
fn part(rust: &Quotas, takes_part: &[bool]) -> Quotas {
    let kept: Vec<usize> = (0..takes_part.len())
        .filter(|&row| takes_part[row])
        .collect();
    let rows = &rust.rows;
    Quotas {
        counters: kept.iter().map(|&row| rust.counters[row].clone()).collect(),
        rows: Rows {
            partition_low: rows.partition_low,
            policies: kept.iter().map(|&row| rows.policies[row]).collect(),
            ..Rows::from(kept.iter().map(|&row| rows.quotas[row]).collect::<Vec<_>>())
        },
        now: rust.now,
    }
}

fn put_back(rust: &mut Quotas, part: Quotas, takes_part: &[bool]) {
    let mut counters = part.counters.into_iter();
    for (counter, &takes_part) in rust.counters.iter_mut().zip(takes_part) {
        if takes_part {
            *counter = counters.next().expect("one per quota that takes part");
        }
    }
}

/// Adds an answer without a decision for each quota that takes no part.
fn spread(verdict: Verdict, takes_part: &[bool]) -> Verdict {
    let mut answers = verdict.answers.into_iter();
    let mut answer = |&takes_part: &bool| {
        let answer = takes_part.then(|| answers.next().expect("one per quota that takes part"));
        answer.unwrap_or(UNDECIDED)
    };
    Verdict {
        answers: takes_part.iter().map(&mut answer).collect(),
        ..verdict
    }
}

/// Returns whether quotas without a key can be left out of these plans. A penalty cannot, because it is decided without
/// a key, too; nor can credits, which belong to the quota that spills into them.
fn can_be_left_out(rows: &Rows) -> bool {
    let is_alone =
        |(quota, mode): &(Quota, CheckMode)| !quota.is_penalty() && *mode != CheckMode::Spill;
    rows.quotas.iter().all(is_alone)
}

/// Clients with a key are decided exactly; a penalty for which there is no memory does not begin.
#[test]
fn full_server_decides_a_plan_whose_penalty_it_cannot_keep() {
    let server = Server::start();
    let penalty = Quota::penalty(Micros::from_secs(60), 1);
    let quotas = [quota_of(Algorithm::FixedWindow, 3), penalty];
    let mut rows = Rows::from(quotas.map(|quota| (quota, CheckMode::Enforce)).to_vec());
    rows.policies = vec![0, 0];
    let mut client = Scripted::on(&server, rows);
    client.decide(START, 3);
    set_full(&mut client, true);
    let admits = |verdict: Verdict| {
        let admits = |answer: &CheckResult| answer.decision.map(|decision| decision.admit);
        verdict.answers.iter().map(admits).collect::<Vec<_>>()
    };
    assert_eq!(admits(client.decide(START, 1)), [Some(false), Some(true)]);
    set_full(&mut client, false);
    assert_eq!(admits(client.decide(START, 1)), [Some(false), Some(false)]);
    let after_the_window = START + Micros::from_secs(59);
    set_full(&mut client, true);
    assert_eq!(
        admits(client.decide(after_the_window, 1)),
        [Some(false), Some(false)]
    );
    set_full(&mut client, false);
}

#[test]
fn full_server_refuses_a_call_before_it_executes_anything() {
    let server = Server::start();
    for algorithm in algorithms() {
        let mut known = Scripted::on(&server, vec![(quota_of(algorithm, 3), CheckMode::Enforce)]);
        let newcomer = Scripted::on(&server, known.rows.clone());
        known.decide(START, 3);
        set_full(&mut known, true);
        let aged = START + Micros(600_000_000);
        // The first plan would delete its key, after which Redis would let a script without `#!lua` write whatever it
        // likes.
        let decide = decide(Script::Decide, aged, &[(&known, 0), (&newcomer, 1)]);
        for call in [decide, spend(Script::Settle, &newcomer)] {
            let before = executed(&server);
            let answer = known.answer(&call);
            let error = answer.error().expect("a full server refuses");
            assert!(error.starts_with("OOM "), "{error}");
            assert_eq!(executed(&server), before, "{algorithm:?}");
        }
        set_full(&mut known, false);
    }
}

#[test]
fn plan_that_deletes_its_key_lets_no_newcomer_in() {
    let server = Server::start();
    for algorithm in algorithms() {
        let mut known = Scripted::on(&server, vec![(quota_of(algorithm, 3), CheckMode::Enforce)]);
        let newcomer = Scripted::on(&server, known.rows.clone());
        known.decide(START, 3);
        set_full(&mut known, true);
        let aged = START + Micros(600_000_000);
        // Once its key is deleted, the client is a newcomer too.
        let plans = [(&known, 0), (&newcomer, 1), (&known, 1)];
        let call = decide(Script::DecideExisting, aged, &plans);
        let Value::Bytes(replies) = known.call(&call) else {
            panic!("no reply");
        };
        let mut replies = Replies::read(replies).expect("a time");
        // A bucket that is full again is not written, so its key stays until it expires.
        let stays = matches!(
            algorithm,
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. }
        );
        let is_decided = [0, 1, 1].map(|cost| {
            let reply = replies.next(1).expect("a reply");
            answer(&newcomer, cost, &reply).decision.is_some()
        });
        assert_eq!(is_decided, [true, false, stays], "{algorithm:?}");
        assert_eq!(self::known(&mut known), [stays], "{algorithm:?}");
        known.partition_id = newcomer.partition_id;
        assert_eq!(self::known(&mut known), [false], "{algorithm:?}");
        set_full(&mut known, false);
    }
}

#[test]
fn node_announces_itself_to_a_full_server() {
    let server = Server::start();
    let mut client = Scripted::on(&server, Vec::new());
    set_full(&mut client, true);
    let names = wire::KeyNames::new("test");
    for (node, nodes) in [("one", 1), ("another", 2)] {
        let call = wire::announce(&names, node, Micros::from_secs(15));
        assert_eq!(client.call(&call).integer(), nodes);
    }
}

/// Makes a call that decides a plan of each client's quotas, each plan with its own cost.
fn decide(script: Script, now: Timestamp, plans: &[(&Scripted, u64)]) -> Call {
    let packed = plans.iter().map(|(client, cost)| {
        wire::pack(
            &client.plan(&client.rows, *cost),
            &client.names,
            Intent::Decide,
            None,
            || now,
        )
    });
    let (keys, arguments): (Vec<_>, Vec<_>) = packed
        .map(|packed| (packed.keys.into_vec(), packed.argument))
        .unzip();
    Call {
        script,
        keys: keys.concat(),
        arguments: time_argument(Some(now))
            .into_iter()
            .chain(arguments)
            .collect(),
    }
}

/// Makes a call that spends a unit of a client's first quota.
fn spend(script: Script, client: &Scripted) -> Call {
    let settlement = Settlement {
        quota: &client.rows.quotas[0].0,
        series_id: SeriesId(0),
        partition_id: client.partition_id,
        step: SettlementStep::Spend(1),
    };
    let call = wire::settle(&[settlement], &client.names, Some(START), || START);
    Call { script, ..call }
}

/// Reads the answer to a plan of one check.
fn answer(client: &Scripted, cost: u64, reply: &Reply) -> CheckResult {
    let plan = client.plan(&client.rows, cost);
    let mut verdict = Verdict::default();
    wire::verdict(&plan, reply, &mut verdict).expect("an answer");
    verdict.answers[0]
}

/// Returns how often the server has executed each command that scripts execute.
fn executed(server: &Server) -> BTreeMap<String, String> {
    let mut stats = server.info("commandstats");
    stats.retain(|name, _| name != "cmdstat_info" && !name.starts_with("cmdstat_eval"));
    stats
}

/// Makes the server full, or no longer full.
fn set_full(client: &mut Scripted, is_full: bool) {
    let bytes = if is_full { "1" } else { "0" };
    client.command(&["CONFIG", "SET", "maxmemory", bytes]);
    client.is_full = is_full;
}

/// Returns the server that the random cases fill again and again.
fn server() -> &'static Mutex<Server> {
    static SERVER: OnceLock<Mutex<Server>> = OnceLock::new();
    SERVER.get_or_init(|| Mutex::new(Server::start()))
}

/// Makes a server full in three of four cases.
fn full() -> impl Strategy<Value = bool> {
    prop_oneof![3 => Just(true), 1 => Just(false)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => any::<Cost>().prop_map(Event::Decide),
        2 => any::<Cost>().prop_map(Event::Peek),
        4 => any::<(proptest::sample::Index, Cost)>()
            .prop_map(|(index, amount)| Event::Release(index, amount)),
        2 => any::<Cost>().prop_map(Event::Spend),
        1 => Just(Event::Reset),
    ]
}

/// The answer to a check that takes no part.
const UNDECIDED: CheckResult = CheckResult {
    decision: None,
    charged: None,
};
