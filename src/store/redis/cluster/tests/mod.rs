//! Views of real Clusters.

mod credentials;
mod failing;
mod moving;
mod watching;

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::slots::Slots;
use super::view::ClusterNode;
use super::*;
use crate::clock::{Clock, Micros, Timestamp};
use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, Check, PartitionId, Quota, Verdict};
use crate::store::redis::RedisShared;
use crate::store::redis::observer::Unobserved;
use crate::store::redis::pipeline::{Grouping, PipelineState};
use crate::store::redis::servers::{self, Encryption, Server};
use crate::store::redis::watch::Watch;
use crate::store::redis::wire::{self, Intent, KeyNames};
use crate::store::series::{Series, SeriesRole};
use crate::store::settings::{Deployment, Password};

/// A view, and plans of one or two quotas that nothing exhausts.
struct Bench {
    cluster: Cluster,
    names: KeyNames,
    quotas: [Quota; 2],
}

impl Bench {
    /// Opens a view of the Cluster to which these nodes belong.
    fn open(seeds: impl IntoIterator<Item = SocketAddr>) -> Rc<Self> {
        Self::open_with(seeds, |_| ())
    }

    fn open_with(
        seeds: impl IntoIterator<Item = SocketAddr>,
        change: impl FnOnce(&mut RedisSettings),
    ) -> Rc<Self> {
        Self::open_watching(seeds, change, &Arc::default())
    }

    /// Opens a view that takes part in `watch`.
    fn open_watching(
        seeds: impl IntoIterator<Item = SocketAddr>,
        change: impl FnOnce(&mut RedisSettings),
        watch: &Arc<Watch<Slots>>,
    ) -> Rc<Self> {
        let seeds: Vec<Address> = seeds.into_iter().map(address).collect();
        let mut settings = RedisSettings::plain(Deployment::Cluster(seeds.clone()));
        change(&mut settings);
        let names = KeyNames::new("tollgate");
        let quotas = [3_600, 86_400]
            .map(|secs| Quota::of(Algorithm::FixedWindow, QUOTA, Micros::from_secs(secs)));
        for (series_id, quota) in (0..).map(SeriesId).zip(&quotas) {
            let series = Series::of("per-client", SeriesRole::Real, quota);
            names.note(series_id, &series);
        }
        // A clock that stands still, so that no window ends.
        let clock = Clock::manual(Timestamp(1_700_000_000_000_000));
        let context = PipelineContext {
            shared: RedisShared {
                slots: Arc::clone(watch),
                ..RedisShared::new("tollgate", clock)
            },
            grouping: Grouping::CallEach,
            timeout: Duration::from_millis(50),
            server: "cluster".into(),
            observers: Rc::new(Unobserved),
        };
        Rc::new(Self {
            cluster: Cluster::open(seeds, settings, context),
            names,
            quotas,
        })
    }

    /// Counts the nodes with a connection.
    fn connections(&self) -> usize {
        let map = self.cluster.view.map.borrow();
        let is_up = |node: &&Rc<ClusterNode>| {
            let pipeline = node.pipeline.get();
            pipeline.is_some_and(|pipeline| pipeline.state() == PipelineState::Up)
        };
        map.nodes().filter(is_up).count()
    }

