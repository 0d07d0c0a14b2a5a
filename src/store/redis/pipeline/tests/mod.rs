//! Pipelines to real servers.

mod deployments;
mod events;
mod faults;
mod messages;
mod passwords;
mod sentinels;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::queue::QUEUE_MAX;
use super::shared_state::PLANS_PER_CALL;
use super::*;
use crate::clock::{Clock, Micros, Timestamp};
use crate::limit::partition_id::PartitionHasher;
use crate::limit::plan::{OnStoreFailure, SeriesId};
use crate::limit::{Algorithm, Check, Quota};
use crate::store::redis::connect::{DialEndpoint, DialTarget};
use crate::store::redis::observer::Unobserved;
use crate::store::redis::servers::{self, Server};
use crate::store::redis::shared::RedisShared;
use crate::store::redis::wire::{self, Intent, KeyNames, Settlement, SettlementStep};
use crate::store::series::{Series, SeriesRole};
use crate::store::settings::Address;

/// A quota whose window is so long that no test sees its end.
const QUOTA: Quota = Quota::of(
    Algorithm::FixedWindow,
    1_000_000,
    Micros::from_secs(3_000_000_000),
);
const SERIES: SeriesId = SeriesId(0);

#[tokio::test(flavor = "local")]
async fn decisions_that_are_ready_together_share_a_call() {
    let server = Server::start();
    let pipeline = connected(&server).await;
    let decided = join_all((0..64).map(|_| pipeline.asked(plan("k", 1)))).await;
    assert!(decided.iter().all(Result::is_ok));
    assert_eq!((spent(&server, "k"), server.calls("evalsha")), (64, 2));
}

#[tokio::test(flavor = "local")]
async fn plans_kept_apart_have_a_call_each() {
    let server = Server::start();
    let pipeline = keeping_apart(&server);
    // After this call, the server knows the script.
    pipeline.asked(plan("other", 1)).await.expect("an answer");
    let before = server.calls("evalsha");
    let decided = join_all((0..64).map(|_| pipeline.asked(plan("k", 1)))).await;
    assert!(decided.iter().all(Result::is_ok));
    let made = server.calls("evalsha") - before;
    assert_eq!((spent(&server, "k"), made), (64, 64));
}

#[tokio::test(flavor = "local")]
async fn script_that_the_server_does_not_know_is_sent_once_for_all_that_wait_for_it() {
    let server = Server::start();
    let pipeline = keeping_apart(&server);
    let decided = join_all((0..PLANS_PER_CALL).map(|_| pipeline.asked(plan("k", 1)))).await;
    assert!(decided.iter().all(Result::is_ok));
    assert_eq!(spent(&server, "k"), PLANS_PER_CALL as u64);
    assert_eq!(server.calls("eval"), 1);
}

#[tokio::test(flavor = "local")]
async fn plan_given_up_before_it_was_sent_is_never_executed() {
    let server = Server::start();
    let pipeline = connected(&server).await;
    let mut given_up: Vec<_> = (0..40)
        .map(|_| Box::pin(pipeline.asked(plan("given up", 1))))
        .collect();
    for waiting in &mut given_up {
        assert!(polled(waiting).await.is_pending());
    }
    drop(given_up);
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    assert_eq!((spent(&server, "given up"), spent(&server, "k")), (0, 1));
}

#[tokio::test(flavor = "local")]
async fn connection_brings_no_script_before_a_call_needs_it() {
    let server = Server::start();
    let pipeline = connected(&server).await;
    let scripts = || server.figure("memory", "number_of_cached_scripts");
    assert_eq!(scripts(), 0);
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    assert_eq!((scripts(), spent(&server, "k")), (1, 1));
}

#[tokio::test(flavor = "local")]
async fn dropped_pipeline_closes_its_connection() {
    let server = Server::start();
    let clients = || server.figure("clients", "connected_clients");
    let pipeline = connected(&server).await;
    assert_eq!(clients(), 2, "the pipeline and the test");
    drop(pipeline);
    until("the connection is closed", || clients() == 1).await;
}

