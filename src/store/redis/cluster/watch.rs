//! Keeps the map of the process up to date: asks a node for it at the start, when a call finds it wrong
//! or a node gone, and at intervals.
//!
//! One worker asks, one node at a time, over a connection of its own. The same node is asked again until
//! the connection fails, its map proves wrong, or the node is no longer a primary; then other primaries
//! are asked, and then the seeds. Meanwhile, the old map is in use.

use std::rc::Rc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use super::slots::{Slots, UnreadableSlots};
use super::view::ClusterView;
use crate::store::redis::connect::{ConnectionDriver, DialEndpoint, DialError, DialTarget, Dialer};
use crate::store::redis::one_line::one_line;
use crate::store::redis::pipeline::PipelineState;
use crate::store::redis::watch::Asker;
use crate::store::settings::Address;

/// Asks nodes for their map.
#[derive(Debug)]
struct SlotMapPoller<'v> {
    /// What the worker that asks knows about the nodes.
    view: &'v ClusterView,
    /// The node that answered last, which is asked next.
    asked: Option<AskedNode>,
    /// How often candidates were listed, so that each list begins with another node.
    turn: usize,
}

#[derive(Debug)]
struct AskedNode {
    address: Address,
    connection: MultiplexedConnection,
    _driver: ConnectionDriver,
}

/// Why a node did not say which node has which slots.
#[derive(Debug, thiserror::Error)]
enum AskFailure {
    #[error(transparent)]
    Connect(#[from] DialError),
    #[error("no answer within {ASK_TIMEOUT:?}")]
    Elapsed,
    #[error("{0}")]
    Server(String),
    #[error(transparent)]
    UnreadableSlots(#[from] UnreadableSlots),
}

/// Adopts the maps that are found, and asks for them if no other worker does, until the future is dropped.
pub(super) async fn watch(view: Rc<ClusterView>) {
    let mut bulletins = view.watch.subscribe();
    let following = async {
        loop {
            view.adopt_latest();
            if bulletins.changed().await.is_err() {
                return;
            }
        }
    };
    let poller = SlotMapPoller {
        view: &view,
        asked: None,
        turn: 0,
    };
    tokio::join!(following, view.watch.lead(poller));
}

impl Asker for SlotMapPoller<'_> {
    type Found = Slots;

    /// Asks nodes in turn until one says which node has which slots.
    async fn ask(&mut self) -> Result<Slots, String> {
        let is_contradicted = self.view.watch.take_contradiction();
        if let Some(asked) = self.asked.as_mut().filter(|_| !is_contradicted)
            && let Ok(Ok(slots)) = timeout(ASK_TIMEOUT, asked.slots()).await
        {
            self.asked.take_if(|asked| !asked.is_among(&slots));
            return Ok(slots);
        }
        let before = self.asked.take().map(|asked| asked.address);
        let (mut failure, mut is_refused) = ("there is no node to ask".to_owned(), false);
        for address in self.candidates(before.as_ref()) {
            let attempt = timeout(ASK_TIMEOUT, AskedNode::open(self.view, &address)).await;
            match attempt.unwrap_or(Err(AskFailure::Elapsed)) {
                Ok((asked, slots)) => {
                    self.asked = Some(asked).filter(|asked| asked.is_among(&slots));
                    return Ok(slots);
                }
                Err(error) => {
                    is_refused |= error.is_refusal();
                    failure = format!("{address}: {error}");
                }
            }
        }
        let settings = self.view.settings.borrow();
        if let Some(password) = settings.password.as_ref().filter(|_| is_refused) {
            password.refresh("password");
        }
        Err(failure)
    }

    fn idle(&self) -> Duration {
        if self.view.is_troubled() {
            TROUBLED_EVERY
        } else {
            QUIET_EVERY
        }
    }

    fn log(&self, outcome: &Result<Slots, String>) {
        match outcome {
            Ok(slots) => tracing::info!(
                primaries = slots.nodes().len(),
                "the slots of the Redis Cluster are known"
            ),
            Err(error) => tracing::warn!(error, "no node of the Redis Cluster reports the slots"),
        }
    }
}

impl AskFailure {
    /// Says whether the node refused the credentials.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Connect(error) if error.is_refusal())
    }
}

impl SlotMapPoller<'_> {
    /// Returns the nodes to ask, each time in another order: first some primaries, of which the one that was
    /// asked before comes after the others, and those that cannot be reached come last; then the seeds.
    fn candidates(&mut self, before: Option<&Address>) -> Vec<Address> {
        let map = self.view.map.borrow();
        let mut primaries: Vec<_> = map.primaries().iter().map(Rc::clone).collect();
        let mut seeds: Vec<&Address> = self.view.seeds.iter().collect();
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

    /// Says whether the node's own map names it as a primary.
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

/// Most primaries that are asked before the seeds are.
const PRIMARIES_ASKED_MAX: usize = 3;
/// Longest time for one node to be connected to and to answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait for the next map while nothing is wrong with the last one.
const QUIET_EVERY: Duration = Duration::from_secs(10);
/// Longest wait for the next map while a primary cannot be reached or a slot has no node.
const TROUBLED_EVERY: Duration = Duration::from_secs(1);
