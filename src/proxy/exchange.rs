//! One request and its answer, from the head's arrival to the end of the answer's body.

use super::downstream::http1::{RequestGuard, RequestState};
use super::record::Record;
use crate::limiter::Decided;

/// What lives as long as a request does: it travels in its answer's body.
pub(crate) struct Exchange {
    /// Ends the request on its connection.
    request: RequestGuard,
    /// What the limiter decided, and the charge that may be settled.
    pub(crate) decided: Decided,
    /// What is recorded of it.
    pub(crate) record: Record,
}

impl Exchange {
    /// Begins an exchange whose head has arrived.
    pub(crate) fn new(request: RequestGuard, record: Record) -> Self {
        Self {
            request,
            decided: Decided::default(),
            record,
        }
    }

    /// Returns the request on its connection.
    pub(crate) fn request(&self) -> &RequestState {
        &self.request
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.record.finish(&self.decided);
    }
}