    fn plan(&self, partition_id: u128, quotas: usize, cost: u64) -> Vec<Check<'_>> {
        let checks = (0..).map(SeriesId).zip(&self.quotas[..quotas]);
        checks
            .map(|(series_id, quota)| Check {
                cost,
                ..Check::of(quota, series_id, PartitionId::new(partition_id))
            })
            .collect()
    }

    /// Spends one unit of each quota of a partition.
    async fn decide(&self, partition_id: u128, quotas: usize) -> Result<(), CallError> {
        let plan = self.plan(partition_id, quotas, 1);
        let part = wire::pack(&plan, &self.names, Intent::Decide, None, || Timestamp(0));
        let reply = self.cluster.decide(&part, &Caller::new(&|_| None)).await?;
        let mut verdict = Verdict::default();
        wire::verdict(&plan, &reply, &mut verdict).expect("a verdict");
        assert!(verdict.admit);
        Ok(())
    }

    /// Returns the units that are spent of each quota of a partition.
    async fn spent(&self, partition_id: u128) -> [u64; 2] {
        let plan = self.plan(partition_id, 2, 0);
        let part = wire::pack(&plan, &self.names, Intent::Peek, None, || Timestamp(0));
        let reply = self
            .cluster
            .decide(&part, &Caller::new(&|_| None))
            .await
            .expect("an answer");
        let peeks = wire::peeks(&plan, &reply).expect("what is left");
        [0, 1].map(|index| QUOTA - peeks[index].expect("decided").remaining)
    }

    fn key(&self, partition_id: u128) -> Box<[u8]> {
        self.names.key(SeriesId(0), PartitionId::new(partition_id))
    }

    /// Returns the slot of a partition.
    fn slot(&self, partition_id: u128) -> u16 {
        slots::slot_of(&self.key(partition_id))
    }

    /// Returns some partitions of each of these primaries.
    fn partitions_of(&self, all: &servers::Cluster, primaries: &[&Server]) -> Vec<Vec<u128>> {
        let primary = |partition_id: u128| all.primary_of(self.slot(partition_id)).port();
        let partition_ids: Vec<_> = (0..60)
            .map(|partition_id| (partition_id, primary(partition_id)))
            .collect();
        let of = |port| (partition_ids.iter()).filter(move |(_, primary)| *primary == port);
        (primaries.iter())
            .map(|node| {
                of(node.port())
                    .map(|(partition_id, _)| *partition_id)
                    .collect()
            })
            .collect()
    }

    /// Returns `count` partitions of a slot.
    fn partitions_in(&self, slot: u16, count: usize) -> Vec<u128> {
        let is_in = |partition_id: &u128| self.slot(*partition_id) == slot;
        (0..).filter(is_in).take(count).collect()
    }
}

/// What became of decisions that were made while something happened.
#[derive(Debug)]
struct Load {
    /// How often each partition was decided.
    decided: Vec<u64>,
    errors: Vec<CallError>,
}

/// Decides plans of `quotas` quotas for these partitions, in turn and many at once, while a thread of
/// its own does `work`.
async fn under_load(
    bench: &Rc<Bench>,
    partition_ids: &[u128],
    quotas: usize,
    work: impl FnOnce() + Send + 'static,
) -> Load {
    let is_over = Rc::new(Cell::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|first| {
            let (bench, is_over, partition_ids) = (
                Rc::clone(bench),
                Rc::clone(&is_over),
                partition_ids.to_vec(),
            );
            spawn_local(async move {
                let mut load = Load::of(&partition_ids);
                let mut turns =
                    (first..partition_ids.len()).chain((0..partition_ids.len()).cycle());
                while !is_over.get() {
                    let turn = turns.next().expect("a turn");
                    match bench.decide(partition_ids[turn], quotas).await {
                        Ok(()) => load.decided[turn] += 1,
                        Err(error) => load.errors.push(error),
                    }
                    sleep(Duration::from_micros(500)).await;
                }
                load
            })
        })
        .collect();
    // Decisions are made before and after the work, too.
    sleep(Duration::from_millis(50)).await;
    aside(work).await;
    sleep(Duration::from_millis(50)).await;
    is_over.set(true);
    let mut all = Load::of(partition_ids);
    for caller in callers {
        let load = caller.await.expect("a caller");
        for (sum, decided) in all.decided.iter_mut().zip(load.decided) {
            *sum += decided;
        }
        all.errors.extend(load.errors);
    }
    all
}

impl Load {
    fn of(partition_ids: &[u128]) -> Self {
        Self {
            decided: vec![0; partition_ids.len()],
            errors: Vec::new(),
        }
    }
}

/// Does blocking work on a thread of its own.
async fn aside(work: impl FnOnce() + Send + 'static) {
    let working = thread::spawn(work);
    while !working.is_finished() {
        sleep(Duration::from_millis(2)).await;
    }
    working.join().expect("the work is done");
}

/// Waits until `is_so`, for at most 30 seconds.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = timeout(Duration::from_secs(30), wait).await;
    waited.expect("it never became so");
}

