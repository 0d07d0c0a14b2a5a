//! Jobs that wait to be sent, and the answers for which their callers wait.
//!
//! If a caller gives up while its job waits, the job is never sent. All of it lives on one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use redis::Value;

use crate::store::redis::call_error::CallError;
use crate::store::redis::wire::{Call, Packed};

/// Jobs in the order in which they came; at most [`QUEUE_MAX`] have a caller that still waits.
#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: RefCell<VecDeque<Job>>,
    /// How many of `jobs` have a caller that still waits.
    waiting: Cell<usize>,
    /// The task that sends them, while there is nothing to send.
    sender: RefCell<Option<Waker>>,
}

/// Something to send, and who waits for the answer. If it is dropped without an answer, its call
/// fails as disconnected.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    waiter: Rc<Waiter>,
}

/// What is to be sent.
#[derive(Debug)]
pub(super) enum Work {
    /// A plan to decide; it shares a call with others.
    Plan(Packed),
    /// A call of its own.
    Call {
        call: Call,
        /// Whether `ASKING` goes before it.
        is_asking: bool,
    },
}

/// What is sent together.
#[derive(Debug)]
pub(super) enum Batch {
    /// Plans only; at least one.
    Plans(Vec<Job>),
    /// One call.
    Call(Job),
}

/// The caller's side of a job.
#[derive(Debug)]
pub(super) struct PendingReply<'queue> {
    queue: &'queue Queue,
    waiter: Rc<Waiter>,
}

/// What a job and its caller share: where the answer goes.
#[derive(Debug)]
struct Waiter {
    is_queued: Cell<bool>,
    answer: RefCell<ReplyState>,
}

#[derive(Debug)]
enum ReplyState {
    Due(Option<Waker>),
    Here(Result<Value, CallError>),
    Taken,
}

impl Queue {
    /// Lets `work` wait for its turn.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] if [`QUEUE_MAX`] jobs wait already; nothing is sent.
    pub(super) fn push(&self, work: Work) -> Result<PendingReply<'_>, CallError> {
        if self.waiting.get() >= QUEUE_MAX {
            return Err(CallError::Overloaded);
        }
        let mut jobs = self.jobs.borrow_mut();
        if jobs.len() >= 2 * QUEUE_MAX {
            jobs.retain(|job| !job.is_given_up());
        }
        let waiter = Rc::new(Waiter {
            is_queued: Cell::new(true),
            answer: RefCell::new(ReplyState::Due(None)),
        });
        jobs.push_back(Job {
            work,
            waiter: Rc::clone(&waiter),
        });
        self.waiting.set(self.waiting.get() + 1);
        if let Some(sender) = self.sender.borrow_mut().take() {
            sender.wake();
        }
        Ok(PendingReply {
            queue: self,
            waiter,
        })
    }

    /// Takes what is sent next: one call, or up to `plans_max` plans that wait in a row.
    pub(super) fn take(&self, plans_max: usize) -> Option<Batch> {
        let mut plans = Vec::new();
        while plans.len() < plans_max {
            let Some(job) = self.next(!plans.is_empty()) else {
                break;
            };
            match job.work {
                Work::Call { .. } => return Some(Batch::Call(job)),
                Work::Plan(_) => plans.push(job),
            }
        }
        (!plans.is_empty()).then_some(Batch::Plans(plans))
    }

    /// Waits until there is something to send.
    pub(super) fn filled(&self) -> impl Future<Output = ()> {
        poll_fn(|context| {
            if self.waiting.get() > 0 {
                return Poll::Ready(());
            }
            *self.sender.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
    }

    /// Answers all that wait with [`CallError::Unsent`].
    pub(super) fn clear(&self) {
        self.waiting.set(0);
        let jobs = std::mem::take(&mut *self.jobs.borrow_mut());
        for job in jobs {
            job.waiter.is_queued.set(false);
            job.answer(Err(CallError::Unsent));
        }
    }

    /// Takes the next job whose caller still waits; with `is_plan`, only if it is a plan.
    fn next(&self, is_plan: bool) -> Option<Job> {
        let mut jobs = self.jobs.borrow_mut();
        while jobs.front()?.is_given_up() {
            jobs.pop_front();
        }
        if is_plan && matches!(jobs.front()?.work, Work::Call { .. }) {
            return None;
        }
        let job = jobs.pop_front()?;
        job.waiter.is_queued.set(false);
        self.waiting.set(self.waiting.get() - 1);
        Some(job)
    }
}

impl Job {
    /// Gives the answer to the caller.
    pub(super) fn answer(self, answer: Result<Value, CallError>) {
        self.waiter.give(answer);
    }

    /// Says whether nobody waits for the answer any more.
    pub(super) fn is_given_up(&self) -> bool {
        Rc::strong_count(&self.waiter) == 1
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.waiter.give(Err(CallError::Disconnected));
    }
}

impl Waiter {
    /// Takes the answer, unless there was one already.
    fn give(&self, answer: Result<Value, CallError>) {
        let mut place = self.answer.borrow_mut();
        if let ReplyState::Due(caller) = &mut *place {
            let caller = caller.take();
            *place = ReplyState::Here(answer);
            if let Some(caller) = caller {
                caller.wake();
            }
        }
    }
}

impl Future for PendingReply<'_> {
    type Output = Result<Value, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut place = self.waiter.answer.borrow_mut();
        match &mut *place {
            ReplyState::Due(caller) => {
                match caller {
                    Some(known) => known.clone_from(context.waker()),
                    None => *caller = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            ReplyState::Here(_) | ReplyState::Taken => {
                match std::mem::replace(&mut *place, ReplyState::Taken) {
                    ReplyState::Here(answer) => Poll::Ready(answer),
                    ReplyState::Due(_) | ReplyState::Taken => Poll::Pending,
                }
            }
        }
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        if self.waiter.is_queued.get() {
            self.queue.waiting.set(self.queue.waiting.get() - 1);
        }
    }
}

/// Most jobs that wait for their turn, per worker and server. A worker decides some 100,000 plans a
/// second, so this is tens of milliseconds of work; a job behind it would miss its deadline.
pub(super) const QUEUE_MAX: usize = 4_096;
