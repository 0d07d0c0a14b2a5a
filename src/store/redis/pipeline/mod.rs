//! One worker's way to one server: a queue, batches, and one supervised connection.
//!
//! A caller puts its plan into the `queue` and waits for the answer, for as long as it chooses. The
//! pipeline's task takes the plans that are ready, sends them in few calls (`batch`), and hands out
//! the replies in their order on the connection, so a late reply never answers another request. If the
//! connection breaks, all calls that were sent on it fail at once, and `supervisor` tries to make another
//! until it succeeds. A plan that was sent may have been executed although no answer came; a plan that
//! still waited was not.

mod batch;
mod mute_detector;
mod queue;
mod shared_state;
mod supervisor;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use redis::Value;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::call_error::CallError;
use super::sentinel::PrimaryResolver;
use super::wire::{Call, Packed, Reply};
use queue::{JobAnswer, PendingReply, Queue, Work};
use shared_state::PipelineCore;

pub(crate) use queue::{Caller, GivenUp, LateReader};
pub(super) use shared_state::{Grouping, PipelineContext, PipelineState};

/// One worker's way to one server; lives on the worker's thread, and closes when it is dropped.
#[derive(Debug)]
pub(super) struct Pipeline {
    core: Rc<PipelineCore>,
    supervisor: AbortHandle,
}

impl Pipeline {
    /// Opens a pipeline, which connects in a task of its own on this thread's runtime.
    pub(super) fn open(resolver: PrimaryResolver, context: PipelineContext) -> Rc<Self> {
        let observer = context.observers.of(&context.server);
        let core = Rc::new(PipelineCore {
            context,
            queue: Queue::new(Rc::clone(&observer)),
            observer,
            state: Cell::new(PipelineState::Connecting),
            resolver: RefCell::new(resolver),
            reconfigured: Notify::new(),
            is_suspect: Cell::new(false),
            server: RefCell::new(None),
        });
        let supervising = supervisor::supervise(Rc::clone(&core));
        Rc::new(Self {
            core,
            supervisor: tokio::task::spawn_local(supervising).abort_handle(),
        })
    }

    /// Decides a plan, or the part of it that this server keeps.
    ///
    /// If the future is dropped before the plan was sent, the plan is never sent.
    pub(super) async fn decide(
        &self,
        packed: Packed,
        caller: &Caller<'_>,
    ) -> Result<Reply, CallError> {
        match self.ask(Work::Plan(packed), caller)?.await? {
            JobAnswer::Plan(reply) => Ok(reply),
            JobAnswer::Call(_) => Err(CallError::BadReply),
        }
    }

    /// Makes a call of a script that shares it with no other; `ASKING` goes before it if `is_asking`.
    pub(super) async fn call(
        &self,
        call: Call,
        is_asking: bool,
        caller: &Caller<'_>,
    ) -> Result<Value, CallError> {
        match self.ask(Work::Call { call, is_asking }, caller)?.await? {
            JobAnswer::Call(value) => Ok(value),
            JobAnswer::Plan(_) => Err(CallError::BadReply),
        }
    }

    /// Points the pipeline to another server, or to the same one with other credentials, once the calls
    /// that were sent are answered.
    pub(super) fn reconfigure(&self, resolver: PrimaryResolver) {
        if *self.core.resolver.borrow() != resolver {
            *self.core.resolver.borrow_mut() = resolver;
            self.core.reconfigured.notify_one();
        }
    }

    /// Notes that the server did not answer in time: if it says nothing at all, the connection is
    /// replaced soon.
    pub(super) fn suspect(&self) {
        self.core.is_suspect.set(true);
    }

    /// Says whether there is a connection.
    pub(super) fn state(&self) -> PipelineState {
        self.core.state.get()
    }

    /// Returns the name of the server, if there is a connection.
    #[cfg(test)]
    pub(super) fn server(&self) -> Option<std::sync::Arc<str>> {
        self.core.server.borrow().clone()
    }

    fn ask<'c>(
        &'c self,
        work: Work,
        caller: &'c Caller<'c>,
    ) -> Result<PendingReply<'c>, CallError> {
        match self.state() {
            PipelineState::Down => Err(CallError::Unsent),
            PipelineState::Connecting | PipelineState::Up => self.core.queue.push(work, caller),
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}
