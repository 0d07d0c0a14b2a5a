//! A worker's view of a Redis Cluster: which primary has which slot, and a pipeline to each.
//!
//! A call goes to the primary that had its keys' slot last. If a node answers that it has not executed
//! the call, the call is sent again: after `MOVED` to the slot's new owner, which is noted; after `ASK`
//! to the node where the keys are being moved; after `TRYAGAIN`, `CLUSTERDOWN` and `LOADING` to the
//! same slot after a short pause. The caller decides how long that may take. A call without an answer
//! is never sent again: it may have been executed.
//!
//! `watch` keeps the [`slot_map::SlotMap`] up to date with the map that one worker of the process asks
//! for; [`slots`] reads what nodes answer. A call is
//! about one slot: the caller splits plans that are in several.

mod resends;
mod slot_map;
pub mod slots;
#[cfg(test)]
mod tests;
mod watch;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use redis::Value;
use tokio::task::AbortHandle;

use super::call_error::CallError;
use super::connect::{DialEndpoint, DialTarget};
use super::pipeline::{Caller, Pipeline, PipelineContext, PipelineState};
use super::reply::replies;
use super::sentinel::SentinelResolver;
use super::watch::Watch;
use super::wire::{Call, Packed, Reply, time_argument};
use crate::store::settings::{Address, RedisSettings};
use resends::Resends;
use slot_map::SlotMap;
use slots::{Redirected, Slots};

/// One worker's view of a Cluster; lives on the worker's thread, and closes when it is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    view: Rc<ClusterView>,
    watcher: AbortHandle,
}

/// What callers and the watcher share.
#[derive(Debug)]
struct ClusterView {
    settings: RefCell<RedisSettings>,
    seeds: Vec<Address>,
    context: PipelineContext,
    map: RefCell<SlotMap<ClusterNode>>,
    /// The number of the map that was adopted last.
    adopted: Cell<u64>,
    /// The maps that the process finds.
    watch: Arc<Watch<Slots>>,
    /// The name for slots without a known node, as long as there are such slots.
    nobody: RefCell<Option<Rc<str>>>,
}

/// A node to which calls are sent; the first call opens its pipeline.
#[derive(Debug)]
struct ClusterNode {
    address: Address,
    /// Its name for callers, who can tell by the count of this `Rc` whether the node still exists.
    name: Rc<str>,
    pipeline: OnceCell<Rc<Pipeline>>,
}

/// Where a call that was not executed goes next.
#[derive(Debug)]
enum NextHop {
    /// To the slot's owner.
    Owner,
    /// To this node, after `ASKING`.
    Guest(Rc<ClusterNode>),
}

impl Cluster {
    /// Opens a view of the Cluster to which these seeds belong, on this thread's runtime.
    pub(super) fn open(
        seeds: Vec<Address>,
        settings: RedisSettings,
        context: PipelineContext,
    ) -> Self {
        let view = Rc::new(ClusterView {
            settings: RefCell::new(settings),
            seeds,
            watch: Arc::clone(&context.shared.slots),
            context,
            map: RefCell::new(SlotMap::none()),
            adopted: Cell::new(0),
            nobody: RefCell::default(),
        });
        let watching = watch::watch(Rc::clone(&view));
        Self {
            view,
            watcher: tokio::task::spawn_local(watching).abort_handle(),
        }
    }

    /// Decides a plan whose keys are all in one slot.
    ///
    /// If the future is dropped before the plan was sent, the plan is never sent.
    pub(super) async fn decide(
        &self,
        part: &Packed,
        caller: &Caller<'_>,
    ) -> Result<Reply, CallError> {
        let slot = part.keys.first().map_or(0, |key| slots::slot_of(key));
        let time = self.view.context.shared.clock.manual_now();
        let follow = self.follow(slot, async |pipeline, is_asking| {
            if !is_asking {
                return pipeline.decide(part.clone(), caller).await;
            }
            let call = Call {
                script: part.script,
                keys: part.keys.to_vec(),
                arguments: (time_argument(time).into_iter())
                    .chain([part.argument.clone()])
                    .collect(),
            };
            let mut replies = replies(pipeline.call(call, true, caller).await?)?;
            Ok(replies.next(part.checks())?)
        });
        follow.await
    }

