//! Keeps a worker's map up to date: asks a node for it at the start, when a call finds it wrong or a
//! node gone, and now and then.
//!
//! One node is asked at a time, over a connection of its own. It is asked again until the connection
//! fails, until its map proves wrong, or until the node is no primary any more; then other primaries
//! are asked, and then the seeds. Meanwhile the old map is in use.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::ClusterView;
use super::slots::{Slots, Unreadable};
use crate::store::redis::connect::{DialEndpoint, DialError, DialTarget, Dialer, Driver};
use crate::store::redis::one_line::one_line;
use crate::store::redis::pipeline::PipelineState;
use crate::store::settings::Address;

/// What callers and the watcher tell each other.
#[derive(Debug, Default)]
pub(super) struct MapWatch {
    /// Notified when a caller has reason to doubt the map.
    wanted: Notify,
    /// Notifies all that wait when an attempt has ended.
    ended: Notify,
    /// Whether the node that was asked last should not be asked next.
    is_contradicted: Cell<bool>,
    phase: Cell<MapPhase>,
}

/// Whether it is worth a call's time to wait for another map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MapPhase {
    /// A node is being asked for a map, or would be at once.
    #[default]
    Ready,
    /// The map has just been replaced.
    Fresh,
    /// No node answered.
    Deaf,
}

/// Asks nodes for their map.
#[derive(Debug, Default)]
struct Scout {
    /// The node that answered last, and is asked next.
    asked: Option<AskedNode>,
    /// Counts the rounds, so that each begins with another node.
    turn: usize,
}

#[derive(Debug)]
struct AskedNode {
    address: Address,
    connection: MultiplexedConnection,
    _driver: Driver,
}

