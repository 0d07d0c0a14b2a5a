//! What a worker knows about a Cluster's nodes, which its callers and its watcher share.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::resends::Resends;
use super::slot_map::SlotMap;
use super::slots::{self, Redirected, Slots};
use crate::store::redis::call_error::CallError;
use crate::store::redis::connect::{DialEndpoint, DialTarget};
use crate::store::redis::pipeline::{Pipeline, PipelineContext, PipelineState};
use crate::store::redis::sentinel::PrimaryResolver;
use crate::store::redis::watch::Watch;
use crate::store::settings::{Address, RedisSettings};

/// What callers and the watcher share.
#[derive(Debug)]
pub(super) struct ClusterView {
    pub(super) settings: RefCell<RedisSettings>,
    pub(super) seeds: Vec<Address>,
    pub(super) context: PipelineContext,
    pub(super) map: RefCell<SlotMap<ClusterNode>>,
    /// The number of the map that was adopted last; 0 before the first.
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
    /// The node's name for callers, which can tell by the count of this `Rc` whether the node still exists.
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
    /// Returns the node that has a slot. If no node is known, waits for another map, unless none is to be expected.
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
                // To choose among several would be a guess, and the next map says which one it is.
                if matches!(&to[..], [to] if self.learn(slot, to)) {
                    budget.redirect(error).await?;
                } else {
                    budget.pause(error).await?;
                }
            }
            CallError::Ask(to) => {
                let to = self.target(to, &node.address);
                // If this is not the right one, it answers `MOVED` and executes nothing, and another is tried.
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
            // If another node has taken its place, a newer map says so; without a newer map, the call fails.
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

    /// Adopts another map, for which it waits unless none is to be expected now. Returns whether one came.
    pub(super) async fn news(&self) -> bool {
        if self.adopt_latest() {
            return true;
        }
        let before = self.adopted.get();
        self.watch.news().await;
        self.adopt_latest();
        self.adopted.get() != before
    }

    /// Adopts the map that the process found last. Returns false if there is none, or if it is adopted
    /// already.
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
pub(super) fn resolver(address: &Address, settings: &RedisSettings) -> PrimaryResolver {
    let endpoint = DialEndpoint::Tcp(address.clone(), settings.tls.clone());
    PrimaryResolver::Fixed(DialTarget::new(endpoint, settings))
}

/// Says whether an error means that the call was not executed, but may succeed a little later.
fn is_passing(text: &str) -> bool {
    ["CLUSTERDOWN", "LOADING", "MASTERDOWN"]
        .iter()
        .any(|code| text.starts_with(code))
}

/// Most pauses of one call while its node does not serve: 31 ms in all. During a failover, it may take another primary
/// some 20 ms to learn which node has the slots, and it serves none meanwhile.
const PAUSES_DOWN_MAX: u32 = 5;