    /// Calls a script on the node that has the slot of the first key.
    pub(super) async fn call(&self, call: &Call, caller: &Caller<'_>) -> Result<Value, CallError> {
        let slot = call.keys.first().map_or(0, |key| slots::slot_of(key));
        let send = async |pipeline: &Pipeline, is_asking| {
            pipeline.call(call.clone(), is_asking, caller).await
        };
        self.follow(slot, send).await
    }

    /// Returns the name of the primary that has a slot, or one for all slots without a known node.
    pub(super) fn server(&self, slot: u16) -> Rc<str> {
        if let Some(node) = self.view.map.borrow().owner(slot) {
            return Rc::clone(&node.name);
        }
        let mut nobody = self.view.nobody.borrow_mut();
        Rc::clone(nobody.get_or_insert_with(|| NOBODY.into()))
    }

    /// Says whether any primary is known.
    pub(super) fn is_known(&self) -> bool {
        !self.view.map.borrow().primaries().is_empty()
    }

    /// Notes that the primary that has a slot did not answer in time.
    pub(super) fn suspect(&self, slot: u16) {
        let map = self.view.map.borrow();
        if let Some(pipeline) = map.owner(slot).and_then(|node| node.pipeline.get()) {
            pipeline.suspect();
        }
        self.view.watch.want();
    }

    /// Uses other credentials from now on.
    pub(super) fn reconfigure(&self, settings: RedisSettings) {
        for node in self.view.map.borrow().nodes() {
            if let Some(pipeline) = node.pipeline.get() {
                pipeline.reconfigure(resolver(&node.address, &settings));
            }
        }
        *self.view.settings.borrow_mut() = settings;
        self.view.watch.want();
    }

