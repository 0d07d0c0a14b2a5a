//! What is known of one request's way through the endpoints of its upstream. It lives as long as the
//! answer: only its end shows whether the endpoint works.

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

/// The attempts to have one request answered.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Whether an origin may have seen some of the request.
    pub(super) is_sent: Cell<bool>,
    count: Cell<u32>,
    /// When the first one began.
    began: Cell<Timestamp>,
    took: Cell<Option<Micros>>,
    latest: RefCell<Option<AttemptRecord>>,
    /// Why the answer broke off, if it did.
    cause: RefCell<Option<Box<str>>>,
    /// Its place among those that the upstream may have at once.
    pub(super) permit: RefCell<Option<RequestPermit>>,
}

/// A request at an endpoint, until its answer has ended.
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
    /// There is no head yet.
    Waiting,
    /// There is a head, and nothing has failed since.
    Answered,
    Failed,
}

impl Attempts {
    /// Whether an origin may have seen some of the request.
    pub fn is_sent(&self) -> bool {
        self.is_sent.get()
    }

    /// Returns how many there were.
    pub fn count(&self) -> u32 {
        self.count.get()
    }

    /// Returns the time from the first one to the head of the answer, if it came.
    pub fn took(&self) -> Option<Micros> {
        self.took.get()
    }

    /// Returns the endpoint of the latest one.
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

    /// Notes that the answer broke off behind its head.
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

    /// Returns the endpoint of the latest one, as this worker knows it.
    pub(super) fn origin(&self) -> Option<Rc<Origin>> {
        let latest = self.latest.borrow();
        latest.as_ref().map(|visit| Rc::clone(&visit.origin))
    }

    /// Begins one.
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

    /// Notes that `origin` takes the request of the latest one, if that is another endpoint.
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

    /// Notes that the latest one has brought no answer. The answer that the client gets instead is no
    /// business of its endpoint.
    pub(super) fn end(&self) {
        if let Some(visit) = &mut *self.latest.borrow_mut() {
            visit.end();
        }
    }

    /// Notes the head of the answer.
    pub(super) fn answered(&self, now: Timestamp) {
        self.took.set(Some(now.since(self.began.get())));
        if let Some(visit) = &mut *self.latest.borrow_mut() {
            visit.progress = AttemptProgress::Answered;
            let state = &visit.origin.state;
            state.responded(now);
            (state.metrics).responded(visit.worker, now.since(visit.began));
        }
    }

    /// Notes that the latest one failed, by the fault of its endpoint.
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
