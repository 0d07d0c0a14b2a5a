//! Jobs that wait to be sent, and the answers for which their callers wait.
//!
//! If a caller gives up while its job waits, the job is never sent. If it gives up later, the reply goes
//! to a reader that it leaves behind. Queue, jobs and callers live on one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use redis::Value;

use crate::store::redis::call_error::CallError;
use crate::store::redis::observer::{Observer, ServerEvent};
use crate::store::redis::wire::{Call, Packed, Reply, Script};

/// Jobs in the order in which they came; at most [`QUEUE_MAX`] have a caller that still waits.
#[derive(Debug)]
pub(super) struct Queue {
    jobs: RefCell<VecDeque<Job>>,
    /// How many of `jobs` have a caller that still waits.
    waiting: Cell<usize>,
    /// The number of the batch that was taken last.
    taken: Cell<u64>,
    /// The numbers of the batches under way of which the observer was told that the reply is late.
    late: RefCell<Vec<u64>>,
    observer: Rc<dyn Observer>,
    /// Wakes the task that sends jobs, which waits here while there is nothing to send.
    sender: RefCell<Option<Waker>>,
}

/// Something to send, and the waiter for its answer. If a job is dropped without an answer, its call
/// fails as disconnected.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    waiter: Rc<Waiter>,
}

/// What a job sends.
#[derive(Debug)]
pub(super) enum Work {
    /// A plan to decide, which may share a call with others.
    Plan(Packed),
    /// A call of its own.
    Call {
        call: Call,
        /// Whether `ASKING` goes before it.
        is_asking: bool,
    },
}

/// The answer to a [`Work`].
#[derive(Clone, Debug)]
pub(super) enum JobAnswer {
    Plan(Reply),
    Call(Value),
}

/// Jobs that are sent together.
#[derive(Debug)]
pub(super) struct Batch {
    /// The batch's number in this queue, counted from 1.
    pub(super) number: u64,
    /// Either one or more plans, or one job with a call of its own.
    pub(super) jobs: Vec<Job>,
}

/// The side that waits for a reply. If it gives up, this says why, and what reads the reply then.
pub(crate) struct Caller<'c> {
    /// Why the caller gives up, if it does so.
    pub(crate) given_up: Cell<GivenUp>,
    /// Returns the reader of the reply to a plan that comes after the caller has given up, if any.
    late_reader: &'c dyn Fn(GivenUp) -> Option<LateReader>,
    /// What the caller shares with its job, while it has one.
    job: RefCell<Weak<Waiter>>,
}

impl<'c> Caller<'c> {
    pub(crate) fn new(late_reader: &'c dyn Fn(GivenUp) -> Option<LateReader>) -> Self {
        Self {
            given_up: Cell::new(GivenUp::Left),
            late_reader,
            job: RefCell::default(),
        }
    }

    /// Says whether the caller's job was sent and its answer is not taken yet.
    pub(crate) fn is_sent(&self) -> bool {
        let job = self.job.borrow().upgrade();
        job.is_some_and(|job| job.batch.get() > 0)
    }
}

/// Why a caller gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// The client for whose request it asks has left.
    Left,
    /// The reply is late.
    Late,
}

/// Reads the reply to a plan whose caller has given up.
pub(crate) type LateReader = Box<dyn FnOnce(Reply)>;

/// The caller's side of a job: a future of the answer.
pub(super) struct PendingReply<'c> {
    queue: &'c Queue,
    waiter: Rc<Waiter>,
    caller: &'c Caller<'c>,
}

/// What a job and its caller share: the place of the answer.
#[derive(Debug)]
struct Waiter {
    /// The number of the job's batch; 0 while it waits for its turn.
    batch: Cell<u64>,
    answer: RefCell<ReplyState>,
}

enum ReplyState {
    Due(Option<Waker>),
    Here(Result<JobAnswer, CallError>),
    GivenUp(LateReader),
    Taken,
}

impl Queue {
    pub(super) fn new(observer: Rc<dyn Observer>) -> Self {
        Self {
            jobs: RefCell::default(),
            waiting: Cell::new(0),
            taken: Cell::new(0),
            late: RefCell::default(),
            observer,
            sender: RefCell::default(),
        }
    }