    /// Sends a call, and again as long as nodes answer that it was not executed.
    async fn follow<T>(
        &self,
        slot: u16,
        send: impl AsyncFn(&Pipeline, bool) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut budget = Resends::default();
        let mut next = NextHop::Owner;
        loop {
            let is_asking = matches!(next, NextHop::Guest(_));
            let node = match next {
                NextHop::Guest(node) => node,
                NextHop::Owner => self.view.owner(slot).await?,
            };
            let pipeline = self.view.pipeline(&node);
            let error = match send(&pipeline, is_asking).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            next = self.view.after(slot, &node, error, &mut budget).await?;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl ClusterView {
    /// Returns the node that has a slot, as soon as a first map is known.
    async fn owner(&self, slot: u16) -> Result<Rc<ClusterNode>, CallError> {
        let owner = || self.map.borrow().owner(slot).map(Rc::clone);
        if let Some(owner) = owner() {
            return Ok(owner);
        }
        self.news().await;
        owner().ok_or(CallError::Unsent)
    }

    /// Returns where a call goes next after a node answered it with an error; pauses if need be.
    ///
    /// # Errors
    /// The error itself, if the call may have been executed or another attempt is of no use.
    async fn after(
        &self,
        slot: u16,
        node: &ClusterNode,
        error: CallError,
        budget: &mut Resends,
    ) -> Result<NextHop, CallError> {
        match &error {
            CallError::Moved(to) => {
                self.watch.contradict();
                let to = self.target(to, &node.address);
                // One of several would be a guess, and the next map says it.
                if matches!(&to[..], [to] if self.learn(slot, to)) {
                    budget.redirect(error).await?;
                } else {
                    budget.pause(error).await?;
                }
            }
            CallError::Ask(to) => {
                let to = self.target(to, &node.address);
                // One that is not meant answers `MOVED` and does nothing; then another is tried.
                let to = to.get(budget.pauses() as usize % to.len().max(1));
                if let Some(guest) = to.and_then(|to| self.guest(to)) {
                    budget.redirect(error).await?;
                    return Ok(NextHop::Guest(guest));
                }
                budget.pause(error).await?;
            }
            CallError::TryAgain => budget.pause(error).await?,
            CallError::ReadOnly => {
                self.watch.contradict();
                budget.pause(error).await?;
            }
            CallError::Server(text) if is_passing(text) => {
                self.watch.want();
                if budget.pauses() >= PAUSES_DOWN_MAX {
                    return Err(error);
                }
                budget.pause(error).await?;
            }
            // Another node may have taken its place. A map that is new already would say so.
            CallError::Unsent => {
                if !self.news().await {
                    return Err(error);
                }
                budget.redirect(error).await?;
            }
            CallError::Disconnected => {
                self.watch.want();
                return Err(error);
            }
            CallError::Overloaded
            | CallError::Server(_)
            | CallError::BadReply
            | CallError::CrossSlot
            | CallError::Unreadable(_) => return Err(error),
        }
        Ok(NextHop::Owner)
    }

    /// Waits for another map, unless none is to be expected now. Returns whether one came.
    async fn news(&self) -> bool {
        if self.adopt_latest() {
            return true;
        }
        let before = self.adopted.get();
        self.watch.news().await;
        self.adopt_latest();
        self.adopted.get() != before
    }

    /// Adopts the map that the process found last, unless it is adopted already. Returns whether it
    /// was not.
    fn adopt_latest(&self) -> bool {
        let bulletins = self.watch.subscribe();
        let latest = match &bulletins.borrow().found {
            Some((number, slots)) if *number != self.adopted.get() => (*number, Arc::clone(slots)),
            _ => return false,
        };
        let (number, slots) = latest;
        self.adopted.set(number);
        if !slots.has_gaps() {
            self.nobody.take();
        }
        let slots = Slots::clone(&slots);
        self.map.borrow_mut().adopt(slots, ClusterNode::new);
        true
    }

    /// Returns the nodes to which a redirection by `asked` may lead: the one that it names, or other
    /// primaries on its port.
    fn target(&self, endpoint: &str, asked: &Address) -> Vec<Address> {
        match slots::redirected(endpoint, asked) {
            None => Vec::new(),
            Some(Redirected::To(node)) => vec![node],
            Some(Redirected::OnPort(port)) => {
                let map = self.map.borrow();
                let nodes = map.primaries().iter().map(|node| &node.address);
                let others = nodes.filter(|node| node.port == port && *node != asked);
                others.cloned().collect()
            }
        }
    }

    fn learn(&self, slot: u16, to: &Address) -> bool {
        self.map.borrow_mut().learn(slot, to, ClusterNode::new)
    }

    fn guest(&self, address: &Address) -> Option<Rc<ClusterNode>> {
        self.map.borrow_mut().node(address, ClusterNode::new)
    }

    /// Returns the pipeline to a node, which the first call opens.
    fn pipeline(&self, node: &ClusterNode) -> Rc<Pipeline> {
        let open = || {
            let resolver = resolver(&node.address, &self.settings.borrow());
            let server = Rc::clone(&node.name);
            Pipeline::open(
                resolver,
                PipelineContext {
                    server,
                    ..self.context.clone()
                },
            )
        };
        Rc::clone(node.pipeline.get_or_init(open))
    }

    /// Says whether a slot has no node, or one that cannot be reached.
    fn is_troubled(&self) -> bool {
        let map = self.map.borrow();
        let is_down = |node: &Rc<ClusterNode>| {
            let pipeline = node.pipeline.get();
            pipeline.is_some_and(|pipeline| pipeline.state() == PipelineState::Down)
        };
        map.slots().has_gaps() || map.primaries().iter().any(is_down)
    }
}

impl ClusterNode {
    fn new(address: &Address) -> Self {
        Self {
            address: address.clone(),
            name: address.to_string().into(),
            pipeline: OnceCell::new(),
        }
    }
}

/// Returns how to reach the node at an address.
fn resolver(address: &Address, settings: &RedisSettings) -> SentinelResolver {
    let endpoint = DialEndpoint::Tcp(address.clone(), settings.tls.clone());
    SentinelResolver::Fixed(DialTarget::new(endpoint, settings))
}

/// Says whether an error means that the call was not executed, and that it may be a little later.
fn is_passing(text: &str) -> bool {
    ["CLUSTERDOWN", "LOADING", "MASTERDOWN"]
        .iter()
        .any(|code| text.starts_with(code))
}

/// The name for slots without a known node.
const NOBODY: &str = "cluster";
/// Most pauses of one call while its node does not serve.
const PAUSES_DOWN_MAX: u32 = 4;