#[tokio::test(flavor = "local")]
async fn more_calls_than_may_wait_are_refused_and_room_is_made_by_giving_up() {
    let server = Server::start();
    let pipeline = connected(&server).await;
    let fill = |count: usize| {
        (0..count)
            .map(|_| Box::pin(pipeline.asked(plan("k", 1))))
            .collect::<Vec<_>>()
    };
    let mut refused = 0;
    for _ in 0..4 {
        let mut waiting = fill(QUEUE_MAX + 1);
        for one in &mut waiting {
            if let Poll::Ready(answer) = polled(one).await {
                assert_eq!(answer, Err(CallError::Overloaded));
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 4);
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    assert_eq!(spent(&server, "k"), 1);
}

#[tokio::test(flavor = "local")]
async fn manual_clock_stands_in_place_of_the_servers() {
    let server = Server::start();
    let context = PipelineContext {
        shared: RedisShared::new("tollgate", Clock::manual(Timestamp(1_234_567))),
        ..context()
    };
    let pipeline = Pipeline::open(PrimaryResolver::Fixed(target(server.address())), context);
    let mut watching = server.connect().expect("a connection");
    watching.ask(&["MONITOR"]).expect("an answer");
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    let seen = std::iter::repeat_with(|| watching.read().expect("a line").text())
        .find(|line| line.contains("EVALSHA"))
        .expect("the call");
    assert!(seen.contains("\"1234567\""), "{seen}");
}

#[tokio::test(flavor = "local")]
async fn one_bad_plan_does_not_fail_the_others_of_its_batch() {
    let server = Server::start();
    let pipeline = connected(&server).await;
    server.command(&["RPUSH", "bad", "entry"]);
    let (bad, good) = tokio::join!(pipeline.asked(plan("bad", 1)), pipeline.asked(plan("k", 1)));
    assert!(matches!(bad, Err(CallError::Server(_))), "{bad:?}");
    assert!(good.is_ok(), "{good:?}");
}

/// Opens a pipeline whose plans share no call.
fn keeping_apart(server: &Server) -> Rc<Pipeline> {
    let context = PipelineContext {
        grouping: Grouping::CallEach,
        ..context()
    };
    Pipeline::open(PrimaryResolver::Fixed(target(server.address())), context)
}

/// Asks as a caller that waits without a deadline.
trait Asked {
    async fn asked(&self, plan: Packed) -> Result<Reply, CallError>;
}

impl Asked for Pipeline {
    async fn asked(&self, plan: Packed) -> Result<Reply, CallError> {
        self.decide(plan, &Caller::new(&|_| None)).await
    }
}

fn context() -> PipelineContext {
    PipelineContext {
        shared: RedisShared::new("tollgate", Clock::system()),
        grouping: Grouping::OneCall,
        timeout: Duration::from_millis(50),
        server: "a server".into(),
        observers: Rc::new(Unobserved),
    }
}

fn address(address: SocketAddr) -> Address {
    Address {
        host: address.ip().to_string().into(),
        port: address.port(),
    }
}

fn target(at: SocketAddr) -> DialTarget {
    DialTarget {
        endpoint: DialEndpoint::Tcp(address(at), None),
        username: None,
        password: None,
        database: 0,
    }
}

fn open(at: SocketAddr) -> Rc<Pipeline> {
    Pipeline::open(PrimaryResolver::Fixed(target(at)), context())
}

async fn connected(server: &Server) -> Rc<Pipeline> {
    let pipeline = open(server.address());
    becomes(&pipeline, PipelineState::Up).await;
    pipeline
}

/// Returns a plan that spends `amount` of the quota under `key`.
fn plan(key: &str, amount: u64) -> Packed {
    plan_of(&QUOTA, key, amount)
}

fn plan_of(quota: &Quota, key: &str, amount: u64) -> Packed {
    let check = Check {
        cost: amount,
        on_store_failure: OnStoreFailure::Closed,
        ..Check::of(quota, SERIES, PartitionHasher::new(&[0; 32]).finish())
    };
    Packed {
        keys: [key.as_bytes().into()].into_iter().collect(),
        ..wire::pack(&[check], &names(), Intent::Decide, None, || Timestamp(0))
    }
}

/// Spends one more unit of the quota under `key`, in a call of its own.
async fn settle(pipeline: &Pipeline, key: &str) -> Result<Value, CallError> {
    settle_step(pipeline, &QUOTA, key, SettlementStep::Spend(1)).await
}

async fn settle_step(
    pipeline: &Pipeline,
    quota: &Quota,
    key: &str,
    step: SettlementStep,
) -> Result<Value, CallError> {
    let settlement = Settlement {
        quota,
        series_id: SERIES,
        partition_id: PartitionHasher::new(&[0; 32]).finish(),
        step,
    };
    let call = Call {
        keys: vec![key.as_bytes().into()],
        ..wire::settle(&[settlement], &names(), None, || Timestamp(0))
    };
    pipeline.call(call, false, &Caller::new(&|_| None)).await
}

fn names() -> KeyNames {
    let names = KeyNames::new("test");
    names.note(SERIES, &Series::of("test", SeriesRole::Real, &QUOTA));
    names
}

/// Returns how much was spent of the quota under `key`: the last seven bytes of the value that the scripts keep.
fn spent(server: &Server, key: &str) -> u64 {
    match server.command(&["GET", key]) {
        servers::Value::Bytes(bytes) => {
            let units = &bytes[bytes.len() - 7..];
            units
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        }
        _ => 0,
    }
}

/// Waits until `is_so`; panics if that takes longer than 30 seconds.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("never happened: {what}");
}

/// Waits until a pipeline is in a state.
async fn becomes(pipeline: &Pipeline, state: PipelineState) {
    until(&format!("the pipeline is {state:?}"), || {
        pipeline.state() == state
    })
    .await;
}

/// Polls a future once.
async fn polled<T>(asked: &mut Pin<Box<impl Future<Output = T>>>) -> Poll<T> {
    poll_fn(|context| Poll::Ready(asked.as_mut().poll(context))).await
}

/// Lets the calls be sent, without sleeping: a socket that has room takes them at once.
async fn sent<T>(asked: &mut [Pin<Box<impl Future<Output = T>>>]) {
    for _ in 0..TURNS_UNTIL_SENT {
        for one in &mut *asked {
            assert!(polled(one).await.is_pending());
        }
        yield_now().await;
    }
}

/// Turns of the runtime after which a call has surely gone through every task on its way.
const TURNS_UNTIL_SENT: usize = 32;