    /// Queues `work`.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] if [`QUEUE_MAX`] jobs wait already; nothing is sent.
    pub(super) fn push<'c>(
        &'c self,
        work: Work,
        caller: &'c Caller<'c>,
    ) -> Result<PendingReply<'c>, CallError> {
        if self.waiting.get() >= QUEUE_MAX {
            return Err(CallError::Overloaded);
        }
        let mut jobs = self.jobs.borrow_mut();
        if jobs.len() >= 2 * QUEUE_MAX {
            jobs.retain(|job| !job.is_given_up());
        }
        let waiter = Rc::new(Waiter {
            batch: Cell::new(0),
            answer: RefCell::new(ReplyState::Due(None)),
        });
        jobs.push_back(Job {
            work,
            waiter: Rc::clone(&waiter),
        });
        *caller.job.borrow_mut() = Rc::downgrade(&waiter);
        self.waiting.set(self.waiting.get() + 1);
        if let Some(sender) = self.sender.borrow_mut().take() {
            sender.wake();
        }
        Ok(PendingReply {
            queue: self,
            waiter,
            caller,
        })
    }

    /// Takes what is sent next: one call, or up to `plans_max` plans that wait in a row.
    pub(super) fn take(&self, plans_max: usize) -> Option<Batch> {
        let (number, mut jobs) = (self.taken.get() + 1, Vec::new());
        while jobs.len() < plans_max {
            let Some(job) = self.next(!jobs.is_empty()) else {
                break;
            };
            job.waiter.batch.set(number);
            let is_call = matches!(job.work, Work::Call { .. });
            jobs.push(job);
            if is_call {
                break;
            }
        }
        if jobs.is_empty() {
            return None;
        }
        self.taken.set(number);
        Some(Batch { number, jobs })
    }

    /// Notes that a batch is no longer under way; returns whether the observer was told that its reply is late.
    pub(super) fn ended(&self, batch: u64) -> bool {
        let mut late = self.late.borrow_mut();
        let place = late.iter().position(|number| *number == batch);
        place.map(|place| late.swap_remove(place)).is_some()
    }

    /// Notes that no batch is under way.
    pub(super) fn all_ended(&self) {
        self.late.take();
    }

    /// Notes that the reply to a batch is late. The observer is told once for each batch.
    fn note_late(&self, batch: u64) {
        let mut late = self.late.borrow_mut();
        if !late.contains(&batch) {
            late.push(batch);
            drop(late);
            self.observer
                .note(ServerEvent::Failed(&"no response in time"));
        }
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

    /// Answers all jobs that wait with [`CallError::Unsent`].
    pub(super) fn clear(&self) {
        self.waiting.set(0);
        let jobs = std::mem::take(&mut *self.jobs.borrow_mut());
        for job in jobs {
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
        self.waiting.set(self.waiting.get() - 1);
        Some(job)
    }
}

impl Job {
    /// Gives the answer to the caller.
    pub(super) fn answer(self, answer: Result<JobAnswer, CallError>) {
        self.waiter.give(answer);
    }

    /// Says whether no caller waits for the answer any more.
    pub(super) fn is_given_up(&self) -> bool {
        Rc::strong_count(&self.waiter) == 1
    }

    /// Says whether a job that was sent is to be done even if no caller waits for the answer any more, as
    /// settlements are.
    pub(super) fn is_due_anyway(&self) -> bool {
        match &self.work {
            Work::Plan(_) => false,
            Work::Call { call, .. } => call.script == Script::Settle,
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.waiter.give(Err(CallError::Disconnected));
    }
}

impl Waiter {
    /// Delivers the answer, unless there was one already: to the caller, or to the reader that it left behind.
    fn give(&self, answer: Result<JobAnswer, CallError>) {
        let mut place = self.answer.borrow_mut();
        match &mut *place {
            ReplyState::Due(caller) => {
                let caller = caller.take();
                *place = ReplyState::Here(answer);
                if let Some(caller) = caller {
                    caller.wake();
                }
            }
            ReplyState::GivenUp(_) => {
                let given_up = std::mem::replace(&mut *place, ReplyState::Taken);
                let (ReplyState::GivenUp(read), Ok(JobAnswer::Plan(reply))) = (given_up, answer)
                else {
                    return;
                };
                read(reply);
            }
            ReplyState::Here(_) | ReplyState::Taken => {}
        }
    }
}

impl std::fmt::Debug for ReplyState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Due(_) => "Due",
            Self::Here(_) => "Here",
            Self::GivenUp(_) => "GivenUp",
            Self::Taken => "Taken",
        })
    }
}

impl Future for PendingReply<'_> {
    type Output = Result<JobAnswer, CallError>;

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
            _ => match std::mem::replace(&mut *place, ReplyState::Taken) {
                ReplyState::Here(answer) => Poll::Ready(answer),
                _ => Poll::Pending,
            },
        }
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        let (queue, batch) = (self.queue, self.waiter.batch.get());
        let given_up = self.caller.given_up.get();
        let state = std::mem::replace(&mut *self.waiter.answer.borrow_mut(), ReplyState::Taken);
        match state {
            ReplyState::Due(_) if batch == 0 => queue.waiting.set(queue.waiting.get() - 1),
            ReplyState::Due(_) => {
                if given_up == GivenUp::Late {
                    queue.note_late(batch);
                }
                if let Some(reader) = (self.caller.late_reader)(given_up) {
                    *self.waiter.answer.borrow_mut() = ReplyState::GivenUp(reader);
                }
            }
            // The reply came, but the caller gave up before it took it.
            ReplyState::Here(Ok(JobAnswer::Plan(reply))) => {
                if let Some(read) = (self.caller.late_reader)(given_up) {
                    read(reply);
                }
            }
            ReplyState::Here(_) | ReplyState::GivenUp(_) | ReplyState::Taken => {}
        }
    }
}

/// Most jobs that wait for their turn, per worker and server. A worker decides some 100,000 plans a
/// second, so this is tens of milliseconds of work; a job after that many would miss its deadline.
pub(super) const QUEUE_MAX: usize = 4_096;
