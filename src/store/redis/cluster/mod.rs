//! A worker's view of a Redis Cluster: which primary has which slot, and a link to each.
//!
//! A call goes to the primary that has its keys' slot, as last learned. What a node says instead of
//! executing a call is followed: `MOVED` to the slot's new owner, which is noted; `ASK` to where its
//! keys are being moved; `TRYAGAIN`, `CLUSTERDOWN` and `LOADING` by a short pause. How long that may
//! take, the caller alone knows. What was sent and has no answer is never sent again: it may have
//! been executed.
//!
//! `watch` keeps the [`map::Map`] near the truth; [`slots`] reads what nodes say. A plan is sent
//! here in parts, one per slot: what becomes of a plan of several is decided by the caller.

mod map;
pub mod slots;
#[cfg(test)]
mod tests;
mod watch;

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use redis::Value;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::call_error::CallError;
use super::connect::{Endpoint, Target};
use super::link::{Context, Link, State};
use super::sentinel::Resolver;
use super::wire::{Packed, Reply, Script};
use crate::store::settings::{Address, RedisSettings};
use map::Map;
use slots::Slots;
use watch::Watch;

/// One worker's view of a Cluster; lives on the worker's thread, and closes when it is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    view: Rc<View>,
    watcher: AbortHandle,
}

/// What callers and the watcher share.
#[derive(Debug)]
struct View {
    settings: RefCell<RedisSettings>,
    seeds: Vec<Address>,
    context: Context,
    map: RefCell<Map<Node>>,
    watch: Watch,
    /// The server of slots that nobody is known to have, as long as there are such.
    nobody: RefCell<Option<Rc<str>>>,
}

/// A node that calls are sent to; its link is opened by the first.
#[derive(Debug)]
struct Node {
    address: Address,
    /// What callers know it by; nobody else holds it once the node is gone.
    name: Rc<str>,
    link: OnceCell<Rc<Link>>,
}

/// How often one call may still be sent elsewhere or again.
#[derive(Debug, Default)]
struct Patience {
    /// Redirections since the last pause.
    redirections: u32,
    pauses: u32,
}

/// Where a call that was not executed goes next.
#[derive(Debug)]
enum Next {
    /// To the slot's owner.
    Owner,
    /// To this node, after `ASKING`.
    Guest(Rc<Node>),
}

impl Cluster {
    /// Opens a view of the Cluster that these seeds belong to, on the runtime of this thread.
    pub(super) fn open(seeds: Vec<Address>, settings: RedisSettings, context: Context) -> Self {
        let view = Rc::new(View {
            settings: RefCell::new(settings),
            seeds,
            context,
            map: RefCell::new(Map::none()),
            watch: Watch::default(),
            nobody: RefCell::default(),
        });
        let watching = watch::watch(Rc::clone(&view));
        Self {
            view,
            watcher: tokio::task::spawn_local(watching).abort_handle(),
        }
    }

    /// Decides the part of a plan whose keys are all in one slot.
    ///
    /// Dropped before it was sent, it is never sent.
    pub(super) async fn decide(&self, part: &Packed) -> Result<Reply, CallError> {
        let slot = part.keys.first().map_or(0, |key| slots::slot_of(key));
        let time = self.view.context.clock.manual_now();
        let follow = self.follow(slot, async |link, is_asking| {
            if !is_asking {
                return link.decide(part.clone()).await;
            }
            let mut digits = itoa::Buffer::new();
            let time = time.map_or("", |time| digits.format(time.0));
            let keys: Vec<&[u8]> = part.keys.iter().map(|key| &**key).collect();
            let args = [time.as_bytes(), &part.argument];
            match link.call(Script::Decide, &keys, &args, true).await? {
                Value::Array(mut answers) if answers.len() == 1 => match answers.pop() {
                    Some(Value::BulkString(bytes)) => Ok(Reply(bytes)),
                    Some(Value::ServerError(error)) => Err(CallError::from_server(&error)),
                    _ => Err(CallError::BadReply),
                },
                _ => Err(CallError::BadReply),
            }
        });
        follow.await
    }