#[tokio::test(flavor = "local")]
async fn every_key_is_in_the_slot_that_a_server_says() {
    let server = Server::start_with(&["cluster-enabled yes"]);
    let bench = Bench::open([server.address()]);
    let keys = (0..200).map(|partition_id| bench.key(partition_id));
    let odd = [
        "",
        "{}",
        "{}{a}",
        "{a",
        "a}{b}c",
        "a{b}{c}",
        "{{a}}",
        "{a}{b}",
        "foo}bar",
        "{user1000}.following",
        "foo{{bar}}zap",
    ];
    for key in keys.chain(odd.map(|key| key.as_bytes().into())) {
        let text = std::str::from_utf8(&key).expect("text");
        let said = server.command(&["CLUSTER", "KEYSLOT", text]).integer();
        assert_eq!(i64::from(slots::slot_of(&key)), said, "{text}");
    }
}

#[tokio::test(flavor = "local")]
async fn each_decision_is_one_call_to_the_primary_of_its_slot() {
    let servers = servers::Cluster::start(3, 0);
    let bench = Bench::open([servers.nodes[1].address()]);
    let primaries: Vec<&Server> = servers.nodes.iter().collect();
    for (node, partition_ids) in primaries
        .iter()
        .zip(bench.partitions_of(&servers, &primaries))
    {
        let before = node.calls("evalsha");
        for partition_id in &partition_ids {
            bench.decide(*partition_id, 2).await.expect("an answer");
        }
        let calls = node.calls("evalsha") - before;
        assert_eq!(calls, partition_ids.len() as u64);
        assert_eq!(errors(node, "MOVED"), 0);
        assert_eq!(bench.spent(partition_ids[0]).await, [1, 1]);
    }
}

/// Nodes that hide their endpoints are on the host of the node that was asked. Nodes that announce no name
/// give their address in addition, but a node that has met no other does not know its own.
#[tokio::test(flavor = "local")]
async fn nodes_that_announce_no_name_are_found() {
    for (endpoint_type, primaries) in [("unknown-endpoint", 3), ("hostname", 3), ("hostname", 1)] {
        let lines = [
            &*format!("cluster-preferred-endpoint-type {endpoint_type}"),
            "cluster-announce-hostname \"\"",
        ];
        let servers = servers::Cluster::start_with(primaries, 0, Encryption::None, &lines);
        let servers = Arc::new(servers);
        let bench = Bench::open([servers.nodes[0].address()]);
        for partition_id in 0..30 {
            let decided = bench.decide(partition_id, 1).await;
            assert_eq!(decided, Ok(()), "{endpoint_type}, {primaries}");
        }
        if primaries == 1 {
            continue;
        }
        // A new partition is decided on the node that its slot is moving to, even before it has moved.
        let slot = bench.slot(0);
        let [_, new @ ..] = &bench.partitions_in(slot, 3)[..] else {
            panic!("the slot has partitions");
        };
        let slot_goes = |step: fn(&servers::Cluster, u16, &Server)| {
            let servers = Arc::clone(&servers);
            aside(move || {
                let from = servers.primary_of(slot).port();
                let to = servers.nodes.iter().find(|node| node.port() != from);
                step(&servers, slot, to.expect("another"));
            })
        };
        slot_goes(servers::Cluster::begin_move).await;
        for partition_id in new {
            let decided = bench.decide(*partition_id, 1);
            let decided = timeout(Duration::from_secs(1), decided).await;
            assert_eq!(decided, Ok(Ok(())), "{endpoint_type}");
        }
        slot_goes(|servers, slot, to| {
            servers.move_keys(slot, to, 100);
            servers.finish_move(slot, to);
        })
        .await;
        bench.decide(0, 1).await.expect("an answer");
        assert_eq!(bench.spent(0).await, [2, 0], "{endpoint_type}");
        let asked: usize = servers.nodes.iter().map(|node| errors(node, "ASK")).sum();
        assert!(asked > 0, "the move was met");
    }
}

/// Returns how many errors of a kind a server has answered.
fn errors(node: &Server, kind: &str) -> usize {
    let stats = node.info("errorstats");
    let line = stats.get(&format!("errorstat_{kind}"));
    line.map_or(0, |line| {
        line.strip_prefix("count=")
            .expect("a count")
            .parse()
            .expect("a number")
    })
}

fn address(of: SocketAddr) -> Address {
    let host = of.ip().to_string().into();
    let port = of.port();
    Address { host, port }
}

const QUOTA: u64 = 1_000_000;
const CALLERS: usize = 16;
