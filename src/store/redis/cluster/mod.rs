//! A worker's view of a Redis Cluster: which primary has which slot, and a pipeline to each.
//!
//! A call goes to the primary that had its keys' slot last. If a node answers that it has not executed
//! the call, the call is sent again: after `MOVED` to the slot's new owner, which is noted; after `ASK`
//! to the node where the keys are being moved; after `TRYAGAIN`, `CLUSTERDOWN` and `LOADING` to the
//! same slot after a short pause. The caller decides how long that may take. A call without an answer
//! is never sent again: it may have been executed.
//!
//! `watch` keeps the [`slot_map::SlotMap`] up to date with the map that one worker of the process asks
//! for; [`slots`] reads what nodes answer. A call is about one slot: the caller splits plans whose keys
//! are in several.

mod resends;
mod slot_map;
pub mod slots;
#[cfg(test)]
mod tests;
mod view;
mod watch;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use redis::Value;
use tokio::task::AbortHandle;

use super::call_error::CallError;
use super::pipeline::{Caller, Pipeline, PipelineContext};
use super::reply::replies;
use super::wire::{Call, Packed, Reply, time_argument};
use crate::store::settings::{Address, RedisSettings};
use resends::Resends;
use slot_map::SlotMap;
use view::{ClusterView, NextHop, resolver};

/// One worker's view of a Cluster; lives on the worker's thread, and closes when it is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    view: Rc<ClusterView>,
    watcher: AbortHandle,
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

    /// Calls a script on the node that has the slot of the call's first key.
    pub(super) async fn call(&self, call: &Call, caller: &Caller<'_>) -> Result<Value, CallError> {
        let slot = call.keys.first().map_or(0, |key| slots::slot_of(key));
        let send = async |pipeline: &Pipeline, is_asking| {
            pipeline.call(call.clone(), is_asking, caller).await
        };
        self.follow(slot, send).await
    }

    /// Returns the name of the primary that has a slot, or one name for all slots without a known node.
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

    /// Sends a call, and sends it again as long as nodes answer that it was not executed.
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

/// The name for all slots without a known node.
const NOBODY: &str = "cluster";
