//! What a worker knows of a Cluster's nodes: its callers and its watcher share it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::resends::Resends;
use super::slot_map::SlotMap;
use super::slots::{self, Redirected, Slots};
use crate::store::redis::call_error::CallError;
use crate::store::redis::connect::{DialEndpoint, DialTarget};
use crate::store::redis::pipeline::{Pipeline, PipelineContext, PipelineState};
use crate::store::redis::sentinel::SentinelResolver;
use crate::store::redis::watch::Watch;
use crate::store::settings::{Address, RedisSettings};

/// What callers and the watcher share.
#[derive(Debug)]
pub(super) struct ClusterView {
    pub(super) settings: RefCell<RedisSettings>,
    pub(super) seeds: Vec<Address>,
    pub(super) context: PipelineContext,
    pub(super) map: RefCell<SlotMap<ClusterNode>>,
    /// The number of the map that was adopted last.
    pub(super) adopted: Cell<u64>,
    /// The maps that the process finds.
    pub(super) watch: Arc<Watch<Slots>>,
    /// The name for slots without a known node, as long as there are such slots.
    pub(super) nobody: RefCell<Option<Rc<str>>>,
}

/// A node to which calls are sent; the first call opens its pipeline.
#[derive(Debug)]
pub(super) struct ClusterNode {
    pub(super) address: Address,
    /// Its name for callers, who can tell by the count of this `Rc` whether the node still exists.
    pub(super) name: Rc<str>,
    pub(super) pipeline: OnceCell<Rc<Pipeline>>,
}

/// Where a call that was not executed goes next.
#[derive(Debug)]
pub(super) enum NextHop {
    /// To the slot's owner.
    Owner,
    /// To this node, after `ASKING`.
    Guest(Rc<ClusterNode>),
}

impl ClusterView {
    /// Returns the node that has a slot, as soon as a first map is known.
    pub(super) async fn owner(&self, slot: u16) -> Result<Rc<ClusterNode>, CallError> {
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
    pub(super) async fn after(
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
    pub(super) async fn news(&self) -> bool {
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
    pub(super) fn adopt_latest(&self) -> bool {
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
    pub(super) fn target(&self, endpoint: &str, asked: &Address) -> Vec<Address> {
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

    pub(super) fn learn(&self, slot: u16, to: &Address) -> bool {
        self.map.borrow_mut().learn(slot, to, ClusterNode::new)
    }

    pub(super) fn guest(&self, address: &Address) -> Option<Rc<ClusterNode>> {
        self.map.borrow_mut().node(address, ClusterNode::new)
    }

    /// Returns the pipeline to a node, which the first call opens.
    pub(super) fn pipeline(&self, node: &ClusterNode) -> Rc<Pipeline> {
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
    pub(super) fn is_troubled(&self) -> bool {
        let map = self.map.borrow();
        let is_down = |node: &Rc<ClusterNode>| {
            let pipeline = node.pipeline.get();
            pipeline.is_some_and(|pipeline| pipeline.state() == PipelineState::Down)
        };
        map.has_gaps() || map.primaries().iter().any(is_down)
    }
}

impl ClusterNode {
    pub(super) fn new(address: &Address) -> Self {
        Self {
            address: address.clone(),
            name: address.to_string().into(),
            pipeline: OnceCell::new(),
        }
    }
}

/// Returns how to reach the node at an address.
pub(super) fn resolver(address: &Address, settings: &RedisSettings) -> SentinelResolver {
    let endpoint = DialEndpoint::Tcp(address.clone(), settings.tls.clone());
    SentinelResolver::Fixed(DialTarget::new(endpoint, settings))
}

/// Says whether an error means that the call was not executed, and that it may be a little later.
fn is_passing(text: &str) -> bool {
    ["CLUSTERDOWN", "LOADING", "MASTERDOWN"]
        .iter()
        .any(|code| text.starts_with(code))
}

/// Most pauses of one call while its node does not serve: 31 ms. During a failover, another primary may not know for some
/// 20 ms which node has the slots, and serves none meanwhile.
const PAUSES_DOWN_MAX: u32 = 5;