/// Why a node did not say who has which slots.
#[derive(Debug, thiserror::Error)]
enum AskFailure {
    #[error(transparent)]
    Connect(#[from] DialError),
    #[error("it took longer than {ASK_TIMEOUT:?}")]
    Elapsed,
    #[error("{0}")]
    Server(String),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl MapWatch {
    /// Asks for another map soon.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Asks for another map soon, from another node: the last one was wrong.
    pub(super) fn contradicted(&self) {
        self.is_contradicted.set(true);
        self.want();
    }

    /// Waits for another map, unless none is to be expected now. Returns whether one came.
    pub(super) async fn news(&self) -> bool {
        if !self.is_ready() {
            return false;
        }
        let ended = self.ended.notified();
        self.want();
        ended.await;
        self.phase.get() == MapPhase::Fresh
    }

    /// Says whether a node would be asked for another map at once.
    pub(super) fn is_ready(&self) -> bool {
        self.phase.get() == MapPhase::Ready
    }
}

/// Asks for maps until it is aborted.
pub(super) async fn watch(view: Rc<ClusterView>) {
    let mut scout = Scout::default();
    let mut is_told = None;
    let mut gap = GAP_MIN;
    loop {
        let outcome = scout.ask(&view).await;
        tell(&mut is_told, &outcome);
        let (phase, pause) = match outcome {
            Ok(slots) => {
                view.adopt(slots);
                (MapPhase::Fresh, gap)
            }
            Err(_) => (MapPhase::Deaf, DEAF_EVERY),
        };
        view.watch.phase.set(phase);
        view.watch.ended.notify_waiters();
        sleep(spread(pause)).await;
        if phase == MapPhase::Fresh {
            view.watch.phase.set(MapPhase::Ready);
            let idle = if view.is_troubled() {
                TROUBLED_EVERY
            } else {
                QUIET_EVERY
            };
            let wanted = timeout(spread(idle), view.watch.wanted.notified()).await;
            gap = match wanted {
                Ok(()) => (gap * 2).min(GAP_MAX),
                Err(_) => GAP_MIN,
            };
        }
    }
}

/// Logs when the Cluster is found, and when none of its nodes answers any more.
fn tell(is_told: &mut Option<bool>, outcome: &Result<Slots, String>) {
    let is_known = outcome.is_ok();
    if is_told.replace(is_known) == Some(is_known) {
        return;
    }
    match outcome {
        Ok(slots) => tracing::info!(
            primaries = slots.nodes().len(),
            "the Redis Cluster's slots are known"
        ),
        Err(error) => tracing::warn!(
            error,
            "no node of the Redis Cluster says which node has which slots"
        ),
    }
}

impl Scout {
    /// Asks nodes in turn until one answers which node has which slots.
    ///
    /// # Errors
    /// Which node failed last, and how.
    async fn ask(&mut self, view: &ClusterView) -> Result<Slots, String> {
        let is_contradicted = view.watch.is_contradicted.take();
        if let Some(asked) = self.asked.as_mut().filter(|_| !is_contradicted)
            && let Ok(Ok(slots)) = timeout(ASK_TIMEOUT, asked.slots()).await
        {
            self.asked.take_if(|asked| !asked.is_among(&slots));
            return Ok(slots);
        }
        let before = self.asked.take().map(|asked| asked.address);
        let mut failure = "there is no node to ask".to_owned();
        for address in self.candidates(view, before.as_ref()) {
            let attempt = timeout(ASK_TIMEOUT, AskedNode::open(view, &address)).await;
            match attempt.unwrap_or(Err(AskFailure::Elapsed)) {
                Ok((asked, slots)) => {
                    self.asked = Some(asked).filter(|asked| asked.is_among(&slots));
                    return Ok(slots);
                }
                Err(error) => failure = format!("{address}: {error}"),
            }
        }
        Err(failure)
    }

    /// Returns the nodes to ask, each time in another order: first some primaries, of which those that
    /// cannot be reached and the one that was asked before come last, then the seeds.
    fn candidates(&mut self, view: &ClusterView, before: Option<&Address>) -> Vec<Address> {
        let map = view.map.borrow();
        let mut primaries: Vec<_> = map.primaries().iter().map(Rc::clone).collect();
        let mut seeds: Vec<&Address> = view.seeds.iter().collect();
        let (primaries_len, seeds_len) = (primaries.len().max(1), seeds.len().max(1));
        primaries.rotate_left(self.turn % primaries_len);
        seeds.rotate_left(self.turn % seeds_len);
        self.turn = self.turn.wrapping_add(1);
        primaries.sort_by_key(|node| {
            let pipeline = node.pipeline.get();
            let is_down = pipeline.is_some_and(|pipeline| pipeline.state() == PipelineState::Down);
            (is_down, before == Some(&node.address))
        });
        let primaries = primaries.iter().map(|node| &node.address);
        (primaries.take(PRIMARIES_ASKED_MAX).chain(seeds))
            .cloned()
            .collect()
    }
}

impl AskedNode {
    async fn open(view: &ClusterView, address: &Address) -> Result<(Self, Slots), AskFailure> {
        let target = {
            let settings = view.settings.borrow();
            let endpoint = DialEndpoint::Tcp(address.clone(), settings.tls.clone());
            DialTarget::new(endpoint, &settings)
        };
        let (connection, driver) = Dialer::new(target).open(view.context.timeout).await?;
        let mut asked = Self {
            address: address.clone(),
            connection,
            _driver: driver,
        };
        let slots = asked.slots().await?;
        Ok((asked, slots))
    }

    /// Says whether the node is one of the primaries, by the names in its own map.
    fn is_among(&self, slots: &Slots) -> bool {
        slots.nodes().contains(&self.address)
    }

    async fn slots(&mut self) -> Result<Slots, AskFailure> {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let reply = self.connection.send_packed_command(&command).await;
        match reply.and_then(Value::extract_error) {
            Ok(reply) => Ok(Slots::read(&reply, &self.address)?),
            Err(error) => Err(AskFailure::Server(one_line(&error.to_string()))),
        }
    }
}

/// Shortens a span by up to a quarter, by chance, so that workers do not ask at the same time.
fn spread(span: Duration) -> Duration {
    let [drawn, ..] = RandomState::new().hash_one(span).to_le_bytes();
    span.mul_f64(0.75 + f64::from(drawn) / 1024.0)
}

/// Most primaries that are asked before the seeds are.
const PRIMARIES_ASKED_MAX: usize = 3;
/// Longest that one node may take to answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest from one map to the next while nothing is wrong with it.
const QUIET_EVERY: Duration = Duration::from_secs(10);
/// Longest from one map to the next while a primary cannot be reached or a slot has no node.
const TROUBLED_EVERY: Duration = Duration::from_secs(1);
/// Longest from one round to the next while no node answers.
const DEAF_EVERY: Duration = Duration::from_secs(1);
/// Shortest from one map to the next; it doubles each time that a caller wants another.
const GAP_MIN: Duration = Duration::from_millis(100);
/// Longest that a caller who wants another map has to wait for it.
const GAP_MAX: Duration = Duration::from_secs(1);