    /// Calls a script on the node that has the slot of the first key.
    pub(super) async fn call(
        &self,
        script: Script,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Value, CallError> {
        let slot = keys.first().map_or(0, |key| slots::slot_of(key));
        let send = async |link: &Link, is_asking| link.call(script, keys, args, is_asking).await;
        self.follow(slot, send).await
    }

    /// Returns the name of the primary that has a slot; the Cluster's, as long as nobody is known
    /// to have it.
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

    /// Counts the connections that stand.
    pub(super) fn connections(&self) -> u64 {
        let map = self.view.map.borrow();
        let is_up = |node: &Rc<Node>| {
            node.link
                .get()
                .is_some_and(|link| link.state() == State::Up)
        };
        map.nodes().map(|node| u64::from(is_up(node))).sum()
    }

    /// Says that the primary that has a slot did not answer in time.
    pub(super) fn suspect(&self, slot: u16) {
        let map = self.view.map.borrow();
        if let Some(link) = map.owner(slot).and_then(|node| node.link.get()) {
            link.suspect();
        }
        self.view.watch.want();
    }

    /// Uses other credentials from now on.
    pub(super) fn reconfigure(&self, settings: RedisSettings) {
        for node in self.view.map.borrow().nodes() {
            if let Some(link) = node.link.get() {
                link.reconfigure(resolver(&node.address, &settings));
            }
        }
        *self.view.settings.borrow_mut() = settings;
        self.view.watch.want();
    }

    /// Sends a call until it was executed, or says why it was not or may not have been.
    async fn follow<T>(
        &self,
        slot: u16,
        send: impl AsyncFn(&Link, bool) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut patience = Patience::default();
        let mut next = Next::Owner;
        loop {
            let is_asking = matches!(next, Next::Guest(_));
            let node = match next {
                Next::Guest(node) => node,
                Next::Owner => self.view.owner(slot).await?,
            };
            let link = self.view.link(&node);
            let error = match send(&link, is_asking).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            next = self.view.after(slot, &node, error, &mut patience).await?;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl View {
    /// Returns the node that has a slot, as soon as a first map is known.
    async fn owner(&self, slot: u16) -> Result<Rc<Node>, CallError> {
        let owner = || self.map.borrow().owner(slot).map(Rc::clone);
        if let Some(owner) = owner() {
            return Ok(owner);
        }
        self.watch.news().await;
        owner().ok_or(CallError::Unsent)
    }

    /// Says where a call goes that one node answered with an error, after a pause if it takes one.
    ///
    /// # Errors
    /// The error itself, if the call may have been executed, or if it would be so again.
    async fn after(
        &self,
        slot: u16,
        node: &Node,
        error: CallError,
        patience: &mut Patience,
    ) -> Result<Next, CallError> {
        match &error {
            CallError::Moved(to) => {
                self.watch.contradicted();
                let to = slots::redirected(to, &node.address);
                if to.is_some_and(|to| self.learn(slot, &to)) {
                    patience.redirect(error).await?;
                } else {
                    patience.pause(error).await?;
                }
            }
            CallError::Ask(to) => {
                let to = slots::redirected(to, &node.address);
                if let Some(guest) = to.and_then(|to| self.guest(&to)) {
                    patience.redirect(error).await?;
                    return Ok(Next::Guest(guest));
                }
                patience.pause(error).await?;
            }
            CallError::TryAgain => patience.pause(error).await?,
            CallError::ReadOnly => {
                self.watch.contradicted();
                patience.pause(error).await?;
            }
            CallError::Server(text) if is_passing(text) => {
                self.watch.want();
                if patience.pauses >= PAUSES_DOWN_MAX {
                    return Err(error);
                }
                patience.pause(error).await?;
            }
            // Another node may have taken its place; a map that is new already says the same.
            CallError::Unsent => {
                if !self.watch.news().await {
                    return Err(error);
                }
                patience.redirect(error).await?;
            }
            CallError::Disconnected => {
                self.watch.want();
                return Err(error);
            }
            CallError::Overloaded
            | CallError::Server(_)
            | CallError::BadReply
            | CallError::Unreadable(_) => return Err(error),
        }
        Ok(Next::Owner)
    }

    /// Takes new slots.
    fn adopt(&self, slots: Slots) {
        if !slots.has_gaps() {
            self.nobody.take();
        }
        self.map.borrow_mut().adopt(slots, Node::new);
    }

    fn learn(&self, slot: u16, to: &Address) -> bool {
        self.map.borrow_mut().learn(slot, to, Node::new)
    }

    fn guest(&self, address: &Address) -> Option<Rc<Node>> {
        self.map.borrow_mut().node(address, Node::new)
    }

    /// Returns the way to a node, opened by the first call that goes there.
    fn link(&self, node: &Node) -> Rc<Link> {
        let open = || {
            let resolver = resolver(&node.address, &self.settings.borrow());
            Link::open(resolver, self.context.clone())
        };
        Rc::clone(node.link.get_or_init(open))
    }

    /// Whether some slot has nobody, or somebody who cannot be reached.
    fn is_troubled(&self) -> bool {
        let map = self.map.borrow();
        let is_down = |node: &Rc<Node>| {
            let link = node.link.get();
            link.is_some_and(|link| link.state() == State::Down)
        };
        map.slots().has_gaps() || map.primaries().iter().any(is_down)
    }
}

impl Node {
    fn new(address: &Address) -> Self {
        Self {
            address: address.clone(),
            name: address.to_string().into(),
            link: OnceCell::new(),
        }
    }
}

impl Patience {
    /// Allows one more redirection; where nodes send a call in circles, they are given a pause.
    async fn redirect(&mut self, error: CallError) -> Result<(), CallError> {
        self.redirections += 1;
        if self.redirections <= REDIRECTIONS_MAX {
            return Ok(());
        }
        self.pause(error).await
    }

    /// Waits a little, each time a little longer.
    async fn pause(&mut self, error: CallError) -> Result<(), CallError> {
        if self.pauses >= PAUSES_MAX {
            return Err(error);
        }
        let pause = PAUSE_MIN.saturating_mul(1 << self.pauses.min(16));
        self.pauses += 1;
        self.redirections = 0;
        sleep(pause.min(PAUSE_MAX)).await;
        Ok(())
    }
}

/// The way to a node that is named by its address.
fn resolver(address: &Address, settings: &RedisSettings) -> Resolver {
    let endpoint = Endpoint::Tcp(address.clone(), settings.tls.clone());
    Resolver::Fixed(Target::new(endpoint, settings))
}

/// Says whether an error means that nothing was executed, and that a little later it may be.
fn is_passing(text: &str) -> bool {
    ["CLUSTERDOWN", "LOADING", "MASTERDOWN"]
        .iter()
        .any(|code| text.starts_with(code))
}

/// The server of slots that nobody is known to have.
const NOBODY: &str = "cluster";
/// Most redirections that a call follows without a pause.
const REDIRECTIONS_MAX: u32 = 5;
/// Most pauses of one call; its caller's deadline is usually sooner.
const PAUSES_MAX: u32 = 500;
/// Most pauses after which a call is sent again to a node that does not serve now.
const PAUSES_DOWN_MAX: u32 = 4;
/// The first pause; each is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(16);
