//! What is known of one request's attempts at the endpoints of its upstream. The record lives as long as
//! the answer, because only the answer's end shows whether the endpoint works.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use http::HeaderValue;

use super::balance::Origins;
use super::body_error::UpstreamBodyError;
use super::endpoints::{Failure, RequestPermit};
use super::origin::Origin;
use crate::clock::{Micros, Timestamp};
use crate::fault::EndpointFailure;
use crate::metrics::WorkerIndex;

/// All attempts to have one request answered.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Whether an origin may have seen some of the request.
    pub(super) is_sent: Cell<bool>,
    count: Cell<u32>,
    /// When the first attempt began.
    began: Cell<Timestamp>,
    time_to_head: Cell<Option<Micros>>,
    latest: RefCell<Option<AttemptRecord>>,
    /// Why the answer broke off, if it did.
    cause: RefCell<Option<Box<str>>>,
    /// The request's permit, if the upstream has `max_requests`.
    pub(super) permit: RefCell<Option<RequestPermit>>,
}

/// One attempt: a request at an endpoint, until its answer has ended.
#[derive(Debug)]
struct AttemptRecord {
    origins: Rc<Origins>,
    origin: Rc<Origin>,
    worker: WorkerIndex,
    began: Timestamp,
    progress: AttemptProgress,
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptProgress {
    /// The head of the answer has not come yet.
    Waiting,
    /// The head has come, and nothing has failed since.
    Answered,
    Failed,
}

impl Attempts {
    /// Whether an origin may have seen some of the request.
    pub fn is_sent(&self) -> bool {
        self.is_sent.get()
    }

    /// Returns how many attempts there were.
    pub fn count(&self) -> u32 {
        self.count.get()
    }

    /// Returns the time from the beginning of the first attempt to the head of the answer, if it came.
    pub fn time_to_head(&self) -> Option<Micros> {
        self.time_to_head.get()
    }

    /// Returns the endpoint of the latest attempt.
    pub fn endpoint(&self) -> Option<Ref<'_, str>> {
        Ref::filter_map(self.latest.borrow(), |latest| {
            latest.as_ref().map(|visit| &*visit.origin.state.name)
        })
        .ok()
    }

    /// Returns the authority of that endpoint, as the value of a Host field.
    pub fn authority(&self) -> Option<HeaderValue> {
        self.origin().map(|origin| origin.host.clone())
    }

    /// Returns why the answer broke off, if it did and the upstream is to blame.
    pub fn cause(&self) -> Option<Ref<'_, str>> {
        Ref::filter_map(self.cause.borrow(), Option::as_deref).ok()
    }

    /// Notes that the answer broke off after its head, and blames the endpoint if it is at fault.
    pub fn broke_off(&self, error: &UpstreamBodyError) {
        if matches!(error, UpstreamBodyError::Request(_)) {
            return;
        }
        let cause = error.cause().into_boxed_str();
        if let Some(failure) = error.failure() {
            self.failed(failure, &cause);
        }
        self.cause.replace(Some(cause));
    }

    /// Returns the endpoint of the latest attempt, as this worker knows it.
    pub(super) fn origin(&self) -> Option<Rc<Origin>> {
        let latest = self.latest.borrow();
        latest.as_ref().map(|visit| Rc::clone(&visit.origin))
    }

    /// Begins an attempt at `origin`.
    pub(super) fn begin(
        &self,
        origins: &Rc<Origins>,
        origin: &Rc<Origin>,
        worker: WorkerIndex,
        now: Timestamp,
    ) {
        if self.count.replace(self.count.get() + 1) == 0 {
            self.began.set(now);
        }
        let visit = AttemptRecord::begin(origins, origin, worker, now);
        self.latest.replace(Some(visit));
    }

    /// Moves the latest attempt to `origin`, if that is another endpoint than before.
    pub(super) fn move_to(&self, origin: &Rc<Origin>, now: Timestamp) {
        let mut latest = self.latest.borrow_mut();
        if let Some(visit) = latest.take_if(|visit| !Rc::ptr_eq(&visit.origin, origin)) {
            *latest = Some(AttemptRecord::begin(
                &visit.origins,
                origin,
                visit.worker,
                now,
            ));
        }
    }

    /// Ends the latest attempt, which brought no answer. Its endpoint does not count the request any
    /// more, although the gateway still has to answer the client.
    pub(super) fn end(&self) {
        if let Some(visit) = &mut *self.latest.borrow_mut() {
            visit.end();
        }
    }

    /// Notes that the head of the answer has come.
    pub(super) fn answered(&self, now: Timestamp) {
        self.time_to_head.set(Some(now.since(self.began.get())));
        if let Some(visit) = &mut *self.latest.borrow_mut() {
            visit.progress = AttemptProgress::Answered;
            let state = &visit.origin.state;
            state.responded(now);
            (state.metrics).responded(visit.worker, now.since(visit.began));
        }
    }

    /// Notes that the latest attempt failed, by the fault of its endpoint.
    pub(super) fn failed(&self, kind: EndpointFailure, cause: &str) {
        if let Some(visit) = &mut *self.latest.borrow_mut() {
            visit.progress = AttemptProgress::Failed;
            let failure = Failure {
                kind,
                cause,
                began: visit.began,
            };
            (visit.origins).failed(&visit.origin, &failure, visit.worker);
        }
    }
}

impl AttemptRecord {
    fn begin(
        origins: &Rc<Origins>,
        origin: &Rc<Origin>,
        worker: WorkerIndex,
        began: Timestamp,
    ) -> Self {
        origin.state.metrics.began(worker);
        origins.began(origin);
        Self {
            origins: Rc::clone(origins),
            origin: Rc::clone(origin),
            worker,
            began,
            progress: AttemptProgress::Waiting,
            is_over: false,
        }
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.origin.state.metrics.ended(self.worker);
            self.origins.ended(&self.origin);
        }
    }
}

impl Drop for AttemptRecord {
    fn drop(&mut self) {
        self.end();
        if self.progress == AttemptProgress::Answered {
            self.origin.answered();
        }
    }
}
